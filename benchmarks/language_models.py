"""The papers' setting on one GPU: does what they report show for a language model of 0.5 B on GSM8K?

::

    python benchmarks/language_models.py join PART ... --to MODEL.gguf
    python benchmarks/language_models.py run --model MODEL --data FOLDER --out RUNS [--minutes 8] [PART ...]
    python benchmarks/language_models.py page

``run`` trains the parts in order until the time is over. A part that was interrupted goes on from its last step at the
next call, on the same machine or where its folder was brought to. All parts generate equally many tokens, with the
learning rate that GRPO was best with among three, on the same problems. Each is measured before and after: up to
pass@64 on 200 problems of the test set, then greedily and with one sample on all 1,319. Results go to
``benchmarks/results/language_models/results.json`` after every part, with the card that it ran on, and ``page`` writes
the page beside them.

``--data`` is a folder with ``train.jsonl`` and ``test.jsonl`` (fields ``problem``, ``answer``, ``solution``).
``--tiny`` makes a step or two of every part with a small model, to rehearse, and keeps its numbers with its runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from _language_page import FOLDER, page
from _language_parts import PARTS, Part, chosen_rate
from _learning import changes

import outrider
from outrider.runs.folder import RunFolder

GSM8K_TEST = 1319


def join(parts: Sequence[Path], to: Path) -> None:
    """Write parts one after the other; a machine may take files of a limited size alone."""
    digest = hashlib.sha256()
    with to.open("wb") as whole:
        for part in parts:
            data = part.read_bytes()
            digest.update(data)
            whole.write(data)
    print(f"{to}: {to.stat().st_size:,} bytes, sha256 {digest.hexdigest()}")


def task_of(asked: argparse.Namespace) -> dict[str, Any]:
    table = {"train_data": str(asked.data / "train.jsonl"), "heldout_data": str(asked.data / "test.jsonl")}
    form = {"prompt": "{problem}\n"} if asked.tiny else {"prompt": "qwen-boxed", "verifier": "math"}
    return {"table": {**table, **form, "solution": "solution"}}


def config_of(part: Part, asked: argparse.Namespace, rate: float) -> dict[str, Any]:
    """What all parts have in common, and above it the part's own values."""
    own = {"task": task_of(asked), "seed": part.seed, "learn.lr": rate, "train.save_every": 5, "train.ranks": 1}
    own |= {"train.steps": None, "engine.sampler": asked.sampler, "learn.gradient_checkpointing": "auto"}
    if asked.tiny:
        own |= {
            "sample.max_tokens": 64,
            "train.problems": 2,
            "train.tokens": None,
            "train.steps": 2,
            "policy.dtype": "float32",
        }
        own |= {"evaluate.problems": 2, "evaluate.n": 2}
    else:
        own |= {"sample.max_tokens": 512, "train.problems": 64, "train.tokens": int(asked.tokens * part.share)}
        own |= {"evaluate.problems": 200, "evaluate.n": 64}
    return {**own, **part.config, **(part.tiny if asked.tiny else {})}


def model_of(part: Part, asked: argparse.Namespace) -> str:
    """What a part begins with."""
    if not part.after:
        return str(asked.model)
    if part.after != "sft":
        return str(asked.out / part.after / "model")
    folder = asked.out / "sft"
    if not folder.exists():
        steps = {"steps": 1, "problems": 2} if asked.tiny else {"steps": 60, "problems": 64}
        outrider.sft(task_of(asked), base=asked.model, config={"learn.lr": 1e-5, **steps}, out=folder)
    return str(folder)


def trained(part: Part, asked: argparse.Namespace, rate: float, until: float) -> bool:
    """Train a part until its tokens are spent or the time is over; whether it is done."""
    out = asked.out / part.name
    config = config_of(part, asked, rate) | {"model": model_of(part, asked)}
    with outrider.Session(part.recipe, setting="gsm8k-0.5b", config=config, out=out, resume=out.exists()) as session:
        for _ in session:
            if time.monotonic() > until:
                break
    return (out / "model").exists()


def measured(part: Part, asked: argparse.Namespace, rate: float) -> dict[str, Any]:
    """Of a part that is done: what it cost, and what it changed."""
    folder = RunFolder(asked.out / part.name)
    rows, evaluations = folder.metrics(), folder.evaluations()
    last = evaluations[max(evaluations)]["overall"]
    ks = tuple(k for k in (1, 8, 64) if str(k) in last["pass_at"])
    whole = outrider.evaluate(
        str(folder.model),
        task_of(asked),
        n=1,
        problems=2 if asked.tiny else GSM8K_TEST,
        ranks=1,
        config={"sample.max_tokens": 64 if asked.tiny else 512},
    ).overall
    return {
        "recipe": part.recipe,
        "seed": part.seed,
        "lr": rate,
        "steps": len(rows),
        "tokens": rows[-1]["tokens"],
        "rollouts": sum(row["rollouts"] for row in rows) / sum(row["groups"] for row in rows),
        "entropy": {"after": rows[-1]["entropy"]},
        "greedy": {"after": whole.greedy.value, "low": whole.greedy.low, "high": whole.greedy.high},
        "all": {"after": whole.pass_at[1].value, "low": whole.pass_at[1].low, "high": whole.pass_at[1].high},
        **changes(folder.path, ks),
        "card": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU",
        "date": time.strftime("%Y-%m-%d"),
    }


def rate_of(part: Part, asked: argparse.Namespace, results: dict[str, Any]) -> float:
    """A part that was begun keeps its learning rate, also where probes have ended since."""
    if (asked.out / part.name / "config.yaml").exists():
        return float(outrider.load_run(asked.out / part.name).config["learn"]["lr"])
    return float(part.config.get("learn.lr", chosen_rate(results)))


def run(asked: argparse.Namespace) -> int:
    """Train and measure what is not done yet; 0 where all asked parts are."""
    until = time.monotonic() + 60 * asked.minutes
    file = (asked.out if asked.tiny else FOLDER) / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    names = asked.parts or [part.name for part in PARTS]
    if unknown := set(names) - {part.name for part in PARTS}:
        print(f"no such part: {', '.join(sorted(unknown))} (known: {', '.join(part.name for part in PARTS)})")
        return 2
    for part in (part for part in PARTS if part.name in names and part.name not in results):
        if part.after not in ("", "sft") and not (asked.out / part.after / "model").exists():
            print(f"{part.name}: waits for {part.after}")
            continue
        rate = rate_of(part, asked, results)
        if not trained(part, asked, rate, until):
            print(f"{part.name}: goes on at the next call")
            return 1
        results[part.name] = measured(part, asked, rate)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
        print(part.name, json.dumps(results[part.name]), flush=True)
        if time.monotonic() > until:
            break
    return int(any(name not in results for name in names))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    joined = commands.add_parser("join")
    joined.add_argument("parts", nargs="+", type=Path)
    joined.add_argument("--to", type=Path, required=True)
    running = commands.add_parser("run")
    running.add_argument("parts", nargs="*", metavar="PART")
    running.add_argument("--model", required=True)
    running.add_argument("--data", type=Path, required=True)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--minutes", type=float, default=8)
    running.add_argument("--tokens", type=int, default=6_000_000)
    running.add_argument("--sampler", default="local", choices=("local", "vllm"))
    running.add_argument("--tiny", action="store_true")
    commands.add_parser("page")
    asked = parser.parse_args()
    if asked.command == "join":
        join(asked.parts, asked.to)
    elif asked.command == "run":
        return run(asked)
    elif asked.command is None:
        print("runs of an hour and more on a GPU: skipped (--help says how they are asked for)")
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "page.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
