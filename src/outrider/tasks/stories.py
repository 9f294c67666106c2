"""Generates word problems about amounts that depend on each other, in plain English, with worked solutions.

A story is generated in two parts. The *shape* is the random sequence of calculation steps, and the *telling* adds
random numbers, names and words. All stories with the same shape are solved in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from outrider.tasks.dice import Dice

Shape = tuple[str, ...]
"""The steps of a story: a beginning, relations to the latest amount, events that change this amount, and a question."""

BEGINNINGS = {"given": 0, "packs": 1}  # number of calculations for each kind of beginning
RELATIONS = ("more", "fewer", "times", "part", "together", "gap")
EVENTS = ("finds", "loses")
QUESTIONS = {"count": 0, "total": 1, "less": 1, "price": 1}
_Calculation = tuple[int, str, int, int]  # a, sign, b, result
ATTEMPTS = 100  # maximum attempts to tell a shape; then another shape is drawn
_SIGNS = {"more": "+", "finds": "+", "together": "+", "total": "+", "fewer": "-", "loses": "-", "gap": "-", "less": "-",
          "times": "*", "packs": "*", "price": "*", "part": "/"}  # fmt: skip
_WORDS = {"+": "{a} plus {b} is {v}", "-": "{a} minus {b} is {v}", "*": "{a} times {b} is {v}",
          "/": "{a} divided by {b} is {v}"}  # fmt: skip


class Manner(NamedTuple):
    """The style in which a solution is written.

    Attributes:
        words: whether calculations are written in words instead of signs.
        in_parts: whether calculations with numbers above 10 are split into simpler calculations.
        quotes: whether each calculation is preceded by a quotation of the sentence that it uses.
    """

    words: bool
    in_parts: bool
    quotes: bool


class Story(NamedTuple):
    """A generated word problem.

    Attributes:
        steps: number of calculations in the solution.
        key: the calculation steps with their numbers. Stories with equal keys are the same problem in different words.
        solution: a correct solution in one of many possible wordings.
    """

    shape: Shape
    steps: int
    key: str
    question: str
    solution: str
    answer: int
    manner: Manner


class Ranges(NamedTuple):
    """The largest amount that a story may give, and the largest amount that may result from a calculation."""

    highest: int
    cap: int


def draw_manner(draw: Dice) -> Manner:
    """Draw the style of a solution.

    One in three solutions writes calculations in words, and one in two quotes the story. One in five splits
    calculations into parts, which needs more tokens but is less error-prone.
    """
    return Manner(draw.below(3) == 0, draw.below(5) == 0, draw.below(2) == 0)


def draw_story(draw: Dice, steps: int, aside: int, ranges: Ranges) -> Story:
    """Draw a story with ``steps`` calculations and up to ``aside`` irrelevant sentences."""
    while True:
        shape = draw_shape(draw, steps)
        if story := tell(draw, shape, aside, ranges, draw_manner(draw)):
            return story


def draw_shape(draw: Dice, steps: int) -> Shape:
    """Draw the sequence of steps of a story that needs ``steps`` calculations."""
    question = draw.one_of([*QUESTIONS] if steps > 1 else ["count"])
    left = steps - QUESTIONS[question]
    beginning = draw.one_of([*BEGINNINGS] if left > 1 else ["given"])
    left -= BEGINNINGS[beginning]
    events = draw.below(min(left, 3)) if left else 0
    relations = [draw.one_of(RELATIONS) for _ in range(left - events)]
    return (beginning, *relations, *(draw.one_of(EVENTS) for _ in range(events)), question)


def tell(draw: Dice, shape: Shape, aside: int, ranges: Ranges, manner: Manner) -> Story | None:
    """Generate a story from its sequence of steps (its shape), with random numbers, names and words. Return None if no
    valid numbers were found."""
    for _ in range(ATTEMPTS):
        teller = _Teller(draw, ranges, manner)
        if teller.tell(shape, aside):
            return teller.story(shape)
    return None


class _Teller:
    """A story under construction: its sentences so far, and how many items each person has."""

    def __init__(self, draw: Dice, ranges: Ranges, manner: Manner) -> None:
        self._draw, self._ranges, self._manner = draw, ranges, manner
        self._names: list[str] = [*wording()["names"]]
        self._item: str = draw.one_of(wording()["items"])
        self._amounts: dict[str, int] = {}  # by person, in the order in which the story introduces them
        self._numbers: list[int] = []
        self._said: list[str] = []  # sentences that may be shuffled
        self._events: list[str] = []  # sentences that come after `_said`, in fixed order
        self._thought: list[str] = []
        self.value = 0

    def tell(self, shape: Shape, aside: int) -> bool:
        """Generate the sentences of a story from its sequence of steps. Return False if an amount is invalid, such as
        an amount outside of ``ranges``."""
        beginning, *middle, question = shape
        return (
            self._begin(beginning)
            and all(self._event(kind) if kind in EVENTS else self._relate(kind) for kind in middle)
            and self._ask(question)
            and all(self._digress() for _ in range(self._draw.below(aside + 1)))
        )

    def story(self, shape: Shape) -> Story:
        draw = self._draw
        said, answer = draw.shuffled(self._said), self._phrase("thinks", "answer", v=self.value)
        told = [*said, *self._events, self._question]
        key = f"{' '.join(shape)}:{','.join(map(str, self._numbers))}"
        return Story(
            shape, len(self._thought), key, " ".join(told), " ".join([*self._thought, answer]), self.value, self._manner
        )

    def _begin(self, kind: str) -> bool:
        if kind == "given":
            self._given()
            return True
        most = self._ranges.highest
        m, n = 2 + self._draw.below(min(8, most - 1)), 2 + self._draw.below(min(11, most - 1))
        self._numbers += [m, n]
        boxes = self._draw.one_of(wording()["boxes"])
        said = self._say(self._said, kind, who=(who := self._name()), m=m, n=n, boxes=boxes)
        return self._step("step", kind, who, m, n, said)

    def _given(self) -> str:
        n = 2 + self._draw.below(self._ranges.highest - 1)
        self._numbers.append(n)
        self._say(self._said, "given", who=(who := self._name()), n=n)
        self._amounts[who] = n
        return who

    def _relate(self, kind: str) -> bool:
        """Introduce a new person, and compute how many items this person has. The number is computed from two operands.
        One is the previous person's number of items. The other is a random number or a third person's number of
        items."""
        other = self._last
        if kind in ("together", "gap"):
            third = self._another()
            said = self._say(self._said, kind, who=(who := self._name()), other=other, third=third)
            return self._step("step", kind, who, self._amounts[other], self._amounts[third], said)
        n = 2 + self._draw.below(4 if kind in ("times", "part") else self._ranges.highest // 2)
        self._numbers.append(n)
        said = self._say(self._said, kind, who=(who := self._name()), other=other, n=n)
        return self._step("step", kind, who, self._amounts[other], n, said)

    def _event(self, kind: str) -> bool:
        n = 2 + self._draw.below(self._ranges.highest // 2)
        self._numbers.append(n)
        said = self._say(self._events, kind, who=(who := self._last), n=n)
        return self._step("event", kind, who, self._amounts[who], n, said)

    def _ask(self, kind: str) -> bool:
        who = self._last
        self.value = self._amounts[who]
        if kind == "count":
            self._question = self._phrase("asks", kind, who=who)
            return True
        if kind == "price":
            n = 2 + self._draw.below(4)
            self._numbers.append(n)
            said = self._say(self._events, kind, n=n)
            self._question = self._phrase("asks", kind, who=who)
            return self._step(kind, kind, "", self.value, n, said)
        other = self._another()
        self._question = self._phrase("asks", kind, who=who, other=other)
        return self._step(kind, kind, "", self.value, self._amounts[other])

    def _digress(self) -> bool:
        """Add an irrelevant sentence, which is about a person's age or about an amount that the question does not
        need."""
        n, who = 2 + self._draw.below(self._ranges.highest - 1), self._name()
        kind = self._draw.one_of(("given", "age", "more"))
        other = self._draw.one_of([*self._amounts])
        self._say(self._said, kind, who=who, other=other, n=n)
        return True

    def _another(self) -> str:
        """Return a person other than the one introduced last: either a person introduced before that one, or a new
        person."""
        before = [*self._amounts][:-1]
        if before and self._draw.below(2):
            return self._draw.one_of(before)
        last, amount = self._amounts.popitem()
        new = self._given()
        self._amounts[last] = amount  # make it the last entry again
        return new

    def _step(self, thought: str, kind: str, who: str, a: int, b: int, said: str = "") -> bool:
        """Calculate the next amount, add it to the solution, and return whether the amount is allowed.

        ``said`` is the sentence of the story that the calculation uses.
        """
        sign = _SIGNS[kind]
        if (sign == "-" and a <= b) or (sign == "/" and (a % b or a == b)):
            return False
        v = {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[sign]
        if v > self._ranges.cap:
            return False
        calc = calculation(a, sign, b, v, self._manner)
        quoted = [said] if said and self._manner.quotes else []
        self._thought.append(" ".join([*quoted, self._phrase("thinks", thought, who=who, calc=calc, v=v)]))
        if who:
            self._amounts[who] = v
        self.value = v
        return True

    @property
    def _last(self) -> str:
        return next(reversed(self._amounts))

    def _name(self) -> str:
        return self._names.pop(self._draw.below(len(self._names)))

    def _say(self, behind: list[str], kind: str, **words: Any) -> str:
        """Write a sentence of the story, append it to the list ``behind``, and return it."""
        behind.append(said := self._phrase("says", kind, **words))
        return said

    def _phrase(self, part: str, kind: str, **words: Any) -> str:
        """Return a random phrase of a kind, with the given words filled in. Factors and divisors are written as words,
        such as "twice"."""
        if kind in ("times", "part"):
            words |= {"times": wording()["times"][words["n"]], "part": wording()["parts"][words["n"]]}
        form: str = self._draw.one_of(wording()[part][kind])
        text = form.format(items=self._item, **words)
        return text[0].upper() + text[1:]


def calculation(a: int, sign: str, b: int, v: int, manner: Manner) -> str:
    """Write the calculation ``a sign b = v``, either as one calculation or in parts.

    >>> calculation(27, "+", 48, 75, Manner(words=False, in_parts=True, quotes=False))
    '27 + 40 = 67, 67 + 8 = 75'
    >>> calculation(6, "*", 14, 84, Manner(words=True, in_parts=True, quotes=False))
    '6 times 10 is 60, 6 times 4 is 24, 60 plus 24 is 84'
    """
    form = _WORDS if manner.words else {each: f"{{a}} {each} {{b}} = {{v}}" for each in _WORDS}
    parts = _parts(a, sign, b, v) if manner.in_parts else [(a, sign, b, v)]
    return ", ".join(form[s].format(a=x, b=y, v=z) for x, s, y, z in parts)


def _parts(a: int, sign: str, b: int, v: int) -> list[_Calculation]:
    if sign == "*" and max(a, b) > 10:
        small, large = sorted((a, b))
        products = [small * place for place in _places(large)]
        sums = _one_by_one(products[0], "+", products[1:])
        return [*((small, "*", place, small * place) for place in _places(large)), *sums]
    if sign in "+-" and min(a, b) > 10:
        return _one_by_one(a, sign, _places(b))
    return [(a, sign, b, v)]


def _one_by_one(at: int, sign: str, numbers: Sequence[int]) -> list[_Calculation]:
    written = []
    for number in numbers:
        after = at + number if sign == "+" else at - number
        written.append((at, sign, number, after))
        at = after
    return written


def _places(number: int) -> list[int]:
    """Split a number into hundreds, tens and ones, and omit parts that are 0.

    >>> _places(204)
    [200, 4]
    """
    text = str(number)
    return [int(digit) * 10 ** (len(text) - 1 - i) for i, digit in enumerate(text) if digit != "0"]


@cache
def wording() -> dict[str, Any]:
    """Return the names and phrases from ``stories.yaml``."""
    data: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("stories.yaml").read_text(encoding="utf-8"))
    return data
