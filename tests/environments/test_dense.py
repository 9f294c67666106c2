"""Searching passages by vectors, with a small model of the real package."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from outrider.environments.dense import Dense
from outrider.environments.passages import Passage
from outrider.errors import UserError

model2vec = pytest.importorskip("model2vec")
WORDS = {"[UNK]": (0, 0), "fox": (2, 0), "dog": (1, 1), "sea": (0, 3), "ship": (-1, 3), "query": (0, 0.01)}
PASSAGES = [Passage("fox", "fox"), Passage("dog", "fox"), Passage("sea", "ship"), Passage("[UNK]", "[UNK]")]


def saved(folder: Path, turned: bool = False) -> str:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    vectors = np.array(list(WORDS.values()), np.float32)
    model2vec.StaticModel(vectors[:, ::-1] if turned else vectors, tokenizer).save_pretrained(str(folder))
    return str(folder)


@pytest.fixture
def dense(tmp_path: Path) -> Dense:
    return Dense(model=saved(tmp_path / "model"))


def mean(text: str) -> np.ndarray:
    vectors = [WORDS[word] for word in text.split() if word != "[UNK]"]
    return np.mean(vectors, axis=0) if vectors else np.zeros(2)


@pytest.mark.parametrize("query", ["fox", "dog", "sea", "ship fox", "dog dog sea"])
def test_passages_are_ranked_by_cosine(dense: Dense, query: str) -> None:
    def cosine(passage: Passage) -> float:
        q, p = mean(query), mean(f"{passage.title} {passage.text}")
        return float(q @ p) / (math.hypot(*q) * math.hypot(*p) or 1.0)

    expected = sorted(PASSAGES, key=cosine, reverse=True)
    index = dense.index(PASSAGES, None)
    assert index.search(query, 9) == expected
    assert index.search(query, 2) == expected[:2]


def test_no_query_finds_nothing_and_a_prefix_belongs_to_it(dense: Dense) -> None:
    assert dense.index(PASSAGES, None).search(" ", 3) == []
    with_prefix = dense.model_copy(update={"query": "query "})
    assert with_prefix.index(PASSAGES, None).search("[UNK]", 1) == [Passage("sea", "ship")], "its prefix alone is known"


def test_an_index_is_kept_and_is_of_one_corpus_and_one_model(dense: Dense, tmp_path: Path) -> None:
    place = tmp_path / "kept" / "index"
    made = dense.index(PASSAGES, str(place))
    read = dense.index(PASSAGES, str(place))
    assert read.search("sea", 3) == made.search("sea", 3)
    for options, passages in ((dense.model_copy(update={"passage": "a "}), PASSAGES), (dense, PASSAGES[:2])):
        with pytest.raises(UserError, match="is the index of another corpus, or was built with other options"):
            options.index(passages, str(place))
    saved(tmp_path / "model", turned=True)  # another model under the same name
    with pytest.raises(UserError, match=r"was built with another version of .*model: remove the folder"):
        dense.index(PASSAGES, str(place))


def test_an_index_is_sent_to_other_processes(dense: Dense) -> None:
    index = dense.index(PASSAGES, None)
    assert pickle.loads(pickle.dumps(index)).search("sea", 2) == index.search("sea", 2)


def test_a_model_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model2vec cannot load .*nothing"):
        Dense(model=str(tmp_path / "nothing")).index(PASSAGES, None)
