"""Do two commits train the same, bit for bit? ``python tools/same_results.py BEFORE [AFTER]``; AFTER is HEAD.

Each commit is checked out beside the other, and each recipe is trained by both on this machine, one process of one
thread each. Compared are the trained weights, every metric, every rollout (but for the seconds of its verdict), every
evaluation and the resolved configuration. The exit status is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet
from safetensors.numpy import load_file

RECIPES = ["grpo", "kl-cov", "dars-hw-breadth", "xrpo", "deep-grpo", "treerl"]
LABELS = ("from_profile:", "from_setting:")  # where the values come from, by its name in 0.1 and now
SETTINGS = ["train.ranks=1", "train.trackers=[]", "evaluate.problems=50", "evaluate.n=8"]


def main() -> int:
    """Train and compare; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--keep", type=Path, help="folder of the runs (default: one that is removed)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sides = {"before": arguments.before, "after": arguments.after}
        trees = [checkout(commit, Path(scratch) / side) for side, commit in sides.items()]
        runs = arguments.keep or Path(scratch) / "runs"
        differences = [
            said
            for recipe in arguments.recipes
            for said in compared(recipe, [trained(t, recipe, arguments.tokens, runs) for t in trees])
        ]
        for tree in trees:
            subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)
    print(f"{len(arguments.recipes)} recipes of {arguments.tokens} tokens, {len(differences)} differences")
    return int(bool(differences))


def checkout(commit: str, folder: Path) -> Path:
    """A work tree of a commit."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, commit], check=True)
    return folder


def trained(tree: Path, recipe: str, tokens: int, runs: Path) -> Path:
    """The folder of a run by the code of a tree."""
    out = runs / tree.name / recipe
    command = [sys.executable, "-m", "outrider", "train", recipe, f"train.tokens={tokens}", *SETTINGS, "--out", out]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tree.name} {recipe}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return out


def compared(recipe: str, folders: list[Path]) -> list[str]:
    """What differs between two runs, printed as well."""
    before, after = (fingerprints(folder) for folder in folders)
    different = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    steps = sum(1 for _ in (folders[1] / "metrics.jsonl").open())
    print(f"{recipe}: {steps} steps, {len(after)} things compared, {len(different)} different", flush=True)
    for key in different:
        print(f"  {key}")
    return [f"{recipe}: {key}" for key in different]


def fingerprints(folder: Path) -> dict[str, str]:
    """Everything of a run that two equal runs share, each thing by its name."""
    config = (folder / "config.yaml").read_text().splitlines()
    found = {"config.yaml": "\n".join(line for line in config if not line.startswith(LABELS))}
    weights = load_file(folder / "model" / "model.safetensors")
    found |= {f"weight {name}": digest(weight.tobytes()) for name, weight in weights.items()}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        metrics = json.loads(line)
        found |= {f"metric {name} of step {metrics['step']}": repr(value) for name, value in metrics.items()}
    for file in sorted((folder / "rollouts").glob("*.parquet")):
        table = pyarrow.parquet.read_table(file).drop_columns(["seconds"])
        found |= {f"{file.name} {name}": digest(repr(table[name].to_pylist()).encode()) for name in table.column_names}
    return found | {file.name: file.read_text() for file in sorted((folder / "evaluations").glob("*.json"))}


def digest(content: bytes) -> str:
    """Short for a content that is only compared."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
