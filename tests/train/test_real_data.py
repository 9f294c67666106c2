"""GSM8K and MATH from their files: two small steps of training, then an evaluation, of a random model from a folder.

Rewards are near zero: what is shown is the path, from a table's row to a verdict on a real model's tokens.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from outrider.cli import main
from outrider.record import Outcome
from outrider.runs.folder import RunFolder
from real_models import make_model

DATA = Path(__file__).parents[3] / "shared" / "data"
SETS = {
    "gsm8k": ("gsm8k/train.jsonl.gz", "gsm8k/test.jsonl", "number", {}),
    "math": ("math/train.jsonl.gz", "math/test.jsonl.gz", {"math": {"workers": 1}}, {"level": "level"}),
}


def first_rows(file: Path, n: int, folder: Path) -> str:
    """The beginning of a table as a file of its own: reading all of it is tested elsewhere, and takes seconds."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        part = [next(lines) for _ in range(n)]
    (folder / file.name.removesuffix(".gz")).write_text("".join(part))
    return str(folder / file.name.removesuffix(".gz"))


@pytest.mark.parametrize(("name", "family"), [("gsm8k", "qwen2"), ("math", "llama")])
def test_a_real_set_trains_and_evaluates_from_end_to_end(
    name: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, testing, verifier, more = SETS[name]
    if not (DATA / training).is_file():
        pytest.skip("the shared data sets are not here")
    monkeypatch.setenv("WORLD_SIZE", "1")  # one process
    sides = {
        "train_data": first_rows(DATA / training, 40, tmp_path),
        "heldout_data": first_rows(DATA / testing, 20, tmp_path),
    }
    task = json.dumps({"table": {**sides, "prompt": "boxed", "verifier": verifier, **more}})
    run, measured = tmp_path / "run", tmp_path / "evaluated"
    model = make_model(family, tmp_path / "model", context=1024)
    shared = ["policy.chat=true", "sample.max_tokens=48", "sample.stop=['\\boxed{}']", "evaluate={problems: 4, n: 2}"]
    steps = ["train.problems=2", "explore.0.n=4", "train.steps=2", "train.tokens=null", "evaluate.after=false"]
    assert main(["train", "grpo", f"model={model}", f"task={task}", *shared, *steps, "--out", str(run)]) == 0
    assert main(["evaluate", str(run / "model"), "--task", task, *shared, "--out", str(measured)]) == 0
    folder = RunFolder.existing(run)
    assert [line["step"] for line in folder.metrics()] == [1, 2]
    rollouts = [r for step in folder.rollouts.steps() for r in folder.rollouts.read(step)]
    assert len(rollouts) == 2 * 2 * 4
    verified = {r.verdict.outcome for r in rollouts if r.verdict is not None}
    assert verified <= {Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE}
    assert all(r.verdict is not None and r.reward is not None for r in rollouts)
    (kept,) = RunFolder.existing(measured).evaluations().values()
    assert len(kept["tallies"]) == 4
    AutoModelForCausalLM.from_pretrained(run / "model")
