"""Change digits in the gold answers of maths sets and name each change that the verifier accepts.

``python tools/mutate_golds.py [FILE …] [--per-digit 9]``: JSON lines, gzipped or not, with the gold answer in
``answer``; without a file, the maths sets in ``../shared/data``. Each digit of each gold answer is replaced by that
many others. A change is accepted rightly where nothing depends on the digit, as on the 3 in 0^3; it is named all the
same. The last line counts, and the exit status is 1 where anything was accepted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from outrider.record import Outcome
from outrider.verify.equality import compare
from outrider.verify.maths import Maths

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = (
    "olympiadbench/test.jsonl",
    "math/test.jsonl.gz",
    "minerva/test.jsonl",
    "olymmath/en_easy.jsonl",
    "olymmath/en_hard.jsonl",
    "hmmt_feb25/test.jsonl",
    "omni_math_num500/test.jsonl",
    "amc23/test.jsonl",
    "aime24/test.jsonl",
    "aime25/test.jsonl",
)
DIGITS = "0123456789"


def golds(path: Path) -> list[str]:
    """The different gold answers of a file, as the verifier keeps them."""
    verifier = Maths()
    found: list[str] = []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as lines:
        for line in lines:
            one = verifier.reference(json.loads(line), "answer")
            found += [one] if isinstance(one, str) else one
    return sorted(set(found))


def mutants(gold: str, per_digit: int) -> Iterator[str]:
    """The gold answer with one digit changed, ``per_digit`` times for each: always the same changes."""
    draw = random.Random(gold)
    for place, digit in enumerate(gold):
        if digit in DIGITS:
            for other in draw.sample(DIGITS.replace(digit, ""), min(per_digit, 9)):
                yield gold[:place] + other + gold[place + 1 :]


def accepted(right: Iterable[str], per_digit: int) -> Iterator[tuple[str, str, bool]]:
    """Each gold answer with each change, and whether the verifier accepts it."""
    for gold in right:
        for mutant in mutants(gold, per_digit):
            yield gold, mutant, compare(gold, mutant)[0] is Outcome.CORRECT


def main() -> int:
    """Mutate, name and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--per-digit", type=int, default=9)
    arguments = parser.parse_args()
    every = wrong = 0
    for path in arguments.files or [DATA / name for name in SETS]:
        before = every, wrong
        for gold, mutant, is_accepted in accepted(golds(path), arguments.per_digit):
            every += 1
            if is_accepted:
                wrong += 1
                print(f"  accepted: {mutant!r} for {gold!r}", flush=True)
        print(f"{path.parent.name}/{path.name}: {every - before[0]} changes, {wrong - before[1]} accepted", flush=True)
    print(f"{every} changed digits, {wrong} accepted")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
