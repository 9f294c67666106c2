"""Searching passages, and the task that answers questions with it."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_dense import saved as static_model
from test_environments import heard

from outrider.cli import main
from outrider.config import load_recipe
from outrider.environments.apart import ProcessEnvironments
from outrider.environments.bm25 import Bm25
from outrider.environments.dense import Dense
from outrider.environments.environment import Reply
from outrider.environments.environments import EnvironmentLimits, LocalEnvironments
from outrider.environments.passages import Passage, read_corpus
from outrider.environments.retriever import Index, recall
from outrider.errors import UserError
from outrider.model.load import save_policy
from outrider.model.tiny import tiny_policy
from outrider.record import Problem
from outrider.runs.folder import RunFolder
from outrider.tasks import Search
from outrider.validate.environments import compare_environments

pytest.importorskip("bm25s")
DATA = Path(__file__).parents[2].parent / "shared" / "data"
PASSAGES = [
    Passage("Alpha", "The red fox lives in the forest of Arden."),
    Passage("Beta", "A blue whale lives in the sea."),
    Passage("Gamma", "The forest of Arden is in Warwickshire."),
    Passage("Delta", "Nothing here is of interest."),
]


def by_hand(query: Sequence[str], passages: Sequence[Sequence[str]], k1: float, b: float) -> list[float]:
    """Okapi BM25 as Lucene computes it, word by word."""
    mean = sum(map(len, passages)) / len(passages)
    scores = []
    for words in passages:
        score = 0.0
        for word in query:
            n, times = sum(word in other for other in passages), words.count(word)
            idf = math.log(1 + (len(passages) - n + 0.5) / (n + 0.5))
            score += idf * times / (times + k1 * (1 - b + b * len(words) / mean))
        scores.append(score)
    return scores


def test_passages_are_ranked_as_bm25_says() -> None:
    words = [
        ["alpha", "red", "fox", "fox"],
        ["beta", "blue", "fox"],
        ["gamma", "red", "red", "sea", "sky", "sun", "dew"],
    ]
    passages = [Passage(first, " ".join(rest)) for first, *rest in words]
    for options in (Bm25(), Bm25(k1=1.5, b=0.75), Bm25(b=1.0)):
        for query in (["red"], ["fox", "red"], ["sea", "blue", "fox"]):
            scores = by_hand(query, words, options.k1, options.b)
            ranked = sorted(range(3), key=lambda i: -scores[i])
            found = options.index(passages, None).search(" ".join(query), 3)
            assert found == [passages[i] for i in ranked if scores[i] > 0], (options, query)


def test_what_has_no_word_of_the_query_is_not_found() -> None:
    index = Bm25().index(PASSAGES, None)
    assert [passage.title for passage in index.search("forest of Arden", 9)] == ["Gamma", "Alpha"]
    assert index.search("xylophone", 3) == index.search("", 3) == index.search("?!", 3) == []
    assert recall(index, "forest", ["Alpha", "Beta"], 2) == 0.5
    assert math.isnan(recall(index, "forest", [], 2))


def test_an_index_is_made_once_and_is_of_one_corpus(tmp_path: Path) -> None:
    place = tmp_path / "index"
    made = Bm25().index(PASSAGES, str(place))
    written = sorted((path.name, path.stat().st_mtime_ns) for path in place.iterdir())
    read = Bm25().index(PASSAGES, str(place))
    assert read.search("forest", 3) == made.search("forest", 3)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in place.iterdir()) == written
    for options, passages in ((Bm25(b=0.5), PASSAGES), (Bm25(), PASSAGES[:3])):
        with pytest.raises(UserError, match="is the index of another corpus, or was built with other options"):
            options.index(passages, str(place))
    with pytest.raises(UserError, match="exists and is not an index of passages"):
        Bm25().index(PASSAGES, str(tmp_path))


class Raced(Bm25):
    """Another process is quicker."""

    def make(self, passages: Sequence[Passage]) -> Index:
        Bm25(b=float(passages[0].title)).index(passages, passages[0].text)
        return super().make(passages)


def test_of_two_that_make_one_index_at_a_time_the_first_stays(tmp_path: Path) -> None:
    place = str(tmp_path / "index")
    same = [Passage("0.4", place), *PASSAGES]
    assert Raced().index(same, place).search("whale", 1) == [PASSAGES[1]]
    assert Bm25().index(same, place).search("whale", 1) == [PASSAGES[1]]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    place = str(tmp_path / "other")
    with pytest.raises(UserError, match="is the index of another corpus"):
        Raced().index([Passage("0.9", place), *PASSAGES], place)


def test_a_corpus_is_read_from_passages_and_from_contexts(tmp_path: Path) -> None:
    rows = [{"title": "A", "text": "one"}, {"context": [{"title": "B", "sentences": ["two.", " three."]}]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(json.dumps({"title": "A", "text": "one"}) + "\n")
        for contents in ('"C"\nthree\nfour', "five"):  # Search-R1's, and one without a title
            file.write(json.dumps({"id": "0", "contents": contents}) + "\n")
    found = read_corpus([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl.gz")])
    assert found == [Passage("A", "one"), Passage("B", "two. three."), Passage("C", "three\nfour"), Passage("", "five")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"title": "A", "txt": "one"}',
            r"c.jsonl:1 has neither title and text nor context nor contents \(did you mean 'txt'\?\)",
        ),
        ('{"contents": 7}', "c.jsonl:1 has neither title and text nor context nor contents"),
        ("7", "c.jsonl:1 has neither title and text nor context"),
        ("{", "c.jsonl cannot be read"),
        ("", "has no passages"),
    ],
)
def test_what_is_no_corpus_is_a_sentence(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "c.jsonl").write_text(line)
    with pytest.raises(UserError, match=said):
        read_corpus([str(tmp_path / "c.jsonl")])
    with pytest.raises(UserError, match=r"gone.jsonl cannot be read \(.*No such file"):
        read_corpus([str(tmp_path / "gone.jsonl")])


@pytest.fixture
def task(tmp_path: Path) -> Search:
    rows = [{"question": f"Where is it, {i}?", "answer": "Warwickshire", "also": ["Warks"]} for i in range(12)]
    for name, part in {"train": rows[:8], "held": rows[8:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(passage._asdict()) + "\n" for passage in PASSAGES))
    return Search.model_validate(
        {
            "corpus": [str(corpus)],
            "searches": 2,
            "problems": {
                "train_data": str(tmp_path / "train.jsonl"),
                "heldout_data": str(tmp_path / "held.jsonl"),
                "prompt": "{question}\n",
                "question": "question",
                "verifier": {"qa": {"aliases": "also"}},
            },
        }
    )


def test_an_environment_searches_and_has_the_answer_verified(task: Search) -> None:
    environment, problem = task.make_environment(), task.train(0)
    environment.begin(problem, 0)
    found = environment.step("I look. <search> forest of Arden </search>")
    assert found.observation == (
        "\n<information>Doc 1(Title: Gamma) The forest of Arden is in Warwickshire.\n"
        "Doc 2(Title: Alpha) The red fox lives in the forest of Arden.</information>\n"
    )
    assert environment.step("<search></search>") == Reply(
        "\n<information>Nothing was found.</information>\n", error=True
    )
    assert environment.step("<search>sea</search>").observation == (
        "\n<information>No search is left. Answer now.</information>\n"
    )
    right = environment.step("<think>so</think><answer>the Warks</answer>")
    assert (right.done, right.verdict is not None and right.verdict.success) == (True, True)


def test_a_search_in_reasoning_that_is_not_closed_is_not_made(task: Search) -> None:
    environment = task.make_environment()
    environment.begin(task.train(0), 0)
    refused = Reply(
        "\n<information>Nothing was searched: the reasoning block is not closed.</information>\n", error=True
    )
    assert environment.step("<think>perhaps <search>forest of Arden</search>") == refused
    assert environment.step("or rather <search>sea</search>") == refused, "the block goes on in the next turn"
    assert "red fox" in environment.step("enough</think><search>forest of Arden</search>").observation
    assert "red fox" in environment.step("<search>forest of Arden</search>").observation, (
        "neither of the two is used up"
    )
    unclosed = environment.step("<think>or <answer>the Warks</answer>").verdict
    assert unclosed is not None
    assert unclosed.detail == "reasoning block not closed"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("<answer>Warwickshire</answer>", "correct"),
        ("<search>x <answer>Warwickshire</answer>", "correct"),  # a tag that ends no turn is text
        ("<answer>Warwickshire</answer> so", "correct"),
        ("<answer>sea</answer>", "incorrect"),
        ("Warwickshire", "unparseable"),
        ("</answer>", "unparseable"),
    ],
)
def test_what_ends_a_rollout(task: Search, text: str, outcome: str) -> None:
    environment = task.make_environment()
    environment.begin(task.train(0), 0)
    reply = environment.step(text)
    assert reply.done
    assert reply.verdict is not None
    assert reply.verdict.outcome == outcome


@pytest.mark.parametrize("end", ["", "\n", ".", ">\n\nso", "</"])
def test_what_the_last_token_holds_behind_a_search_is_ignored(task: Search, end: str) -> None:
    """A stop text may end inside a token: such a search was told that it is none, and ended its rollout."""
    environment = task.make_environment()
    environment.begin(task.train(0), 0)
    assert "blue whale" in environment.step(f"<search>x <search>whale</search>{end}").observation


def test_a_search_that_nothing_opens_is_told_so(task: Search) -> None:
    environment = task.make_environment()
    environment.begin(task.train(0), 0)
    said = environment.step("whale</search>")
    assert (said.done, said.error) == (False, True)
    assert said.observation == "\n<information>A search is written <search>query</search>.</information>\n"


def test_environments_of_their_own_share_an_index(task: Search, tmp_path: Path) -> None:
    indexed = task.model_copy(update={"index": str(tmp_path / "index")})
    environments = ProcessEnvironments(indexed.makes(), EnvironmentLimits(seconds=60.0))
    assert (tmp_path / "index" / "outrider.json").is_file()
    environments.begin((0, 0), task.train(0), 0)
    heard(environments, 1)
    # read before environments are forked, and not by each of them on the time of its turn
    shutil.rmtree(tmp_path / "index")
    Path(task.corpus[0]).unlink()
    environments.begin((0, 1), task.train(0), 0)
    heard(environments, 1)
    for k in range(2):
        environments.act((0, k), "<search>whale</search>")
    for reply in heard(environments, 2).values():
        assert isinstance(reply, Reply)
        assert "blue whale" in reply.observation
    environments.close([(0, 0), (0, 1)])


def test_long_passages_are_shown_as_far_as_they_may_be(task: Search) -> None:
    environment = task.model_copy(update={"longest": 30}).make_environment()
    environment.begin(Problem("p", "", []), 0)
    assert environment.step("<search>sea</search>") == Reply(
        "\n<information>Doc 1(Title: Beta) A blue whal…</information>\n", cut=True
    )


@pytest.mark.parametrize(
    ("text", "most"), [("鯨 whale " + "字" * 2000, 4096), ("whale " + "a" * 9000, 4096), ("whale " + "é" * 40, 100)]
)
def test_passages_keep_their_tags_within_the_limit_of_bytes(task: Search, tmp_path: Path, text: str, most: int) -> None:
    """2,000 characters may be 6,000 bytes; whoever asks cuts at the end, where the tag is."""
    (tmp_path / "long.jsonl").write_text(json.dumps({"title": "A", "text": text}) + "\n")
    options = {**task.model_dump(mode="json"), "corpus": [str(tmp_path / "long.jsonl")], "longest": 5000}
    long = Search.model_validate({**options, "limits": {"bytes": most, "seconds": 60.0}})
    environments = LocalEnvironments(long.makes(), EnvironmentLimits(60.0, most))
    environments.begin((0, 0), long.train(0), 0)
    heard(environments, 1)
    environments.act((0, 0), "<search>whale</search>")
    [reply] = heard(environments, 1).values()
    assert isinstance(reply, Reply)
    assert reply.cut
    assert reply.observation.startswith("\n<information>Doc 1(Title: A)")
    assert reply.observation.endswith("…</information>\n")
    assert most - 3 <= len(reply.observation.encode()) <= most


def test_validate_searches(task: Search) -> None:
    [problem] = task.heldout(1)
    assert task.example_turns(problem)[0] == "<search>Where is</search>"
    compared = compare_environments(task.model_copy(update={"searches": 4}), [problem])
    assert compared == (1, [], [], 2)
    assert "with 2 turns answered" in compared.sentence


def test_a_corpus_without_a_word_that_counts_is_a_sentence() -> None:
    with pytest.raises(
        UserError, match=r"no passage of the corpus has a word that BM25 can find, such as 'The\\nto be'"
    ):
        Bm25().index([Passage("The", "to be"), Passage("a", "b c")], None)
    assert Bm25().index([Passage("The", "to be"), PASSAGES[1]], None).search("whale the", 2) == [PASSAGES[1]]


@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_a_small_model_trains_with_it(task: Search, tmp_path: Path, kind: str) -> None:
    """Random, of these characters: what it writes is seldom a call."""
    if kind == "dense":
        task = task.model_copy(update={"retriever": Dense(model=static_model(tmp_path / "static"))})
    characters = "".join(sorted({*"abcdefghijklmnopqrstuvwxyz<>/()_:1234567890,.? \nABCDGNTVW'"}))
    save_policy(tiny_policy(0, characters=characters), tmp_path / "model", {})
    words = ["train", "deep-grpo", f"task={json.dumps({'search': task.model_dump(mode='json')})}"]
    words += [f"model={tmp_path / 'model'}", "sample.max_tokens=64", "train.steps=2", "train.tokens=null"]
    words += ["train.problems=3", "train.ranks=1", "train.trackers=[]", "explore.1.segment=turns", "explore.0.n=4"]
    words += ["evaluate={problems: 2, n: 2, bootstrap: 0, greedy: false}", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics()] == [1, 2]


def test_the_recipe_names_it(task: Search) -> None:
    options = json.dumps({"search": task.model_dump(mode="json")})
    assert load_recipe("grpo", [f"task={options}", "sample.max_tokens=64"]).task == task


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data sets are not here")
@pytest.mark.parametrize(
    ("corpus", "questions", "at_2", "at_5"),
    [
        # BM25 in HippoRAG (arXiv 2405.14831, table 2), over corpora of about that size: 0.518 and 0.619 on
        # 2WikiMultihopQA, 0.554 and 0.722 on HotpotQA; here on fewer questions
        (["2wikimultihopqa/corpus.jsonl.gz"], "2wikimultihopqa/dev150.jsonl", 0.518, 0.619),
        (["hotpotqa/distractor300.jsonl", "hotpotqa/train100.jsonl"], "hotpotqa/distractor300.jsonl", 0.554, 0.722),
    ],
)
def test_recall_of_what_questions_rest_on_is_of_the_published_size(
    corpus: list[str], questions: str, at_2: float, at_5: float
) -> None:
    index = Bm25().index(read_corpus([str(DATA / file) for file in corpus]), None)
    found = {2: 0.0, 5: 0.0}
    rows = [json.loads(line) for line in (DATA / questions).read_text().splitlines()]
    for row in rows:
        titles = row.get("supporting_titles") or sorted({title for title, _ in row["supporting_facts"]})
        for k in found:
            found[k] += recall(index, row["question"], titles, k) / len(rows)
    assert found == pytest.approx({2: at_2, 5: at_5}, abs=0.12)
