"""A task for search agents: the policy answers questions of a table with the help of a search engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field, model_validator

from outrider.components import ComponentOf
from outrider.environments.bm25 import Bm25
from outrider.environments.environment import Environment, Reply, beginning
from outrider.environments.environments import Make
from outrider.environments.passages import Passage, read_corpus
from outrider.environments.retriever import Index, Retriever
from outrider.environments.retrievers import RETRIEVERS
from outrider.record import Problem, unparseable
from outrider.tasks.turn_table import TurnTable
from outrider.tasks.turn_task import MARKS
from outrider.verify.thinking import TurnThinking
from outrider.verify.verifier import Verifier

_QUERY = re.compile(r".*<search>(.*)", re.DOTALL)
_INFORMATION = "\n<information>{}</information>\n"


class Search(TurnTable):
    """A task with the questions of a data file, and with a corpus that the policy can search. A turn ends with
    ``</search>`` or ``</answer>``.

    The reply to ``<search>query</search>`` contains the best passages, as ``<information>Doc 1(Title: …)
    …</information>``. If the rollout has used all its ``searches``, the reply is a notice instead.
    ``<answer>…</answer>`` ends the rollout. The verifier (usually ``qa``, an exact match with aliases) verifies only
    the rollout's last turn, so an answer in the prompt or a passage does not count. A turn without ``</search>`` or
    ``</answer>`` ends the rollout without an answer. The reply to ``</search>`` without an opening tag is an error. If
    the last sampled token also contains text after ``</search>`` or ``</answer>``, the turn keeps this text, but it has
    no effect. The passages of a reply are truncated to a total of ``longest`` characters. They are truncated further if
    the observation, including its tags, would exceed ``limits.bytes``.

    Source: Search-R1 (arXiv 2503.09516), for the tags, the format and the default of three passages. Tree-GRPO and
    DEEP-GRPO use the same tags, format and default. Deviation: in Search-R1, a turn without ``</search>`` or
    ``</answer>`` gets an error as its reply, and the rollout continues. In Outrider, such a turn ends the rollout,
    because the policy has sampled an end token.

    Raises:
        UserError: the corpus cannot be read, ``index`` belongs to another corpus, or a package is not installed.
    """

    corpus: list[str] = Field(
        min_length=1,
        description=(
            "JSON Lines files of passages; each line has the fields title and text, only the field context, or only "
            "the field contents"
        ),
    )
    index: str | None = Field(
        None, description="folder in which the search index is stored and reused; null: rebuild the index in every run"
    )
    retriever: Annotated[Retriever, ComponentOf(RETRIEVERS, "retriever", Retriever)] = Field(
        default_factory=Bm25, description="search method that finds the passages for a query, such as BM25"
    )
    passages: int = Field(3, ge=1, description="number of passages returned for each search")
    searches: int = Field(4, ge=1, description="maximum number of searches per rollout")
    longest: int = Field(
        2000,
        ge=1,
        description=(
            "maximum length, in characters, of the result of a search (all its passages together); longer results are "
            "truncated"
        ),
    )

    @model_validator(mode="after")
    def _room_for_tags(self) -> Search:
        if self.limits.bytes < MARKS:
            raise ValueError(f"limits.bytes: at least {MARKS}, for the tags of the passages")
        return self

    @property
    def name(self) -> str:
        return f"search on {self.problems.name}"

    @cached_property
    def _passages(self) -> list[Passage]:
        return read_corpus(self.corpus)

    @property
    def fingerprint(self) -> str:
        shown = f"{self.passages}/{self.searches}/{self.longest}"
        return f"search/{shown}/{self.retriever.fingerprint(self._passages)}/{self.problems.fingerprint}"

    @property
    def counts(self) -> Mapping[str, int]:
        return {**self.problems.counts, "passages": len(self._passages)}

    @property
    def ends(self) -> Sequence[str]:
        return ("</search>", "</answer>")

    def makes(self) -> Make:
        return MakeSearch(self)

    def example_turns(self, problem: Problem) -> list[str]:
        """Return three turns: a search for the first half of the question's words, a search for the second half, and an
        answer."""
        words = re.findall(r"\w+", str(problem.metadata.get("question", problem.prompt))) or ["1"]
        half = (len(words) + 1) // 2
        queries = (words[:half], words[half:] or words)
        return [*(f"<search>{' '.join(query)}</search>" for query in queries), f"<answer>{words[0]}</answer>"]


class MakeSearch:
    """Picklable function that creates environments, which share one index.

    The index is built when this object is created, so that errors appear at once. If the task has an index folder, the
    process that unpickles the object reads the index from this folder. Otherwise, the index is pickled with the object.
    """

    def __init__(self, task: Search, index: Index | None = None) -> None:
        self._task = task
        self._index = index or task.retriever.index(task._passages, task.index)

    def __getstate__(self) -> tuple[str, Index | None]:
        # the task as JSON, so that its loaded table and corpus are not pickled
        return self._task.model_dump_json(), None if self._task.index else self._index

    def __setstate__(self, state: tuple[str, Index | None]) -> None:
        options, index = state
        self.__init__(Search.model_validate_json(options), index)  # type: ignore[misc]
        self._task.problems.verifier.prepare()

    def __call__(self) -> Environment:
        return SearchEnvironment(self._task, self._index, self._task.problems.verifier)


class SearchEnvironment(Environment):
    """An environment that replies to searches and verifies the answer."""

    def __init__(self, task: Search, index: Index, verifier: Verifier) -> None:
        self._task, self._index, self._verifier = task, index, verifier

    def begin(self, problem: Problem, seed: int) -> str:
        self._thinking, self._left = TurnThinking(problem, self._verifier.thinking), self._task.searches
        return ""

    def step(self, text: str) -> Reply:
        problem = self._thinking.problem
        said = self._thinking.split(text).answer
        if "</answer>" in text:
            return Reply(done=True, verdict=self._verifier.verify(problem, text, True))
        if said is None and "</search>" in text:
            return Reply(_INFORMATION.format("Nothing was searched: the reasoning block is not closed."), error=True)
        before, ended, _ = (said or "").partition("</search>")
        if not ended:
            return Reply(done=True, verdict=unparseable("neither a search nor an answer"))
        if query := _QUERY.fullmatch(before):
            return self._searched(query[1].strip())
        # the turn ended at a closing tag, not because the policy ended it, so the rollout continues
        return Reply(_INFORMATION.format("A search is written <search>query</search>."), error=True)

    def _searched(self, query: str) -> Reply:
        if not self._left:
            return Reply(_INFORMATION.format("No search is left. Answer now."), error=True)
        self._left -= 1
        found = self._index.search(query, self._task.passages)
        if not found:
            return Reply(_INFORMATION.format("Nothing was found."), error=not query)
        shown = [f"Doc {i}(Title: {passage.title}) {passage.text}" for i, passage in enumerate(found, 1)]
        passages = "\n".join(shown)
        room = self._task.limits.bytes - len(_INFORMATION.format("").encode())
        if len(passages) <= self._task.longest and len(passages.encode("utf-8", "replace")) <= room:
            return Reply(_INFORMATION.format(passages))
        kept = beginning(passages[: self._task.longest], room - len("…".encode()))
        return Reply(_INFORMATION.format(f"{kept}…"), cut=True)
