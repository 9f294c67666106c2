r"""How many problems are "solved" by copying: ``python benchmarks/copying.py [--list]``.

Each formula of a question that holds an operation, and each side of its equations, is rewritten in ten trivial ways,
and each of its first numbers in four, and given as the answer. A problem counts where any formula is accepted as
correct. Writes benchmarks/results/copying.json, and prints the table of docs/verifiers.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from outrider.record import Problem
from outrider.verify.maths import Maths
from outrider.verify.pool import VerifierPool
from outrider.verify.verifier import Prepared

DATA = Path(__file__).parents[2] / "shared" / "data"
RESULT = Path(__file__).parent / "results" / "copying.json"
SETS = {
    "MATH-500": ["math500/test.jsonl"],
    "OlympiadBench": ["olympiadbench/test.jsonl"],
    "AIME": ["aime_1983_2023/train.jsonl", "aime24/test.jsonl", "aime25/test.jsonl"],
}
REWRITINGS = {
    "F": "{}",
    r"\frac{F}{1}": r"\frac{{{}}}{{1}}",
    "0+F": "0+{}",
    "F-0": "{}-0",
    "(F)": r"\left({}\right)",
    "{F}": "{{{{{}}}}}",
    r"1 \cdot F": r"1 \cdot ({})",
    "(F)^1": "({})^1",
    "-(-F)": "-(-({}))",
    "F+1-1": "{}+1-1",
    r"\frac{2F}{2}": r"\frac{{2({})}}{{2}}",
    "the other way round": "",
}
INSIDE = {  # of a number N of the formula
    "(N+1-1)": lambda n: f"({n + 1}-1)",
    r"\frac{7N}{7}": lambda n: rf"\frac{{{n}\cdot 7}}{{7}}",
    r"\sqrt{N^2}": lambda n: rf"\sqrt{{{n * n}}}",
    "(N)^1": lambda n: f"({n})^1",
}
NAMES = [*REWRITINGS, *(f"{name} for N" for name in INSIDE)]
NUMBER = re.compile(r"(?<![0-9.])[0-9]{1,4}(?![0-9.])")
MOST_NUMBERS = 4  # of a formula, rewritten one at a time
MATHS = re.compile(r"\$\$?([^$]+)\$\$?|\\\[(.*?)\\\]|\\\((.*?)\\\)", re.DOTALL)
OPERATION = re.compile(r"[-+*/^!|]|\\(?!text|circ|degree|[lc]?dots|ldots|pi\b|theta|infty|\{|\}|[,;! ])[A-Za-z]+")


def formulas(prompt: str) -> list[str]:
    """What a question asks about, and the sides of its equations, where they hold an operation."""
    found: list[str] = []
    for match in MATHS.finditer(prompt):
        whole = next(filter(None, match.groups()), "").strip().rstrip(".,?")
        found += [whole, *(side.strip().rstrip(".,?") for side in re.split(r"=|<|>|\\[lg]eq?(?![a-z])", whole))]
    return [f for f in dict.fromkeys(found) if OPERATION.search(f) and 1 < len(f) < 400]


def reversed_terms(formula: str) -> str:
    """The summands at the top level in the other order; empty where there are none."""
    terms, depth, start = [], 0, 0
    for place, sign in enumerate(formula):
        depth += (sign in "({[") - (sign in ")}]")
        if sign == "+" and depth == 0 and place:
            terms.append(formula[start:place])
            start = place + 1
    return "+".join(reversed([*terms, formula[start:]])) if terms else ""


def rewritten(prompt: str) -> Iterator[tuple[str, str]]:
    """Each rewriting by its name."""
    for formula in formulas(prompt):
        for name, shape in REWRITINGS.items():
            text = shape.format(formula) if shape else reversed_terms(formula)
            if text:
                yield name, text
        for number in itertools.islice(NUMBER.finditer(formula), MOST_NUMBERS):
            for name, writing in INSIDE.items():
                # in braces: it may stand as the argument of a command, or as an exponent
                inside = f"{{{writing(int(number[0]))}}}"
                yield f"{name} for N", formula[: number.start()] + inside + formula[number.end() :]


def main() -> None:
    """Verify, count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="what is accepted")
    arguments = parser.parse_args()
    verifier = Maths()
    result: dict[str, dict[str, int]] = {}
    with VerifierPool(Prepared(verifier), workers=1) as pool:
        for title, files in SETS.items():
            rows = [json.loads(line) for file in files for line in (DATA / file).read_text().splitlines()]
            solved: dict[str, set[str]] = {name: set() for name in NAMES}
            for row in rows:
                problem = Problem(row["id"], row["problem"], answer=verifier.reference(row, "answer"))
                rewrites = list(rewritten(row["problem"]))
                verdicts = pool.verify([(problem, rf"\boxed{{{text}}}", True) for _, text in rewrites])
                for (name, text), verdict in zip(rewrites, verdicts, strict=True):
                    if verdict.success:
                        solved[name].add(row["id"])
                        if arguments.list:
                            print(f"  {row['id']}: {text!r} for {problem.answer!r}", flush=True)
            union = set().union(*solved.values())
            result[title] = {"problems": len(rows), **{n: len(s) for n, s in solved.items()}, "any": len(union)}
            print(title, result[title], flush=True)
    titles = [f"{title} ({found['problems']})" for title, found in result.items()]
    print(f"| rewriting | {' | '.join(titles)} |")
    print(f"|---|{'---:|' * len(result)}")
    for name in (*NAMES, "any"):
        print(f"| `{name}` | {' | '.join(str(r[name]) for r in result.values())} |")
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
