"""Responses with programs of which it is known what they deserve: right, wrong, hostile and malformed ones.

Every problem is a polynomial with coefficients of its own, so that no program is right for another problem, and every
program begins with a mark of its own, which its verdict has to show.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from program_parts import BODIES, FRAGMENTS, HOSTILE, IN_VAIN, MAINS, MARKS, NOISE, OTHERS, WAITING, WRONG_BODIES

from outrider.record import Outcome, Problem, Verdict
from outrider.verify.code import CodeVerifier, Stdio, UnitTests

RIGHT, WRONG, NONE = Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE
KINDS = ("list", "prefix", "completion", "stdio")
HURRIED = 4.0  # seconds of a verdict on a program that waits

VERIFIERS: dict[str, CodeVerifier] = {
    "list": UnitTests(tests="test_list", cpu_seconds=2),
    "prefix": UnitTests(prefix="problem", entry_point="entry_point", cpu_seconds=2),
    "completion": UnitTests(prefix="problem", entry_point="entry_point", code="completion", cpu_seconds=2),
    "stdio": Stdio(cpu_seconds=2),
}
VERIFIERS |= {
    f"{kind}, hurried": verifier.model_copy(update={"seconds": HURRIED}) for kind, verifier in VERIFIERS.items()
}


class Verifiers:
    """All verifiers behind one door, for one pool: a batch mixes them."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        for verifier in VERIFIERS.values():
            verifier.prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {"all": True}  # nothing empty: __setstate__ is not called for it

    def __call__(self, problem: Problem, text: str, finished: bool) -> Verdict:
        kind, reference = problem.answer
        return VERIFIERS[kind].verify(Problem(problem.id, "", reference), text, finished)


@dataclass
class Case:
    """A response, and what its verdict may be.

    Attributes:
        about: how it was made.
        allowed: outcomes.
        mark: what the verdict's answer holds, where the program was found.
        waits: until its time is over; on a busy machine that may be a timeout.
    """

    problem: Problem
    text: str
    about: str
    allowed: set[Outcome]
    mark: str = ""
    finished: bool = True
    waits: bool = False


@dataclass
class Task:
    """A polynomial, as a problem of one kind."""

    kind: str
    name: str
    numbers: list[int]
    mark: str
    inputs: list[int] = field(default_factory=list)

    def value(self, x: int) -> int:
        a, b, c = self.numbers
        return a * x * x + b * x + c

    @property
    def prefix(self) -> str:
        doc = "    '''The value at x.\n\n    ```\n    >>> 1\n    ```\n    '''\n"
        return f"import math\n\ndef {self.name}(x: int) -> int:\n{doc}"

    def problem(self, hurried: bool = False) -> Problem:
        tests = [f"assert {self.name}({x}) == {self.value(x)}" for x in self.inputs]
        row: dict[str, Any] = {"test_list": tests, "problem": self.prefix, "entry_point": self.name, "answer": None}
        row["test"] = "def check(candidate):\n" + "".join(f"    {t.replace(self.name, 'candidate')}\n" for t in tests)
        row["tests"] = [{"input": f"{x}\n", "output": f"{self.value(x)}\n"} for x in self.inputs]
        kind = f"{self.kind}, hurried" if hurried else self.kind
        return Problem(self.mark, "", (kind, VERIFIERS[kind].reference(row, "answer")))


def task(random: Random, number: int) -> Task:
    """A problem that no other of the same run equals."""
    numbers = [random.randrange(10, 10**6), random.randrange(-(10**6), 10**6), 10 * number + random.randrange(10)]
    name = random.choice(["solve", "f", "compute_total", "check_it", "näher", "_p", "poly"])
    inputs = random.sample(range(-50, 50), random.randrange(2, 4))
    return Task(random.choice(KINDS), name, numbers, f"# program {number} of {random.randrange(10**9)}", inputs)


def program(random: Random, one: Task, body: str, before: str = "") -> str:
    """A whole program around a body, or what continues a prompt; it begins with its mark."""
    for letter, value in zip("ABC", one.numbers, strict=True):
        body = re.sub(rf"\b{letter}\b", f"({value})", body)
    if one.kind == "completion":
        return textwrap.indent(f"{one.mark}\n{before}\n{body}\n", "    ", lambda _: True)
    name = "answer_for" if one.kind == "stdio" else one.name
    head = ["from __future__ import annotations"] if random.random() < 0.2 else []
    head += [before, *random.sample(NOISE, random.randrange(3))]
    indent = random.choice(["    ", "  ", "\t"]) if "\n" not in body else "    "
    parameters = random.choice(["x", "x: int", "x: 'int'", "x, *rest"])
    function = f"def {name}({parameters}):\n" + textwrap.indent(body, indent, lambda _: True)
    main = [random.choice(MAINS)] if one.kind == "stdio" else []
    return random.choice(["\n", "\n\n"]).join([one.mark, *head, function, *main]) + "\n"


def fenced(random: Random, code: str, mark: str | None = None) -> str:
    """A block of a program, in one of the ways in which blocks are written."""
    mark = random.choice(MARKS) if mark is None else mark
    if random.random() < 0.15 and not any(line.startswith("~~~") for line in code.split("\n")):
        return f"~~~{mark}\n{code}~~~"
    fence = "`" * random.choice([3, 3, 3, 4, 5])
    lines = [f"{fence}{mark}", *code.removesuffix("\n").split("\n"), fence]
    style = random.random()
    if style < 0.6:
        return "\n".join(lines)
    if style < 0.8:  # in a list
        first, rest = random.choice([("1. ", "   "), ("- ", "  "), ("10) ", "    "), ("  * ", "    ")])
        return first + lines[0] + "\n" + "\n".join(rest + line for line in lines[1:])
    indent = " " * random.randrange(1, 5)
    return "\n".join(indent + line if line or random.random() < 0.5 else line for line in lines)


