"""Embedders against their definitions, and what makes them safe to use: no query's answer depends on another's."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from outrider.components import ComponentOf
from outrider.errors import UserError
from outrider.explore.embed import EMBEDDERS, Embedder, Random, Tfidf, Transformer
from outrider.tasks import Countdown

texts = st.lists(st.text("ab 12+", max_size=12), min_size=1, max_size=8)


def grams(text: str, analyzer: str, longest: int) -> Counter:
    """Words and signs, or characters with runs of white space as one, in windows of 1 to ``longest``."""
    text = text.lower()
    units = re.findall(r"\w+|[^\w\s]", text) if analyzer == "word" else list(re.sub(r"\s\s+", " ", text))
    return Counter(tuple(units[i : i + n]) for n in range(1, longest + 1) for i in range(len(units) - n + 1))


def cosine(query: str, text: str, corpus: list[str], analyzer: str, longest: int) -> float:
    """TF-IDF as in any textbook, with the smooth idf."""
    seen = Counter(gram for other in corpus for gram in set(grams(other, analyzer, longest)))

    def weighted(of: str) -> dict:
        return {
            gram: count * (1 + math.log((1 + len(corpus)) / (1 + seen[gram])))
            for gram, count in grams(of, analyzer, longest).items()
        }

    a, b = weighted(query), weighted(text)
    norms = math.sqrt(sum(v * v for v in a.values())) * math.sqrt(sum(v * v for v in b.values()))
    return sum(v * b.get(gram, 0.0) for gram, v in a.items()) / norms if norms else 0.0


@given(texts, texts, st.sampled_from(["word", "char"]), st.integers(1, 3))
def test_tfidf_is_its_definition(queries, corpus, analyzer, longest):
    got = Tfidf(analyzer=analyzer, ngrams=longest).cosines(queries, corpus)
    wanted = [[cosine(q, t, corpus, analyzer, longest) for t in corpus] for q in queries]
    assert got.dtype == np.float32
    assert got == pytest.approx(np.array(wanted), abs=1e-5)


@pytest.mark.parametrize("embedder", [Tfidf(), Tfidf(analyzer="char", ngrams=3), Random(seed=3)])
def test_an_answer_depends_on_its_query_and_the_texts_alone(embedder):
    """To the last bit: whether the texts came all at once or one by one, and whoever asks besides."""
    task = Countdown()
    corpus, queries = ([task.train(i).prompt for i in range(a, b)] for a, b in ((0, 40), (40, 50)))
    new = embedder.model_copy(deep=True)
    for n in range(1, len(corpus), 7):
        embedder.cosines(queries[:2], corpus[:n])
    together = embedder.cosines(queries, corpus)
    for i, query in enumerate(queries):
        assert (new.cosines([query], corpus)[0] == together[i]).all()
    assert (embedder.cosines(queries[::-1], corpus)[::-1] == together).all()
    assert (embedder.cosines(queries, corpus[1:]) == new.cosines(queries, corpus[1:])).all()  # one text less


def test_a_problem_is_most_like_itself_and_then_like_one_that_shares_its_numbers():
    corpus = ["3 4 5>12:", "7 8 9>24:", "3 4 6>13:", "10 11>21:"]
    [row] = Tfidf().cosines(["3 4 5>12:"], corpus)
    assert np.argsort(-row).tolist()[:2] == [0, 2]
    assert row[0] == pytest.approx(1)


def test_random_likeness_is_even_and_repeatable():
    corpus, queries = [f"text {i}" for i in range(200)], [f"query {i}" for i in range(50)]
    numbers = Random(seed=1).cosines(queries, corpus)
    assert np.histogram(numbers, bins=10, range=(0, 1))[0] == pytest.approx(np.full(10, 1000), abs=150)  # 5 deviations
    assert abs(np.corrcoef(numbers)[np.triu_indices(50, 1)]).mean() < 0.1  # rows have nothing to do with each other
    assert (Random(seed=1).cosines(queries[3:4], corpus[::-1])[:, ::-1] == numbers[3:4]).all()
    assert (Random(seed=2).cosines(queries, corpus) != numbers).any()


def test_embedders_are_components():
    component = TypeAdapter(Annotated[Embedder, ComponentOf(EMBEDDERS, "embedder", Embedder)])
    assert component.validate_python({"tfidf": {"ngrams": 3}}) == Tfidf(ngrams=3)
    assert component.validate_python("random") == Random()
    assert component.dump_python(component.validate_python({"transformer": {"model": "m"}})) == {
        "transformer": {"model": "m"}
    }
    with pytest.raises(ValidationError, match="did you mean 'tfidf'"):
        component.validate_python("tf-idf")


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UserError, match=r"model: some/model.* needs a package: pip install 'outrider\[embed\]'$"):
        Transformer(model="some/model").prepare()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A Hugging Face encoder of random weights that knows nothing of sentence-transformers."""
    pytest.importorskip("sentence_transformers")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"0123456789>:"]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_a_plain_encoder_is_pooled_by_the_mean(encoder):
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(encoder).eval(), AutoTokenizer.from_pretrained(encoder)

    def vector(text: str) -> np.ndarray:
        with torch.no_grad():
            mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        return (mean / mean.norm()).cpu().numpy()

    queries, corpus = ["3 4 > 7:", "9"], ["1 2 > 3:", "5 5", "3 4 > 7:"]
    wanted = [[vector(q) @ vector(t) for t in corpus] for q in queries]
    embedder = Transformer(model=str(encoder))
    assert embedder.cosines(queries, corpus) == pytest.approx(np.array(wanted), abs=1e-5)
    assert (embedder.cosines(queries[1:], corpus) == embedder.cosines(queries, corpus)[1:]).all()


def test_a_missing_model_is_one_sentence(encoder, tmp_path):
    with pytest.raises(UserError, match=r"embedder model '.*nowhere' cannot be loaded \("):
        Transformer(model=str(tmp_path / "nowhere")).prepare()
