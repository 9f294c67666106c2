r"""The verifier of maths and math-verify's defaults on the unit tests of other projects' verifiers.

``python benchmarks/oracles.py FOLDER``, where FOLDER holds checkouts (or only their ``tests``) named ``Math-Verify``,
``lighteval``, ``NeMo-Skills`` and ``inspect_ai``; a missing one is reported and skipped, and of the others the commit
is kept. Nothing of theirs is kept here: tables are read from their source, never imported. Counted are the cases whose
response is a box, or an answer and nothing else, which is then put in one; a case in prose asks for another way of
finding the answer, and so does a gold answer in prose. ``--list`` prints every verdict that differs from the authors'
own. The figures go to benchmarks/results/oracles.json.
"""

from __future__ import annotations

import argparse
import ast
import json
import logging
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from outrider.record import Problem
from outrider.verify.maths import Maths

RESULT = Path(__file__).parent / "results" / "oracles.json"
PROJECTS = {
    "Math-Verify": "tests/test_*.py",
    "lighteval": "tests/unit/metrics/test_extractive_match.py",
    "NeMo-Skills": "tests/test_math_equal.py",
    "inspect_ai": "tests/scorer/test_math.py",
}
RIGHT, ANSWER, EXPECTED = {"gold", "target"}, {"pred", "answer", "output"}, {"expected", "result"}
CHOICES = re.compile(r"abc|prose|string_extraction\b")  # tests of how an answer is found, not of its value
INLINE = re.compile(r"\$\$?([^$]+)\$\$?|\\\[(.+)\\\]|\\\((.+)\\\)", re.DOTALL)
WORD = re.compile(r"[A-Za-z]{2,}")


class Case(NamedTuple):
    """One line of a table: whether the authors of a project call an answer right."""

    gold: str
    answer: str
    right: bool


def cases(path: Path) -> Iterator[Case]:
    """The cases of a file of tests, and of the JSON file of cases beside it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or CHOICES.search(node.name):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and getattr(mark.func, "attr", "") == "parametrize":
                yield from table(node.name, mark)
    beside = path.parent / "math_cases.json"
    if path.name == "test_math.py" and beside.exists():
        for case in json.loads(beside.read_text()):
            yield Case(case["target"], case["output"], case["expected"] == "C")


def table(test: str, mark: ast.Call) -> Iterator[Case]:
    """The cases of one table: of literals only, with the names that the projects use."""
    try:
        named = ast.literal_eval(mark.args[0])
        rows = [ast.literal_eval(row) for row in getattr(mark.args[1], "elts", []) if _is_literal(row)]
    except ValueError:
        return
    names = [name.strip() for name in named.split(",")] if isinstance(named, str) else list(named)
    if names == ["output_pair"]:  # NeMo-Skills: in either order; the test's name says whether they are equal
        for one, other in rows:
            yield from (Case(str(a), str(b), "incorrect" not in test) for a, b in ((one, other), (other, one)))
    column = {kind: next((i for i, n in enumerate(names) if n in kinds), None) for kind, kinds in
              (("gold", RIGHT), ("answer", ANSWER), ("right", EXPECTED))}  # fmt: skip
    if column["gold"] is None or column["answer"] is None:
        return
    for row in rows:
        right = "not_approximated" not in test if column["right"] is None else bool(row[column["right"]])
        yield Case(str(row[column["gold"]]), str(row[column["answer"]]), right)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def response(answer: str) -> str | None:
    """A response with a box, or None for an answer that stands in prose."""
    if "\\boxed{" in answer:
        return answer
    if whole := INLINE.fullmatch(answer.strip()):
        return f"\\boxed{{{next(filter(None, whole.groups())).strip()}}}"
    outside = re.sub(r"\$[^$]*\$|\\[A-Za-z]+(?:\s*\{[^{}]*\})?", " ", answer)
    prose = len(WORD.findall(outside)) > 2 or "\n" in answer or len(answer) > 200
    return None if prose or re.match(r"[A-Z][a-z]+[ :]", answer) else f"\\boxed{{{answer}}}"


def is_answer(gold: str) -> bool:
    """Whether a gold answer can be one: boxed, or not in prose, and nothing that a table of ours refuses to hold."""
    try:
        Maths().reference({"answer": gold}, "answer")
    except ValueError:
        return False
    return response(gold) is not None


def ours(**options: Any) -> Callable[[str, str], bool]:
    """Our verifier, with its options."""
    verifier = Maths(**options)
    verifier.prepare()

    def verified(gold: str, text: str) -> bool:
        return verifier.verify(
            Problem("p", "", answer=verifier.reference({"answer": gold}, "answer")), text, True
        ).success

    return verified


def theirs(gold: str, text: str) -> bool:
    """math-verify with its defaults: a bare gold is put between dollars, as its documentation asks."""
    from math_verify import parse, verify

    marked = gold if re.search(r"[$]|\\boxed|\\\[|\\\(", gold) else f"${gold}$"
    return bool(verify(parse(marked), parse(text)))


def commit(checkout: Path) -> str:
    """Of which the tests are."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%h of %cs"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="store_true", help="every verdict that differs from the authors'")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    verifiers = {"ours": ours(), "ours, boxes: all": ours(boxes="all"), "math-verify": theirs}
    found: dict[str, Any] = {}
    for project, pattern in PROJECTS.items():
        files = sorted((arguments.folder / project).glob(pattern))
        if not files:
            print(f"no tests of {project} in {arguments.folder}")
            continue
        every = list(dict.fromkeys(case for file in files for case in cases(file)))
        disputed = {case for case in every if case._replace(right=not case.right) in every}
        usable = [case for case in every if is_answer(case.gold)]
        boxed = [(case, text) for case in usable if (text := response(case.answer)) is not None]
        counts = Counter(case.right for case, _ in boxed)
        found[project] = {
            "commit": commit(arguments.folder / project),
            "golds_in_prose_or_refused": len(every) - len(usable),
            "responses_in_prose": len(usable) - len(boxed),
            "right": counts[True],
            "wrong": counts[False],
        }
        for name, verifier in verifiers.items():
            verdicts = [(case, text, verifier(case.gold, text)) for case, text in boxed]
            differ = [(case, text) for case, text, verdict in verdicts if verdict != case.right]
            found[project][name] = {
                "false_accepts": sum(not case.right for case, _ in differ if case not in disputed),
                "false_rejects": sum(case.right for case, _ in differ),
                "accepts_of_what_its_table_calls_both": sum(not case.right for case, _ in differ if case in disputed),
            }
            for case, text in differ if arguments.list else ():
                print(f"{project} | {name} | {'FR' if case.right else 'FA'} | {case.gold[-150:]!r} | {text[-200:]!r}")
        print(project, json.dumps(found[project]), flush=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
