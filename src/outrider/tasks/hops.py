"""The built-in agent task: multi-hop questions about random knowledge graphs. The policy answers them with a lookup
tool.

::

    prompt      K.bd?
    turn        K.b;    where does K's relation b lead?
    observed    RT;     to R and T
    turn        R.d;
    observed    -;      nowhere: a dead end
    turn        T.d;
    observed    M;
    turn        =M;     the answer

Every question has one answer. A hop leads to one or two entities, and only one of them leads to the answer. The other
entity leads to a dead end after one or two lookups. A question cannot be answered without lookups.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Annotated, ClassVar

from pydantic import Field

from outrider.environments.environment import Environment, Reply
from outrider.record import Problem, correct, identity_seed, incorrect, unparseable
from outrider.tasks.epochs import in_pool
from outrider.tasks.heldout import ORDER, Order, drawn, shuffled
from outrider.tasks.turn_task import TurnTask

ENTITIES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RELATIONS = "abcdef"
CHARACTERS = ENTITIES + RELATIONS + ".?;=-"
_CALL = re.compile(r"([A-Z])\.([a-z]);")
_ANSWER = re.compile(r"=([A-Z]);")
_HELDOUT_SHARE = 16  # one problem in sixteen is held out

Facts = dict[str, str]  # from a lookup such as "K.b" to the entities that it leads to, such as "RT"


class Hops(TurnTask):
    """Multi-hop questions. All numbers of hops in ``hops`` are equally likely, and each number is a difficulty level.

    Training and held-out problems are disjoint, because a hash of the question and its facts decides which problems are
    held out.

    >>> task = Hops()
    >>> problem = task.train(0)
    >>> environment = task.make_environment()
    >>> environment.begin(problem, 0)
    ''
    >>> [environment.step(turn) for turn in task.demonstration(problem)][-1].verdict.success
    True
    """

    characters: ClassVar[str] = CHARACTERS
    trusted: ClassVar[bool] = True

    hops: tuple[Annotated[int, Field(ge=1, le=8)], ...] = Field(
        (1, 2, 3, 4, 5, 6),
        min_length=1,
        description=(
            "possible numbers of hops (relations to follow) per question, drawn with equal probability; each number of "
            "hops is a difficulty level"
        ),
    )
    astray: float = Field(
        0.5,
        ge=0,
        le=1,
        description=(
            "probability that a hop also returns a second entity, which is a dead end; the last hop returns only the "
            "answer"
        ),
    )
    pool: int | None = Field(
        None,
        ge=1,
        description=(
            "number of questions in a finite training set that is repeated; null: an endless stream of new questions"
        ),
    )
    seed: int = Field(
        0, ge=0, description="random seed of the training questions; the held-out questions are the same for every seed"
    )
    careless: float = Field(
        0.0,
        ge=0,
        le=0.9,
        description=(
            "probability that a turn in a demonstration (a generated rollout for fine-tuning) is a random action"
        ),
    )
    heldout_order: Order = Field("shuffled", description=ORDER)

    @property
    def name(self) -> str:
        return "hops"

    @property
    def fingerprint(self) -> str:
        pool = "" if self.pool is None else f"/{self.pool}"
        order = "/shuffled" if self.heldout_order == "shuffled" else ""
        return f"hops/{','.join(map(str, self.hops))}/{self.astray:g}/{self.seed}{pool}{order}"

    def train(self, index: int) -> Problem:
        index = in_pool(self.seed, index, self.pool)
        for attempt in itertools.count():
            draw = Random(identity_seed(self.seed, "hops", index, attempt)).random
            problem = _draw(draw, self.hops[int(draw() * len(self.hops))], self.astray)
            if not is_heldout(problem.id):
                return problem
        raise AssertionError("unreachable")

    def heldout(self, n: int) -> list[Problem]:
        """Return the first ``n`` held-out problems, alternating between numbers of hops. The option ``seed`` has no
        effect.

        The list may be shorter than ``n``: it ends as soon as no problem is left for one of the numbers of hops. For
        example, ``heldout_order: shuffled`` gives only 214 problems with one hop.
        """
        if self.heldout_order == "shuffled":
            return _population(self.hops, self.astray)[:n]
        return drawn(
            self.hops,
            lambda dice, hops: _draw(dice.random, hops, self.astray),
            lambda problem: problem.id if is_heldout(problem.id) else None,
            seed="heldout hops",
            n=n,
        )

    @property
    def ends(self) -> Sequence[str]:
        return (";",)

    def make_environment(self) -> Environment:
        return HopsEnvironment()

    def demonstration(self, problem: Problem) -> list[str]:
        """Return the turns of a depth-first search through the knowledge graph. If a lookup gives two entities, the
        second is tried if the first leads nowhere.

        With probability ``careless``, a turn is random. A random turn chooses an entity that has been seen so far. With
        probability 1/2, the turn gives this entity as the answer. Otherwise, the turn looks up this entity with a
        random relation of the question. A careless demonstration may therefore be wrong or long. The demonstration
        depends only on the problem.
        """
        start, _, relations = problem.prompt[:-1].partition(".")
        random = Random(identity_seed("demonstration", problem.id))
        turns: list[str] = []
        read, left = [start], [(start, relations)]
        while True:
            careless = random.random() < self.careless
            if careless:
                entity, ahead = random.choice(read), random.choice(["", random.choice(relations)])
            else:
                entity, ahead = left.pop()
            if not ahead:
                return [*turns, f"={entity};"]
            turns.append(f"{entity}.{ahead[0]};")
            ends = problem.answer["facts"].get(f"{entity}.{ahead[0]}", "")
            read += [end for end in ends if end not in read]
            if not careless:
                left += [(end, ahead[1:]) for end in reversed(ends)]


class HopsEnvironment(Environment):
    """An environment that replies to lookups with the problem's facts, and verifies the answer."""

    def begin(self, problem: Problem, seed: int) -> str:
        self._facts, self._answer = problem.answer["facts"], problem.answer["answer"]
        return ""

    def step(self, text: str) -> Reply:
        if call := _CALL.fullmatch(text):
            return Reply(f"{self._facts.get(f'{call[1]}.{call[2]}', '-')};")
        if answer := _ANSWER.fullmatch(text):
            right = answer[1] == self._answer
            return Reply(done=True, verdict=correct(answer[1]) if right else incorrect(answer[1], "another entity"))
        if not text.endswith(";"):  # the policy ended the turn with an end token
            return Reply(done=True, verdict=unparseable("it ended without an answer"))
        return Reply("?;", error=True)


