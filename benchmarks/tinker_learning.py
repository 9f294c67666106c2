"""Does a small model learn where SkyRL's server samples and trains it, killed runs and a killed server included?

SkyRL's JAX backend on a CPU knows Qwen3 and not the shipped base's Qwen2, so a Qwen3 of the same size is taught
Countdown from the task's solutions first (``base`` in the folder; some minutes). Then four recipes through the Tinker
protocol, each with an adapter of rank 8 and 300,000 generated tokens. A third into its budget the run is killed
(SIGKILL) and resumed; two thirds in, the server is, the run ends with a sentence, and both are started again. pass@1
and pass@16 before and after on the same 100 held-out problems, 16 samples each, with paired bootstrap intervals. Needs
``OUTRIDER_SKYRL_PYTHON``, an interpreter with SkyRL (``make engines`` makes one). Arguments: a folder, and recipes;
the results of others are kept, each with its date.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _learning import changes, kill, versions, wait_until
from _machine import RESULTS, keep

from outrider.runs.folder import RunFolder

sys.path += [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "learn")]
from tinker_services import PYTHON, ROWS, SkyrlServer

RECIPES = ("grpo", "dars-hw", "deep-grpo", "xrpo")
TOKENS = 300_000


def teach(folder: Path) -> None:
    """A Qwen3 of the shipped base's size, from the task's solutions."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    from outrider.learn.options import SftOptions
    from outrider.learn.sft import fine_tune
    from outrider.model.load import Policy, save_policy
    from outrider.model.places import model_folder
    from outrider.tasks.countdown import Countdown

    torch.manual_seed(0)
    shape = {"vocab_size": 32, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "head_dim": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    config = Qwen3Config(**shape, **heads, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    policy = Policy(Qwen3ForCausalLM(config).eval(), AutoTokenizer.from_pretrained(model_folder("base:countdown")))
    fine_tune(policy, Countdown(), SftOptions(steps=2000), lambda step, metrics: None)
    save_policy(policy, folder, {"from": "benchmarks/tinker_learning.py"})


def started(recipe: str, server: SkyrlServer, out: Path, *more: str) -> subprocess.Popen[bytes]:
    service = json.dumps({"tinker": {"url": server.address, "rows": ROWS, "seconds": 100}})
    words = [f"engine={{sampler: tinker, learner: {service}}}", f"model={server.model}", "policy.lora={rank: 8}"]
    words += ["learn.clip_norm=null", "learn.lr=1e-3", f"train.tokens={TOKENS}", "train.save_every=2", "seed=1"]
    words += ["evaluate.problems=100", "evaluate.n=16", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "outrider", "train", recipe, *words, "--out", str(out)],
        start_new_session=True,
        stderr=subprocess.PIPE,
    )


def trained(recipe: str, server: SkyrlServer, out: Path) -> dict[str, object]:
    begin = time.monotonic()
    process = started(recipe, server, out)
    wait_until(TOKENS // 3, out, process)
    kill(process)
    process = started(recipe, server, out, "--resume")
    wait_until(2 * TOKENS // 3, out, process)
    server.kill()
    _, told = process.communicate()  # the sentence with which the run ends
    server.start()
    server.wait()
    process = started(recipe, server, out, "--resume")
    if process.wait():
        raise SystemExit(f"{recipe} ended with status {process.returncode}")
    rows = RunFolder(out).metrics()
    return changes(out, (1, 16)) | {
        "steps": len(rows),
        "tokens": rows[-1]["tokens"],
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "without its server": told.decode().strip().split("\n")[-1],
        "probe_max": max(row["sync/probe_max"] for row in rows),
        "weight_ess": min(row["learn/weight_ess"] for row in rows if "learn/weight_ess" in row),
    }


def main() -> None:
    if not PYTHON:
        print("OUTRIDER_SKYRL_PYTHON names no interpreter with SkyRL: skipped")
        return
    folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
    base = folder / "base"
    if not base.exists():
        teach(base)
    server = SkyrlServer(str(base), folder / "server", adapters=12).wait()
    kept = RESULTS / "tinker_learning.json"
    found: dict[str, object] = json.loads(kept.read_text())["recipes"] if kept.exists() else {}
    try:
        for recipe in sys.argv[2:] or RECIPES:
            found[recipe] = {"date": str(datetime.date.today())} | trained(recipe, server, folder / recipe)
            print(recipe, json.dumps(found[recipe]), flush=True)
    finally:
        server.kill()
    keep("tinker_learning", {"recipes": found, "server": versions(PYTHON, ("skyrl", "tinker", "jax"))})


if __name__ == "__main__":
    main()