def around(random: Random, block: str) -> str:
    """A response with more in it than its last block of Python."""
    before = ["", "Here it is:\n\n", "Let's think. It's `x`.\n", "<think>\nHm.\n</think>\n\n"]
    decoys = [
        "",
        "",
        "```python\nprint('no')\n```\n\nNo, rather:\n\n",
        "```\nnot marked\n```\n",
        "Don't say ''' here.\n\n",
    ]
    after = [
        "",
        "\n",
        "\n\nIt works.\n",
        "\n\n```text\n42\n```\n",
        "\n\nRun `python x.py`:\n```bash\npython x.py\n```",
        "\n```\n1\n```",
    ]
    text = random.choice(before) + random.choice(decoys) + block + random.choice(after)
    return text.replace("\n", "\r\n") if random.random() < 0.05 else text


def right(random: Random, one: Task) -> Case:
    """It does what it should, and maybe something else that leads nowhere."""
    before = random.choice(IN_VAIN) if random.random() < 0.2 else ""
    code = program(random, one, random.choice(BODIES), before)
    return Case(one.problem(), response(random, one, code), f"right, {before[:60]!r}", {RIGHT}, one.mark)


def wrong(random: Random, one: Task) -> Case:
    """It does something else."""
    body = random.choice(WRONG_BODIES[one.kind == "stdio" :])  # the first one is right where it is printed
    code = program(random, one, body)
    return Case(one.problem(), response(random, one, code), f"wrong, {body[:60]!r}", {WRONG}, one.mark)


def hostile(random: Random, one: Task) -> Case:
    """It attempts to end without an answer."""
    before = random.choice(HOSTILE)
    code = program(random, one, "return 0", before)
    return Case(one.problem(), response(random, one, code), f"hostile, {before[:60]!r}", {WRONG}, one.mark)


def waiting(random: Random, one: Task) -> Case:
    """It waits until its time is over."""
    before = random.choice(WAITING)
    text = response(random, one, program(random, one, "return 0", before))
    return Case(one.problem(hurried=True), text, f"waiting, {before[:60]!r}", {WRONG}, one.mark, waits=True)


def stolen(random: Random, one: Task) -> Case:
    """It is right for another problem of the same kind."""
    other = Task(one.kind, one.name, [n + 1 for n in one.numbers], one.mark)
    code = program(random, other, random.choice(BODIES))
    return Case(one.problem(), response(random, one, code), "of another problem", {WRONG}, one.mark)


def cut(random: Random, one: Task) -> Case:
    """It is right, and was truncated by a limit; in the middle, or just behind its end."""
    code = program(random, one, random.choice(BODIES))
    if one.kind == "completion":
        one.kind = "prefix"
        code = program(random, one, random.choice(BODIES))
    text = random.choice(["", "So:\n\n"]) + fenced(random, code)
    end = len(text) if random.random() < 0.3 else random.randrange(len(text))
    allowed = {RIGHT} if end == len(text) else {WRONG, NONE}
    return Case(one.problem(), text[:end], f"cut at {end} of {len(text)}", allowed, finished=False)


def unclosed(random: Random, one: Task) -> Case:
    """The whole response, but without the end of its block."""
    one.kind = random.choice(["list", "prefix", "stdio"])
    text = f"So:\n```python\n{program(random, one, random.choice(BODIES))}"
    return Case(one.problem(), text, "unclosed", {RIGHT}, one.mark)


def elsewhere(random: Random, one: Task) -> Case:
    """A right program where none counts: without a fence, of another language, or in an empty block."""
    one.kind = random.choice(["list", "prefix", "stdio"])
    code = program(random, one, "return (A * x + B) * x + C")
    text = random.choice(
        [code, fenced(random, code, random.choice(OTHERS)), f"`{code}`", "```python\n\n```\n" + code, ""]
    )
    text = text.replace("```text\nnot the end\n```", "")
    return Case(one.problem(), text, "elsewhere", {NONE})


def mutated(random: Random, one: Task) -> Case:
    """A right response with characters lost, doubled or changed: anything but a crash."""
    text = list(response(random, one, program(random, one, random.choice(BODIES))))
    for _ in range(random.randrange(1, 12)):
        at = random.randrange(len(text))
        text[at] = random.choice(["", text[at] * 2, random.choice(FRAGMENTS), chr(random.randrange(1, 0x3000))])
    return Case(one.problem(), "".join(text), "mutated", {RIGHT, WRONG, NONE}, finished=random.random() < 0.8)


def garbage(random: Random, one: Task) -> Case:
    """What programs and responses are made of, in no order; none of it knows the numbers."""
    text = "".join(random.choice(FRAGMENTS) for _ in range(random.randrange(200)))
    return Case(one.problem(), text, "garbage", {WRONG, NONE}, finished=random.random() < 0.8)


MAKERS: dict[Callable[[Random, Task], Case], int] = {
    right: 30,
    wrong: 15,
    hostile: 15,
    stolen: 5,
    cut: 8,
    unclosed: 4,
    elsewhere: 4,
    mutated: 10,
    garbage: 8,
    waiting: 1,
}


def case(random: Random, number: int) -> Case:
    """A response to a problem that no other of the same run equals; ``number`` from 1."""
    maker = random.choices([*MAKERS], [*MAKERS.values()])[0]
    return maker(random, task(random, number))


def response(random: Random, one: Task, code: str) -> str:
    """The text around a program."""
    if one.kind != "completion":
        return around(random, fenced(random, code))
    return code + random.choice(
        ["", "\n", "\ndef other(:\n", "\nprint(solve(1))", "\n# Done.", "\nif True: os._exit(0)"]
    )
