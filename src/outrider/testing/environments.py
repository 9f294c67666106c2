"""The properties (laws) that every environment must have. For example, replies depend only on the problem, the seed and
the turns, and no turn causes a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cached_property, partial
from typing import Any

from outrider.environments.apart import ProcessEnvironments
from outrider.environments.environment import FLOOD_BYTES, Environment, Reply, flooded
from outrider.environments.environments import EnvironmentLimits, Environments, Failed, LocalEnvironments, Make
from outrider.environments.play import play, timeless
from outrider.record import Problem, Verdict
from outrider.testing.law import breaks, require, require_equal
from outrider.verify.plain_verdict import plain_verdict

EnvironmentExample = tuple[Problem, Sequence[str]]
"""A problem, and example turns that a policy could write."""

SEED = 5  # arbitrary seed that all environments get


class EnvironmentPlays:
    """An environment to test, with example episodes.

    Args:
        make: picklable function that creates an environment.
        seconds: time limit per turn, like ``limits.seconds`` of a task.
    """

    def __init__(self, make: Make, examples: Sequence[EnvironmentExample], seconds: float) -> None:
        self.make, self.examples = make, [(problem, list(turns)) for problem, turns in examples]
        self.limits = EnvironmentLimits(seconds, FLOOD_BYTES)

    @contextmanager
    def processes(self) -> Iterator[Environments]:
        """Context manager that yields environments in separate processes."""
        environments = ProcessEnvironments(self.make, self.limits)
        try:
            yield environments
        finally:
            environments.end()

    def played(self, environments: Environments) -> list[list[Reply]]:
        """Play the examples one after another, and return the replies to each example."""
        found = []
        for place, (problem, turns) in enumerate(self.examples, 1):
            with breaks(situation=f"example {place}"):
                found.append([_answered(said) for said in play(environments, (place, 0), problem, turns, SEED)])
        return found

    @cached_property
    def apart(self) -> tuple[list[list[Reply]], dict[str, list[Reply | Failed]]]:
        """The replies to the turns of each example, and the replies to malformed turns, from environments in separate
        processes.

        The keys of the second result name the example and the malformed turns.
        """
        with self.processes() as environments:
            return self.played(environments), self._to_odd_turns(environments)

    def _to_odd_turns(self, environments: Environments) -> dict[str, list[Reply | Failed]]:
        """Return the replies to malformed turns, keyed by the example and the kind of turns, up to the first failure.
        Later turns are not played, because each turn that hangs uses the whole time limit."""
        found: dict[str, list[Reply | Failed]] = {}
        for place, (problem, turns) in enumerate(self.examples, 1):
            for number, (name, odd) in enumerate(odd_turns(turns).items()):
                said = found[f"example {place}, {name}"] = play(environments, (place, number), problem, odd, SEED)
                if isinstance(said[-1], Failed):
                    return found
        return found

    @property
    def alone(self) -> list[list[Reply]]:
        """The replies to the turns of each example, from an environment in a separate process."""
        return self.apart[0]


def leaves_the_problem(plays: EnvironmentPlays) -> None:
    """The environment does not change the problem, which other rollouts of the group use as well."""
    for place, (problem, turns) in enumerate(plays.examples, 1):
        before = deepcopy(problem)
        play(LocalEnvironments(plays.make, plays.limits), (place, 0), problem, turns, SEED)
        with breaks(situation=f"example {place}"):
            require_equal(problem.answer, before.answer, "the problem's answer after a play")
            require_equal(problem.metadata, before.metadata, "the problem's metadata after a play")


def gives_plain_replies(plays: EnvironmentPlays) -> None:
    """``begin`` returns a string, and ``step`` returns a ``Reply`` whose fields have the right types.

    Only a reply with ``done`` may have a verdict. The verdict's score must be consistent with its outcome.
    """
    for place, (problem, turns) in enumerate(plays.examples, 1):
        environment = plays.make()
        with breaks(situation=f"example {place}"):
            opening = environment.begin(problem, SEED)
            require(isinstance(opening, str), f"begin returned {opening!r}, which is no text")
            for turn in turns:
                reply = environment.step(turn)
                require_plain(reply, f"the reply to {turn!r}")
                if reply.done:
                    break
        with suppress(Exception):  # covered by another law
            environment.close()


def require_plain(reply: object, what: str) -> None:
    """Raise :class:`outrider.testing.LawError` unless a reply's fields have the correct types and are consistent."""
    require(isinstance(reply, Reply), f"{what} is {type(reply).__name__}, not a Reply")
    assert isinstance(reply, Reply)
    require(isinstance(reply.observation, str), f"{what} has the observation {reply.observation!r}, which is no text")
    for name in ("done", "error", "cut"):
        value = getattr(reply, name)
        require(isinstance(value, bool), f"{what} has {name}={value!r}, which is no truth value")
    flood = flooded([reply.observation], 0)
    require(not flood, f"{what} has {flood}")
    if reply.verdict is None:
        return
    require(isinstance(reply.verdict, Verdict), f"{what} has the verdict {reply.verdict!r}, which is no Verdict")
    require(reply.done, f"{what} has a verdict, but is not done: the verdict would be lost")
    given, plain = (
        f"{v.outcome.value} with the score {v.score:g}" for v in (reply.verdict, plain_verdict(reply.verdict))
    )
    require(given == plain, f"{what} has the verdict {given}, which contradicts itself")


def works_in_a_process(plays: EnvironmentPlays) -> None:
    """A separate process can import the environment. In that process, the environment answers every turn within the
    time limit."""
    assert plays.alone


