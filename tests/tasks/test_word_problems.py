"""Word problems: a reader with grammar of its own understands every sentence as the story meant it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import pytest

from outrider.record import Outcome, Problem
from outrider.tasks import WordProblems
from outrider.tasks.dice import Dice
from outrider.tasks.stories import Manner, Ranges, calculation, draw_shape, draw_story, tell, wording

TASK = WordProblems()
PROBLEMS = [TASK.train(i) for i in range(1500)]

# What a sentence says as an equation of amounts; N, M: names, #: a number. Written by hand, not from stories.yaml.
GRAMMAR = {
    r"N (?:has|owns) # I": "x = {0}",
    r"There are # I that belong to N": "x = {0}",
    r"N has # B with # I each": "x = {0} * {1}",
    r"N keeps # I in each of # B": "x = {0} * {1}",
    r"In # B of N there are # I each": "x = {0} * {1}",
    r"N has # more I than N": "x = y + {0}",
    r"N has as many I as N and # more": "x = y + {0}",
    r"With # more I N would have as many as N": "x = y - {0}",
    r"N has # fewer I than N": "x = y - {0}",
    r"N has W as many I as N": "x = y * {0}",
    r"For each of the I of N N has #": "y = x * {0}",
    r"N has as many I as N and N together": "x = y + z",
    r"The I of N and N are as many as those of N": "z = x + y",
    r"N has as many I as N has more than N": "x = y - z",
}
IDLE = (r"N is # years old", r"N lives in a house with # windows", r"N came here # days ago")
EVENTS = {
    r"Then N finds # I": 1,
    r"Later N buys # more I": 1,
    r"After that N gets # I from a friend": 1,
    r"Then N loses # I": -1,
    r"Later N sells # of the I": -1,
    r"After that N gives # I to a friend": -1,
}
PRICES = (r"The I cost # cents each", r"Each of the I is worth # cents")
# what a calculation follows from; amounts that are given are only numbers in it
QUOTED = [*(form for form, says in GRAMMAR.items() if says != "x = {0}"), *EVENTS, *PRICES]
NAME = re.compile(rf"\b(?:{'|'.join(wording()['names'])})\b")
QUESTIONS = {
    r"How many I does N have": "x",
    r"What is the number of I that N has": "x",
    r"Find how many I belong to N": "x",
    r"How many I do N and N have together": "x + y",
    r"What do the I of N and N add up to": "x + y",
    r"How many more I does N have than N": "x - y",
    r"What is the difference between the I of N and N": "x - y",
    r"How many cents are the I of N worth": "x * price",
    r"What would all I of N cost": "x * price",
}
WORDS = {"twice": 2, "three times": 3, "four times": 4, "five times": 5}
WORDS |= {"half": Fraction(1, 2), "a third": Fraction(1, 3), "a quarter": Fraction(1, 4), "a fifth": Fraction(1, 5)}


@cache
def pattern_of(form: str) -> re.Pattern[str]:
    """With a group for each name, number and word for a number."""
    pattern = form.replace("N", r"(?P<N>[A-Z][a-z]+)").replace("#", r"(?P<D>\d+)")
    pattern = pattern.replace("W", f"(?P<W>{'|'.join(WORDS)})") if " W " in form else pattern
    pattern = re.sub(r"\bI\b", "[a-z]+", re.sub(r"\bB\b", "[a-z]+", pattern))
    counter = iter(range(9))
    return re.compile(re.sub(r"\?P<([NDW])>", lambda m: f"?P<{m[1]}{next(counter)}>", pattern))


def matched(form: str, sentence: str) -> tuple[list[str], list[int | Fraction]] | None:
    """The names and numbers of a sentence that has this form."""
    found = pattern_of(form).fullmatch(sentence)
    if found is None:
        return None
    parts = found.groupdict()
    names = [value for key, value in parts.items() if key[0] == "N"]
    return names, [WORDS[v] if k[0] == "W" else int(v) for k, v in parts.items() if k[0] in "DW"]


class Meaning(NamedTuple):
    """What a problem says: equations with the names in them, what came to whom, a price, and what is asked of whom."""

    equations: list[tuple[str, list[str]]]
    changes: Counter[str]
    price: int | Fraction
    asked: str
    whom: list[str]

    @property
    def numbers(self) -> tuple[object, ...]:
        """The same for stories that differ in words and names alone."""
        names = {name: i for i, name in enumerate(dict.fromkeys(sorted(n for _, each in self.equations for n in each)))}
        orders = itertools.permutations(range(len(names)))
        ways = [[(text, [order[names[n]] for n in each]) for text, each in self.equations] for order in orders]
        return str(min(map(sorted, ways))), str(sorted(self.changes.values())), self.price, self.asked


def sentences(text: str) -> list[str]:
    """Of a question as it is asked, or of a solution."""
    return re.split(r"(?<=[.?]) ", text.removeprefix("Q: ").removesuffix("\nA:").strip())


def meaning(text: str) -> Meaning:
    *said, question = sentences(text)
    equations: list[tuple[str, list[str]]] = []
    changes: Counter[str] = Counter()
    price: int | Fraction = 0
    for sentence in (each[:-1] for each in said):
        readings = [(form, names, numbers) for form in (*GRAMMAR, *IDLE, *EVENTS, *PRICES)
                    for names, numbers in [matched(form, sentence) or ([], [])] if names or numbers]  # fmt: skip
        assert len(readings) == 1, (sentence, readings)
        [(form, names, numbers)] = readings
        if form in GRAMMAR:
            equations.append((GRAMMAR[form].format(*(f"Fraction({n})" if isinstance(n, int) else f"Fraction('{n}')"
                                                     for n in numbers)), names))  # fmt: skip
        elif form in EVENTS:
            changes[names[0]] += EVENTS[form] * numbers[0]
        elif form in PRICES:
            price = numbers[0]
    [(form, names)] = [(f, m[0]) for f in QUESTIONS if (m := matched(f, question[:-1]))]
    return Meaning(equations, changes, price, QUESTIONS[form], names)


def understood(text: str) -> Fraction:
    """The answer of a problem, from its sentences alone."""
    equations, changes, price, asked, names = meaning(text)
    known = solved(equations)
    amounts = {letter: known[name] + changes[name] for letter, name in zip("xy", names, strict=False)}
    return Fraction(eval(asked, {}, {**amounts, "price": price}))  # noqa: S307 - the forms above


def solved(equations: list[tuple[str, list[str]]]) -> dict[str, Fraction]:
    """Amounts by name: an equation with one unknown gives it, as each is linear in it."""
    known: dict[str, Fraction] = {}
    left = equations
    while left:
        rest = []
        for equation, names in left:
            unknown = [name for name in names if name not in known]
            if len(unknown) > 1:
                rest.append((equation, names))
                continue

            def gap(value: Fraction, equation: str = equation, names: list[str] = names) -> Fraction:
                values = {letter: known.get(name, value) for letter, name in zip("xyz", names, strict=False)}
                one, other = equation.split(" = ")
                scope = {"Fraction": Fraction}
                return Fraction(eval(one, scope, values)) - eval(other, scope, values)  # noqa: S307

            if unknown:
                at, slope = gap(Fraction(0)), gap(Fraction(1)) - gap(Fraction(0))
                known[unknown[0]] = -at / slope
            assert gap(Fraction(0)) == 0 or unknown, (equation, names)
        assert len(rest) < len(left), "the story leaves something open"
        left = rest
    return known


def test_a_reader_of_the_sentences_alone_comes_to_the_same_answer() -> None:
    for problem in PROBLEMS:
        assert understood(problem.metadata["question"]) == problem.answer, problem.prompt


def test_all_that_a_solution_calculates_is_right_and_it_is_verified_correct() -> None:
    signs = {"plus": "+", "minus": "-", "times": "*", "divided by": "/"}
    for problem in PROBLEMS:
        solution = problem.metadata["solution"]
        for words, sign in signs.items():
            solution = solution.replace(f" {words} ", f" {sign} ")
        found = re.findall(r"(\d+) ([-+*/]) (\d+) (?:=|is) (\d+)", solution)
        assert len(found) >= int(problem.level)
        for a, sign, b, value in found:
            assert eval(f"Fraction({a}) {sign} {b}") == int(value), solution  # noqa: S307 - digits and a sign
        assert TASK.verify(problem, problem.metadata["solution"], finished=True).success


def test_half_of_the_solutions_quote_what_each_calculation_follows_from() -> None:
    quoting = 0
    for problem in PROBLEMS:
        *thoughts, _ = sentences(problem.metadata["solution"])
        worked = [bool(re.search(r"\d+ (?:plus|minus|times|divided|[-+*/]) ", thought)) for thought in thoughts]
        quoted = [thought for thought, calculates in zip(thoughts, worked, strict=True) if not calculates]
        if not quoted:
            continue
        quoting += 1
        # each right before a calculation, for somebody that it names, and once
        assert all(one or other for one, other in itertools.pairwise([*worked, False]))
        for quote, thought in itertools.pairwise(thoughts):
            if quote in quoted:
                assert {*NAME.findall(thought)} <= {*NAME.findall(quote)}, (quote, thought)
        assert len(quoted) == len({*quoted})
        told = sentences(problem.metadata["question"])
        assert {*quoted} <= {*told}
        for sentence in told:
            if sentence not in quoted and (found := [m for form in QUOTED if (m := matched(form, sentence[:-1]))]):
                # it does not matter: of somebody whom nothing else in the problem names
                assert any(problem.prompt.count(name) == 1 for name in found[0][0]), sentence
    assert quoting / len(PROBLEMS) == pytest.approx(0.5, abs=0.04)


def test_every_sentence_is_used() -> None:
    used = {form for p in PROBLEMS for s in sentences(p.metadata["question"])
            for form in (*GRAMMAR, *IDLE, *EVENTS, *PRICES, *QUESTIONS) if matched(form, s[:-1])}  # fmt: skip
    assert used == {*GRAMMAR, *IDLE, *EVENTS, *PRICES, *QUESTIONS}


def test_levels_are_calculations_and_amounts_stay_within_limits() -> None:
    for steps in range(1, 9):
        story = draw_story(Dice(steps), steps, 2, Ranges(40, 199))
        assert story.steps == steps
    for problem in PROBLEMS:
        assert 1 <= problem.answer <= 199
    assert set(Counter(p.level for p in PROBLEMS)) == {"2", "3", "4", "5", "6", "7", "8"}


def test_two_tellings_of_a_shape_are_solved_alike_and_worded_otherwise() -> None:
    draw = Dice(3)
    shape = draw_shape(draw, 5)
    one, two = (tell(draw, shape, 0, Ranges(40, 199), Manner(False, False, False)) for _ in range(2))
    assert one is not None
    assert two is not None
    signs = [re.findall(r" ([-+*/]) ", each.solution) for each in (one, two)]
    assert signs[0] == signs[1]
    assert len(signs[0]) == 5
    assert one.question != two.question


@pytest.mark.parametrize(
    ("a", "sign", "b", "value", "written"),
    [
        (27, "+", 48, 75, "27 + 40 = 67, 67 + 8 = 75"),
        (60, "-", 11, 49, "60 - 10 = 50, 50 - 1 = 49"),
        (60, "-", 20, 40, "60 - 20 = 40"),
        (14, "*", 6, 84, "6 * 10 = 60, 6 * 4 = 24, 60 + 24 = 84"),
        (20, "*", 3, 60, "3 * 20 = 60"),
        (3, "*", 4, 12, "3 * 4 = 12"),
        (96, "/", 4, 24, "96 / 4 = 24"),
        (9, "+", 30, 39, "9 + 30 = 39"),
    ],
)
def test_calculations_in_parts(a: int, sign: str, b: int, value: int, written: str) -> None:
    assert calculation(a, sign, b, value, Manner(words=False, in_parts=True, quotes=False)) == written
    assert (
        calculation(a, sign, b, value, Manner(words=False, in_parts=False, quotes=False)) == f"{a} {sign} {b} = {value}"
    )


@pytest.mark.parametrize(
    ("text", "finished", "outcome"),
    [
        ("So it is 12.", True, Outcome.CORRECT),
        ("12 or 13? The answer is 012", True, Outcome.CORRECT),
        ("12, not 13", True, Outcome.INCORRECT),
        ("-12", True, Outcome.INCORRECT),
        ("0.12", True, Outcome.INCORRECT),
        ("12.5", True, Outcome.INCORRECT),
        ("1,012", True, Outcome.INCORRECT),
        ("1/12", True, Outcome.INCORRECT),
        ("10,12", True, Outcome.CORRECT),
        ("10-12.", True, Outcome.CORRECT),
        ("20-8=12.0", True, Outcome.CORRECT),
        ("The answer is 12.", False, Outcome.INCORRECT),
        ("twelve", True, Outcome.UNPARSEABLE),
        ("", True, Outcome.UNPARSEABLE),
        ("9" * 10_000, True, Outcome.INCORRECT),
    ],
)
def test_the_last_number_is_the_answer(text: str, finished: bool, outcome: Outcome) -> None:
    problem = Problem("p", "How many?", answer=12)
    assert TASK.verify(problem, text, finished).outcome is outcome


def test_training_never_tells_a_heldout_story() -> None:
    """Not in other words either, nor as an example in front of a problem."""
    heldout = TASK.heldout(210)
    assert len({p.id for p in heldout}) == 210
    assert Counter(p.level for p in heldout) == dict.fromkeys("2345678", 30)
    assert [p.id for p in WordProblems(seed=5, examples=0.5).heldout(20)] == [p.id for p in heldout[:20]]
    # of so few numbers that a stream comes to all of them, again and again; what is held out is known by its meaning
    few = WordProblems(steps=(1,), highest=9, aside=0, examples=1.0)
    hidden = {meaning(p.metadata["question"]).numbers for p in few.heldout(8)}
    assert len(hidden) == 8
    told: Counter[bool] = Counter()
    for i in range(1500):
        *shown, question = few.train(i).prompt.strip().split("\n\n")
        told.update(meaning(text.split("\n")[0]).numbers in hidden for text in (*shown, question))
    assert told[True] == 0
    assert told[False] > 3500


def test_examples_stand_in_front_in_the_solutions_own_style() -> None:
    shown = [WordProblems(examples=1.0).train(i) for i in range(200)]
    plain = [TASK.train(i) for i in range(200)]
    assert [p.metadata for p in shown] == [p.metadata for p in plain]
    assert [p.id for p in shown] == [p.id for p in plain]
    assert all(p.prompt.endswith(p.metadata["question"]) for p in shown)
    counts = Counter(p.prompt.count("\n\n") for p in shown)
    assert set(counts) == {1, 2}
    assert counts[1] > 60
    assert counts[2] > 60
    some = sum("\n\n" in WordProblems(examples=0.3).train(i).prompt for i in range(500))
    assert some / 500 == pytest.approx(0.3, abs=0.08)
    for problem in shown:
        in_words = " plus " in problem.metadata["solution"] or " minus " in problem.metadata["solution"]
        for question, solution in (example.split("\nA:") for example in problem.prompt.split("\n\n")[:-1]):
            assert understood(question) == int(re.findall(r"\d+", solution)[-1])
            assert not (in_words and " = " in solution)


def test_every_draw_is_the_same_everywhere() -> None:
    """The first problem: 23 and 40 are Ada's, less 11 is Finn's, who sells 2. A change of the stream changes every
    result."""
    first = TASK.train(0)
    assert first.prompt.startswith("Q: Dan has 23 cards. With 38 more cards Omar would have as many as Vera.")
    assert (first.level, first.answer) == ("3", 23 + 40 - 11 - 2)
