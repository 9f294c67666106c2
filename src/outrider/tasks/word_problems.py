"""Word problems in plain English, with solutions in many wordings: the built-in task with prose.

::

    prompt     Q: Ben has 12 cards. With 5 more cards Ben would have as many as Ada. Vera is 31 years old. How many
               cards do Ada and Ben have together?
               A:
    response    Ada has 12 + 5 = 17 cards. The sum is 17 + 12 = 29. So the answer is 29.

Only the last number of a response is verified, so its reasoning can be worded in any way.
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
_DRAWS = 16_384  # stories drawn, of which the held-out ones are kept
# includes a sign unless a word or bracket precedes it, thousands separators, decimals, and a fraction's denominator
_NUMBER = re.compile(r"(?<![\w)])-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?|\d+(?:\.\d+)?")


class WordProblems(Task):
    """Stories of every number of calculations in ``steps``, with equal probability; each number is a level.

    Training and held-out problems are disjoint by construction: a hash of shape and numbers decides. So a held-out
    story told in other words is held out, too.

    >>> task = WordProblems()
    >>> problem = task.train(0)
    >>> task.verify(problem, problem.metadata["solution"], finished=True).success
    True
    """

    subwords: ClassVar[bool] = True

    steps: tuple[Annotated[int, Field(ge=1, le=8)], ...] = Field(
        (2, 3, 4, 5, 6, 7, 8),
        min_length=1,
        description="possible numbers of calculations per problem; each number is a difficulty level",
    )
    aside: int = Field(2, ge=0, le=4, description="maximum number of irrelevant sentences per problem")
    highest: int = Field(
        40, ge=4, le=99, description="largest amount in the problem text; factors and prices go up to 5"
    )
    cap: int = Field(199, ge=100, le=999, description="largest amount, including intermediate results")
    examples: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "fraction of training prompts with solved examples; half of these have examples with the "
            "problem's own structure"
        ),
    )
    pool: int | None = Field(
        None, ge=1, description="number of problems in a finite training set; null: an endless stream of new problems"
    )
    seed: int = Field(
        0, ge=0, description="random seed of the training problems; the held-out problems do not depend on it"
    )
    heldout_order: Order = Field("shuffled", description=ORDER)

    @property
    def name(self) -> str:
        return "word_problems"

    @property
    def fingerprint(self) -> str:
        numbers = f"{','.join(map(str, self.steps))}/{self.aside}/{self.highest}/{self.cap}/{self.examples:g}"
        # version 2: solutions may quote, and prompts have Q and A
        order = "/shuffled" if self.heldout_order == "shuffled" else ""
        return f"word_problems/2/{numbers}/{self.seed}/{self.pool}{order}"

    def train(self, index: int) -> Problem:
        """The ``index``-th training problem. With a ``pool``, the first problems repeat, reshuffled in every epoch."""
        index = in_pool(self.seed, index, self.pool)
        for attempt in itertools.count():
            draw = Dice(identity_seed(self.seed, "word problem", index, attempt))
            story = self._story(draw, draw.one_of(self.steps))
            if not is_heldout(story):
                return self._problem(story, self._shown(draw, story))
        raise AssertionError("unreachable")

    def heldout(self, n: int) -> list[Problem]:
        """The first ``n`` held-out problems, alternating between levels, without duplicates; independent of ``seed``.

        The shuffled population has about 1,000 problems, fewer if ranges are tiny.
        """
        if self.heldout_order == "shuffled":
            stories = _population(self.steps, self.aside, Ranges(self.highest, self.cap))[:n]
        else:
            stories = drawn(self.steps, self._story, _heldout_key, seed="heldout word problem", n=n)
        return [self._problem(story) for story in stories]

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        """Verify the last number of the text by its value. A truncated response is incorrect.

        >>> nine = Problem("p", "?", answer=9)
        >>> texts = ("So it is 9.", "= 09.0", "It is -9.", "It is 3.9", "1,009", "1/9", "5-9")
        >>> [WordProblems().verify(nine, text, True).success for text in texts]
        [True, True, False, False, False, False, True]
        """
        said = answer_of(text, problem)
        if said is None:
            return unparseable(UNCLOSED)
        numbers = _NUMBER.findall(said)
        if not numbers:
            return unparseable("no number")
        if not finished:
            return incorrect(numbers[-1], "truncated")
        # compared as text, since int rejects numbers with thousands of digits
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
            # includes Q and A, since examples are put before the Q
            metadata={"solution": answered(story), "question": asked(story)},
        )

    def _shown(self, draw: Dice, story: Story) -> list[Story]:
        """One or two examples in the style of the story's own solution, or none."""
        if draw.below(1000) >= 1000 * self.examples:
            return []
        alike = draw.below(2) == 0
        return [self._example(draw, story, alike) for _ in range(1 + draw.below(2))]

    def _example(self, draw: Dice, story: Story, alike: bool) -> Story:
        """An example that is not held out.

        If ``alike``, it has the story's shape, unless no such telling is found.
        """
        for attempt in itertools.count():
            same = alike and attempt < ATTEMPTS
            shape = story.shape if same else self._story(draw, draw.one_of(self.steps)).shape
            one = tell(draw, shape, self.aside, Ranges(self.highest, self.cap), story.manner)
            if one and not is_heldout(one):
                return one
        raise AssertionError("unreachable")


def asked(story: Story) -> str:
    """The question as written in a prompt."""
    return f"Q: {story.question}\nA:"


def answered(story: Story) -> str:
    """The solution after the question. It starts with a space, so that a name is the same token everywhere."""
    return f" {story.solution}"


def solved(story: Story) -> str:
    """The story as a solved example, to be put before other questions."""
    return f"{asked(story)}{answered(story)}\n\n"


def is_heldout(story: Story) -> bool:
    """Whether a problem is held out, which depends only on its shape and numbers."""
    return hashlib.blake2b(story.key.encode(), digest_size=4).digest()[0] % _HELDOUT_SHARE == 0


def _heldout_key(story: Story) -> str | None:
    return story.key if is_heldout(story) else None


@lru_cache(maxsize=8)  # takes seconds; a bench would repeat it in every run
def _population(steps: tuple[int, ...], aside: int, ranges: Ranges) -> list[Story]:
    # fewer draws: a story takes ten times as long to draw as other tasks' problems
    return shuffled(
        steps,
        lambda dice, number: draw_story(dice, number, aside, ranges),
        _heldout_key,
        seed="word_problems",
        draws=_DRAWS,
    )