def is_heldout(problem_id: str) -> bool:
    """Return whether a problem is held out."""
    return int(problem_id[-2:], 16) % _HELDOUT_SHARE == 0


@lru_cache(maxsize=8)  # takes half a second, which every run of a bench would spend again
def _population(hops: tuple[int, ...], astray: float) -> list[Problem]:
    return shuffled(
        hops,
        lambda dice, number: _draw(dice.random, number, astray),
        lambda problem: problem.id if is_heldout(problem.id) else None,
        seed="hops",
    )


def _draw(draw: Callable[[], float], hops: int, astray: float) -> Problem:
    unused = list(ENTITIES)

    def entity() -> str:
        return unused.pop(int(draw() * len(unused)))

    at = start = entity()
    relations = "".join(RELATIONS[int(draw() * len(RELATIONS))] for _ in range(hops))
    facts: Facts = {}
    for hop, relation in enumerate(relations):
        way, last = entity(), hop == hops - 1
        others = [entity()] if not last and draw() < astray else []
        for other in others:
            if hop < hops - 2 and draw() < 0.5:  # the dead end comes one hop later
                facts[f"{other}.{relations[hop + 1]}"] = entity()
        leads = [way, *others]
        if draw() < 0.5:
            leads.reverse()
        facts[f"{at}.{relation}"] = "".join(leads)
        at = way
    text = f"{start}.{relations}?"
    written = " ".join(f"{call}>{ends}" for call, ends in sorted(facts.items()))
    key = hashlib.blake2b(f"{text} {written}".encode(), digest_size=8).hexdigest()
    return Problem(id=f"hops:{text}{key}", prompt=text, answer={"facts": facts, "answer": at}, level=str(hops))