def says_the_same_again(plays: EnvironmentPlays) -> None:
    """The same problem, seed and turns give the same replies in another process.

    Branches and resumed runs rely on this law. The other process has a different hash seed, so that the iteration order
    of a set of strings differs.
    """
    with plays.processes() as environments:
        again = plays.played(environments)
    for place, (found, expected) in enumerate(zip(again, plays.alone, strict=True), 1):
        with breaks(situation=f"example {place}"):
            require_same(found, expected, "a second play")


def shares_no_state(plays: EnvironmentPlays) -> None:
    """If several environments share a process, each replies as if it were alone, even after another environment is
    closed."""
    environments = LocalEnvironments(plays.make, plays.limits)
    running = {(place, k): list(turns) for place, (_, turns) in enumerate(plays.examples) for k in range(2)}
    found: dict[tuple[int, int], list[Reply]] = {key: [] for key in running}
    for place, (problem, _) in enumerate(plays.examples):
        for k in range(3):
            environments.begin((place, k), problem, SEED)
    environments.close([(place, 2) for place in range(len(plays.examples))])
    asked = list(running)
    while asked:
        for key, said in environments.answers():
            if key in found:
                with breaks(situation=f"example {key[0] + 1}"):
                    found[key].append(_answered(said))
        over = [key for key in asked if found[key][-1].done or not running[key]]
        environments.close(over)
        asked = [key for key in asked if key not in over]
        for key in asked:
            environments.act(key, running[key].pop(0))
    for (place, _), replies in found.items():
        with breaks(situation=f"example {place + 1}"):
            require_same(replies, plays.alone[place], "beside other environments")


def require_same(found: Sequence[Reply], expected: Sequence[Reply], what: str) -> None:
    """Raise :class:`outrider.testing.LawError` at the first reply that differs. The verdict's seconds may differ."""
    for turn, (one, other) in enumerate(zip(found, expected, strict=False)):
        where = f"{what}: the reply to turn {turn}" if turn else f"{what}: what begin returned"
        require_equal(_fields(one), _fields(other), where)


def takes_odd_turns(plays: EnvironmentPlays) -> None:
    """Every turn gets a reply with an observation of at most 1 MiB. No turn causes an exception or a hang."""
    for situation, said in plays.apart[1].items():
        with breaks(situation=situation):
            for answer in said:
                _answered(answer)


def odd_turns(turns: Sequence[str]) -> dict[str, list[str]]:
    """Return sequences of unusual turns that a policy may write. The keys describe the unusual turns.

    >>> odd_turns(["3;", "7;"])["an empty turn"], odd_turns(["3;", "7;"])["every turn twice"]
    (['', '3;', ''], ['3;', '3;', '7;', '7;'])
    """
    first = list(turns[:1])
    texts = {
        "an empty turn": "",
        "white space": " \n\t\n",
        "control characters": "\x00\x1b[2J\x7f\ufffd",
        "a long turn": "a " * 50_000,
        "a long number": "9" * 10_000,
        "a turn without its end": "".join(first)[:-1],
    }
    named = {name: [text, *first, text] for name, text in texts.items()}
    return {**named, "every turn twice": [turn for turn in turns for _ in range(2)]}


def closes_after_any_turn(plays: EnvironmentPlays) -> None:
    """``close`` raises no exception after any number of turns."""
    for place, (problem, turns) in enumerate(plays.examples, 1):
        for count, reply in enumerate(plays.alone[place - 1]):
            with breaks(situation=f"example {place}, after {count} turns"):
                environment = plays.make()
                environment.begin(problem, SEED)
                for turn in turns[:count]:
                    environment.step(turn)
                environment.close()
            if reply.done:
                break


ENVIRONMENT_LAWS: dict[str, Callable[[EnvironmentPlays], None]] = {
    "problem unchanged": leaves_the_problem,
    "replies": gives_plain_replies,
    "process": works_in_a_process,
    "replay": says_the_same_again,
    "state apart": shares_no_state,
    "odd turns": takes_odd_turns,
    "close": closes_after_any_turn,
}
"""The laws of every environment. ``problem unchanged`` comes first, because the other laws use the same problems."""


def environment_checks(
    make: Make, examples: Sequence[EnvironmentExample], seconds: float
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each law (tested property), with a function that checks this law on every example.

    Raises:
        TypeError: ``make`` does not create an environment.
    """
    made: Any = make()
    if not isinstance(made, Environment):
        raise TypeError(f"{type(made).__name__} is not an Environment")
    plays = EnvironmentPlays(make, examples, seconds)
    for law, rule in ENVIRONMENT_LAWS.items():
        yield law, partial(_check, law, rule, plays, type(made).__name__)


def _check(law: str, rule: Callable[[EnvironmentPlays], None], plays: EnvironmentPlays, component: str) -> None:
    with breaks(law, component=component):
        rule(plays)


def _answered(said: Reply | Failed) -> Reply:
    """Return the reply, or raise an exception if the environment failed."""
    if isinstance(said, Failed):
        require(False, f"it failed: {said.why}")
    assert isinstance(said, Reply)
    return said


def _fields(reply: Reply) -> Mapping[str, Any]:
    """Return a reply's fields by name, for comparison. The verdict is converted to a string, since its score may be
    NaN."""
    plain = timeless(reply)
    assert isinstance(plain, Reply)
    return {**plain._asdict(), "verdict": repr(plain.verdict)}
