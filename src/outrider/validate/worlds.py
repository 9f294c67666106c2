"""Whether environments say the same to the same turns, as branches need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.environments.tool_calls import example_calls
from outrider.environments.worlds import Failed, Worlds
from outrider.record import Problem
from outrider.tasks.turn_task import TurnTask

PROBLEMS = 8  # that are played, twice each
_WORDS = ("1", "2", "1")  # where a task shows no turns of its own


class WorldsCompared(NamedTuple):
    """How many problems were played twice, those that did not go alike, and a sentence for each that failed."""

    played: int
    otherwise: list[str]
    failed: list[str]

    @property
    def sentence(self) -> str:
        """In words.

        >>> WorldsCompared(8, [], []).sentence
        'environments: 8 problems were played twice, and the same was said to the same turns'
        """
        told = f"environments: {self.played} problems were played twice"
        if self.failed:
            return f"{told}; {len(self.failed)} failed, such as {self.failed[0]}"
        if self.otherwise:
            return (
                f"{told}; {len(self.otherwise)} went otherwise, such as {self.otherwise[0]}: a recipe that branches "
                "finds no world to go on in"
            )
        return f"{told}, and the same was said to the same turns"


def compare_worlds(task: TurnTask, problems: Sequence[Problem]) -> WorldsCompared:
    """Give two worlds of each problem the same turns: those of a demonstration, or a call of each tool and
    short words."""
    worlds, otherwise, failed = task.worlds(), [], []
    for number, problem in enumerate(problems[:PROBLEMS]):
        end = task.ends[0] if task.ends else ""
        tried = [*example_calls(problem.tools), *(f"{word}{end}" for word in _WORDS)]
        turns = task.demonstration(problem) or tried
        one, other = (_played(worlds, (number, k), problem, turns) for k in range(2))
        if bad := [said for said in (*one, *other) if isinstance(said, Failed)]:
            failed.append(f"{problem.id} ({bad[0].why})")
        elif one != other:
            otherwise.append(problem.id)
    return WorldsCompared(min(len(problems), PROBLEMS), otherwise, failed)


def _played(worlds: Worlds, key: tuple[int, int], problem: Problem, turns: Sequence[str]) -> list[object]:
    """All that a world says."""
    worlds.begin(key, problem, seed=0)
    said: list[object] = []
    for turn in [*turns, None]:
        [(_, answer)] = worlds.answers()
        said.append(answer if isinstance(answer, Failed) else _timeless(answer))
        if turn is None or isinstance(answer, Failed) or answer.done:
            break
        worlds.act(key, turn)
    worlds.close([key])
    return said


def _timeless(answer: object) -> object:
    verdict = getattr(answer, "verdict", None)
    return answer if verdict is None else (answer[:2], verdict.outcome, verdict.answer)  # type: ignore[index]
