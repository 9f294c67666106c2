"""Do the verifiers accept the gold answers of public sets, and do the training pools hold evaluation problems?

Usage: ``python benchmarks/validate.py DATA [SET …]``, where DATA is a folder with the sets' files. Writes
``results/validate/page.md`` and ``results/validate/validate.json`` when all sets are checked. Problem texts are not
written: contest problems belong to their owners.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from outrider.config import Validate
from outrider.record.disk import write_atomically
from outrider.tasks import Table
from outrider.tasks.rows import read_rows
from outrider.tasks.task import right_response, verify_all
from outrider.validate.check import SideTexts, check_side, repeats, texts_of
from outrider.validate.grade import VerifiedResponse
from outrider.validate.page import code, markdown, percent, repeat_data, side_data, verified_data
from outrider.validate.sides import SideEntry, read_side

RESULTS = Path(__file__).absolute().parent / "results" / "validate"
MATHS: dict[str, Any] = {"verifier": "math"}
NO_BOX: dict[str, Any] = {
    "verifier": {"math": {"no_box": "last_number"}}
}  # of worked solutions that end with a sentence
QA = {"prompt": "{question}\n", "verifier": "qa"}
COMPLETION = {"verifier": {"unit_tests": {"entry_point": "entry_point", "prefix": "problem", "code": "completion"}}}

POOLS = {
    "gsm8k train": ("gsm8k/train.jsonl.gz", NO_BOX),
    "MATH train": ("math/train.jsonl.gz", MATHS),
    "AIME 1983-2023": ("aime_1983_2023/train.jsonl", MATHS),
    "DAPO-Math-17k": ("dapo_math17k/train.jsonl.gz", MATHS),
}
EVALUATION = {
    "gsm8k test": ("gsm8k/test.jsonl", NO_BOX),
    "MATH test": ("math/test.jsonl.gz", MATHS),
    "MATH-500": ("math500/test.jsonl", MATHS),
    "AIME24": ("aime24/test.jsonl", MATHS),
    "AIME25": ("aime25/test.jsonl", MATHS),
    "AMC23": ("amc23/test.jsonl", MATHS),
    "AMC (AIMO, 83)": ("amc_aimo83/test.jsonl", MATHS),
    "HMMT Feb 25": ("hmmt_feb25/test.jsonl", MATHS),
    "Minerva": ("minerva/test.jsonl", MATHS),
    "OlympiadBench": ("olympiadbench/test.jsonl", MATHS),
    "OlymMATH en easy": ("olymmath/en_easy.jsonl", MATHS),
    "OlymMATH en hard": ("olymmath/en_hard.jsonl", MATHS),
    "OlymMATH zh easy": ("olymmath/zh_easy.jsonl", MATHS),
    "OlymMATH zh hard": ("olymmath/zh_hard.jsonl", MATHS),
    "Omni-MATH (500)": ("omni_math_num500/test.jsonl", MATHS),
}
OTHERS = {
    "HotpotQA dev 1000": ("hotpotqa/dev_qa1000.jsonl", QA),
    "HotpotQA distractor 300": ("hotpotqa/distractor300.jsonl", QA),
    "HotpotQA train 100": ("hotpotqa/train100.jsonl", QA),
    "2WikiMultihopQA dev 150": ("2wikimultihopqa/dev150.jsonl", {**QA, "verifier": {"qa": {"aliases": "aliases"}}}),
    "MuSiQue train 100": ("musique/train100.jsonl", {**QA, "verifier": {"qa": {"aliases": "answer_aliases"}}}),
    "Bamboogle": ("bamboogle/test.jsonl", QA),
    "HumanEval": ("humaneval/test.jsonl", COMPLETION),
    "MBPP": ("mbpp/all.jsonl", {"verifier": {"unit_tests": {"tests": "test_list", "setup": "test_setup_code"}}}),
    "MBPP sanitized": ("mbpp_sanitized/all.jsonl", COMPLETION),
}
HEADINGS = ("set", "problems", "refused", "verified", "accepted", "worked", "foreign", "same", "near")


class Set(NamedTuple):
    """A checked set: what was found, its texts, and its worked solutions and those rejected."""

    data: dict[str, Any]
    texts: SideTexts
    worked: int
    not_worked: list[dict[str, Any]]


def checked(file: str, options: dict[str, Any], asked: Validate) -> Set:
    """Grade and compare all rows of a file."""
    task = Table(heldout_data=file, id="id", **options)
    side = read_side(task, file, heldout=True)
    texts = texts_of(side.entries, asked.ngram)
    try:
        found = check_side(task, side, texts, asked.near, None)
        return Set(side_data(found), texts, *worked(task, side.entries))
    finally:
        task.close()


def worked(task: Table, entries: list[SideEntry]) -> tuple[int, list[dict[str, Any]]]:
    """How many worked solutions a set has, and those that are rejected as responses."""
    rows = {row.place: row.fields.get("solution") for row in read_rows(task.heldout_data, split="test")}
    solved = [entry for entry in entries if isinstance(rows[entry.place], str)]
    verdicts = verify_all(task, [(entry.problem, rows[entry.place], True) for entry in solved])
    verified = [
        VerifiedResponse(entry, f"…{rows[entry.place][-60:]}", verdict, right_response(task, entry.problem) or "")
        for entry, verdict in zip(solved, verdicts, strict=True)
    ]
    return len(solved), [verified_data(found) for found in verified if not found.verdict.success]


def row(name: str, found: Set) -> tuple[str, ...]:
    """The line of a set on the page."""
    data = found.data
    share = percent(1 - len(data["rejected"]) / data["judged"]) if data["judged"] else "—"
    counts = [data["problems"], len(data["refused"]), data["judged"]]
    pairs = [len(data["foreign"]), *(len(data["within"][kind]) for kind in ("same", "near"))]
    solved = percent(1 - len(found.not_worked) / found.worked) if found.worked else "—"
    return (name, *(f"{n:,}" for n in counts), share, solved, *(f"{n:,}" for n in pairs))


def page(found: dict[str, Set], across: dict[str, dict[str, Any]], asked: Validate) -> str:
    """The page: counts, every rejected answer and refused row, and what of each evaluation set is in each pool."""
    refused = [f"- {sentence}" for of in found.values() for sentence in of.data["refused"]]
    pools = [name for name in POOLS if name in found]
    held = [name for name in EVALUATION if name in found]
    overlaps = [(name, f"{found[name].data['problems']:,}", *(_share(across, p, name) for p in pools)) for name in held]
    parts = [
        "# Gold answers under their own verifiers, and what evaluation sets share with training pools",
        "Each gold answer is verified as a response to its problem. Worked: the set's worked solutions, verified as "
        "responses. Foreign are gold answers of the next "
        "problem, written otherwise, that are accepted too. Same and near are pairs of problems within the "
        f"set: the same text but for case and spacing; at least {asked.near:.0%} of the {asked.ngram}-grams of either "
        "in both. Made by `benchmarks/validate.py`; all pairs are in "
        "`validate.json`, by file and line.",
        markdown(HEADINGS, [row(name, of) for name, of in found.items()]),
        "## Gold answers that are rejected",
        "MBPP sanitized has no reference solution for 243 problems. The six that are rejected continue one function "
        "and then define the one that is tested; a completion ends where the next definition begins.",
        _verified({name: of.data["rejected"] for name, of in found.items()}),
        "## Worked solutions that are rejected",
        "GSM8K's have no box, so their last number is taken, which is not always the answer; they are excluded here. "
        "A box without braces is not read.",
        _verified({name: of.not_worked for name, of in found.items() if not name.startswith("gsm8k")}),
        "## Gold answers of the next problem that are accepted",
        "Where they are written otherwise than the problem's own. All that are not the same value are wrong verdicts.",
        _verified({name: of.data["foreign"] for name, of in found.items()}),
        "## Rows that are refused",
        "\n".join(refused) or "None.",
        "## Evaluation problems in training pools",
        "Problems of the evaluation set (rows) that the pool (column) holds: word for word + nearly, with the same "
        "gold answer + nearly, with another one (often the same words about other numbers).",
        markdown(("set", "problems", *pools), overlaps),
    ]
    return "\n\n".join(parts) + "\n"


def _verified(found: dict[str, list[dict[str, Any]]]) -> str:
    rows = [
        (
            name,
            verified["id"],
            code(verified["right"]),
            code(verified["response"]),
            verified["verdict"],
            code(verified["detail"]),
        )
        for name, of in found.items()
        for verified in of
    ]
    return markdown(("set", "id", "gold answer", "response", "verdict", "reason"), rows) if rows else "None."


def _share(across: dict[str, dict[str, Any]], pool: str, name: str) -> str:
    pairs = across[f"{pool} / {name}"]
    same = {pair["second"] for pair in pairs["same"]}
    alike = {pair["second"] for pair in pairs["near"] if pair["same_answer"]} - same
    other = {pair["second"] for pair in pairs["near"]} - same - alike
    return f"{len(same)} + {len(alike)} + {len(other)}" if same or alike or other else "0"


def main(folder: str, only: list[str]) -> None:
    os.chdir(folder)  # places in the results are relative to it
    asked = Validate(task="countdown")
    found = {}
    for name, (file, options) in {**POOLS, **EVALUATION, **OTHERS}.items():
        if not only or name in only:
            found[name] = checked(file, options, asked)
            print(*row(name, found[name]), sep=" | ", flush=True)
    across = {
        f"{pool} / {name}": repeat_data(repeats(found[pool].texts, found[name].texts, asked.near))
        for pool in POOLS
        for name in EVALUATION
        if pool in found and name in found
    }
    if only:
        print(page(found, across, asked))
        return
    sets = {name: {**of.data, "worked": of.worked, "worked_rejected": of.not_worked} for name, of in found.items()}
    data = {"sets": sets, "across": across}
    write_atomically(RESULTS / "page.md", page(found, across, asked).encode())
    write_atomically(RESULTS / "validate.json", (json.dumps(data) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
