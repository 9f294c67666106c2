"""The built-in task whose problems and solutions are prose: word problems in plain English. Solutions are worded in
many ways.

::

    prompt     Q: Ben has 12 cards. With 5 more cards Ben would have as many as Ada. Vera is 31 years old. How many
               cards do Ada and Ben have together?
               A:
    response    Ada has 12 + 5 = 17 cards. The sum is 17 + 12 = 29. So the answer is 29.

Only the last number of a response is verified, so the reasoning may be worded in any way.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar

from pydantic import Field

from outrider.record import Problem, Verdict, correct, identity_seed, incorrect, unparseable
from outrider.tasks.dice import Dice
from outrider.tasks.epochs import in_pool
from outrider.tasks.heldout import ORDER, Order, drawn, shuffled
from outrider.tasks.stories import ATTEMPTS, Ranges, Story, draw_story, tell
from outrider.tasks.task import Task
from outrider.verify.thinking import UNCLOSED, answer_of

_HELDOUT_SHARE = 16  # one story in sixteen is held out
_DRAWS = 16_384  # number of stories that are drawn to find the held-out ones
# a number with thousands separators, decimals, a fraction's denominator, and a sign if no word or bracket precedes it;
# not compiled, since every command imports this module: re compiles the text at its first use
_NUMBER = r"(?<![\w)])-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?|\d+(?:\.\d+)?"


class WordProblems(Task):
    """Generated word problems. A problem's difficulty level is its number of calculations. All levels in ``steps`` are
    equally likely.

    Training and held-out problems are disjoint, because a hash of a problem's calculation steps and numbers decides
    whether the problem is held out. Problems that differ only in words and names are therefore all held out or all used
    for training.

    >>> task = WordProblems()
    >>> problem = task.train(0)
    >>> task.verify(problem, problem.metadata["solution"], finished=True).success
    True
    """

    subwords: ClassVar[bool] = True

    steps: tuple[Annotated[int, Field(ge=1, le=8)], ...] = Field(
        (2, 3, 4, 5, 6, 7, 8),
        min_length=1,
        description=(
            "possible numbers of calculations per problem, drawn with equal probability; each number of calculations "
            "is a difficulty level"
        ),
    )
    aside: int = Field(2, ge=0, le=4, description="maximum number of irrelevant sentences in a problem")
    highest: int = Field(
        40,
        ge=4,
        le=99,
        description=(
            'largest quantity in a problem\'s text; prices, and the numbers in phrases such as "3 times as many", are '
            "never larger than 5"
        ),
    )
    cap: int = Field(
        199,
        ge=100,
        le=999,
        description="largest result, final or intermediate, in a problem's solution",
    )
    examples: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "fraction of training prompts that begin with solved examples; in half of these prompts, the examples have "
            "the same structure as the problem"
        ),
    )
    pool: int | None = Field(
        None,
        ge=1,
        description=(
            "number of problems in a finite training set that is repeated; null: an endless stream of new problems"
        ),
    )
    seed: int = Field(
        0, ge=0, description="random seed of the training problems; the held-out problems are the same for every seed"
    )
    heldout_order: Order = Field("shuffled", description=ORDER)

    @property
    def name(self) -> str:
        return "word_problems"

    @property
    def fingerprint(self) -> str:
        numbers = f"{','.join(map(str, self.steps))}/{self.aside}/{self.highest}/{self.cap}/{self.examples:g}"
        # version 2 of the problems: solutions may quote the story, and prompts have Q and A
        order = "/shuffled" if self.heldout_order == "shuffled" else ""
        return f"word_problems/2/{numbers}/{self.seed}/{self.pool}{order}"

    def train(self, index: int) -> Problem:
        """Return training problem ``index``. With a ``pool``, the first ``pool`` problems repeat in every epoch, in a
        new order."""
        index = in_pool(self.seed, index, self.pool)
        for attempt in itertools.count():
            draw = Dice(identity_seed(self.seed, "word problem", index, attempt))
            story = self._story(draw, draw.one_of(self.steps))
            if not is_heldout(story):
                return self._problem(story, self._shown(draw, story))
        raise AssertionError("unreachable")

    def heldout(self, n: int) -> list[Problem]:
        """Return the first ``n`` held-out problems, without duplicates, alternating between levels. The option ``seed``
        has no effect.

        With ``heldout_order: shuffled``, there are about 1,000 held-out problems, or fewer if the options allow only
        small numbers.
        """
        if self.heldout_order == "shuffled":
            stories = _population(self.steps, self.aside, Ranges(self.highest, self.cap))[:n]
        else:
            stories = drawn(self.steps, self._story, _heldout_key, seed="heldout word problem", n=n)
        return [self._problem(story) for story in stories]

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify the value of the last number in the text. A truncated response is incorrect.

        >>> nine = Problem("p", "?", answer=9)
        >>> texts = ("So it is 9.", "= 09.0", "It is -9.", "It is 3.9", "1,009", "1/9", "5-9")
        >>> [WordProblems().verify(nine, text, True).success for text in texts]
        [True, True, False, False, False, False, True]
        """
        said = answer_of(text, problem)
        if said is None:
            return unparseable(UNCLOSED)
        numbers = re.findall(_NUMBER, said)
        if not numbers:
            return unparseable("no number")
        if not finished:
            return incorrect(numbers[-1], "truncated")
        # compared as text, since int raises an error for thousands of digits
        whole, _, decimals = numbers[-1].replace(",", "").partition(".")
        answer = (whole.lstrip("0") or "0") + (f".{decimals}" if decimals.strip("0") else "")
        return correct(answer) if answer == str(problem.answer) else incorrect(answer)

    def _story(self, draw: Dice, steps: int) -> Story:
        return draw_story(draw, steps, self.aside, Ranges(self.highest, self.cap))

    def _problem(self, story: Story, shown: Sequence[Story] = ()) -> Problem:
        examples = "".join(map(solved, shown))
        return Problem(
            id=f"word_problems:{hashlib.blake2b(story.question.encode(), digest_size=8).hexdigest()}",
            prompt=f"{examples}{asked(story)}",
            answer=story.answer,
            level=str(story.steps),
            # the question includes Q and A, since examples are inserted before the Q
            metadata={"solution": answered(story), "question": asked(story)},
        )

    def _shown(self, draw: Dice, story: Story) -> list[Story]:
        """Return zero, one or two solved examples, whose solutions have the same style as the story's solution."""
        if draw.below(1000) >= 1000 * self.examples:
            return []
        alike = draw.below(2) == 0
        return [self._example(draw, story, alike) for _ in range(1 + draw.below(2))]

    def _example(self, draw: Dice, story: Story, alike: bool) -> Story:
        """Return a solved example that is not held out.

        If ``alike`` is True, the example has the same calculation steps as ``story``, unless no valid numbers are found
        for them.
        """
        for attempt in itertools.count():
            same = alike and attempt < ATTEMPTS
            shape = story.shape if same else self._story(draw, draw.one_of(self.steps)).shape
            one = tell(draw, shape, self.aside, Ranges(self.highest, self.cap), story.manner)
            if one and not is_heldout(one):
                return one
        raise AssertionError("unreachable")


def asked(story: Story) -> str:
    """Return the question as it is written in a prompt."""
    return f"Q: {story.question}\nA:"


def answered(story: Story) -> str:
    """Return the solution as it is written after the question. The solution starts with a space, so that names in it
    have the same tokens as in the question."""
    return f" {story.solution}"


def solved(story: Story) -> str:
    """Return the question and its solution, as an example for the beginning of a prompt."""
    return f"{asked(story)}{answered(story)}\n\n"


def is_heldout(story: Story) -> bool:
    """Return whether a story is held out, which depends only on its calculation steps and its numbers."""
    return hashlib.blake2b(story.key.encode(), digest_size=4).digest()[0] % _HELDOUT_SHARE == 0


def _heldout_key(story: Story) -> str | None:
    return story.key if is_heldout(story) else None


@lru_cache(maxsize=8)  # takes seconds, which every run of a bench would spend again
def _population(steps: tuple[int, ...], aside: int, ranges: Ranges) -> list[Story]:
    # fewer draws than the default: drawing a story takes ten times as long as drawing a problem of another task
    return shuffled(
        steps,
        lambda dice, number: draw_story(dice, number, aside, ranges),
        _heldout_key,
        seed="word_problems",
        draws=_DRAWS,
    )
