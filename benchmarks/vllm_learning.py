"""Does the shipped base learn where two vLLM servers draw its rollouts, killed runs and killed servers included?

Four recipes, each 600,000 generated tokens on Countdown. A third into its budget the run is killed (SIGKILL) and
resumed; two thirds in, the second server is killed, and started again some steps later. pass@1 and pass@16 before and
after on the same 300 held-out problems, 16 samples each, with paired bootstrap intervals. Needs
``OUTRIDER_VLLM_PYTHON``, an interpreter with vLLM (``make engines`` makes one). Half an hour to an hour on two cores.
Arguments: a folder for the runs, and recipes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _learning import changes, kill, steps, versions, wait_until
from _machine import keep

from outrider.runs.folder import RunFolder

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from vllm_servers import PYTHON, Server

RECIPES = ("grpo", "dars-hw", "deep-grpo", "xrpo")
TOKENS = 600_000
STEPS_WITHOUT = 3  # of one server


def started(recipe: str, servers: list[Server], out: Path, *more: str) -> subprocess.Popen[bytes]:
    engine = json.dumps({"vllm": {"servers": [server.address for server in servers]}})
    words = [f"engine.sampler={engine}", f"train.tokens={TOKENS}", "train.ranks=1", "train.save_every=2"]
    words += ["evaluate.problems=300", "evaluate.n=16", "seed=1", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "outrider", "train", recipe, *words, "--out", str(out)], start_new_session=True
    )


def trained(recipe: str, servers: list[Server], out: Path) -> dict[str, object]:
    begin = time.monotonic()
    process = started(recipe, servers, out)
    wait_until(TOKENS // 3, out, process)
    kill(process)
    process = started(recipe, servers, out, "--resume")
    wait_until(2 * TOKENS // 3, out, process)
    servers[1].kill()
    left = steps(out) + STEPS_WITHOUT
    while steps(out) < left and process.poll() is None:
        time.sleep(0.2)
    servers[1].start()
    servers[1].wait()
    if process.wait():
        raise SystemExit(f"{recipe} ended with status {process.returncode}")
    rows = RunFolder(out).metrics()
    return changes(out, (1, 16)) | {
        "steps": len(rows),
        "tokens": rows[-1]["tokens"],
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "least_engines": min(row["sync/engines"] for row in rows),
        "retries": sum(row["sync/retries"] for row in rows),
        "share_cached": sum(row["sync/cached_tokens"] for row in rows) / sum(row["sync/prompt_tokens"] for row in rows),
        "probe_max": max(row["sync/probe_max"] for row in rows),
        "weight_ess": min(row["learn/weight_ess"] for row in rows if "learn/weight_ess" in row),
    }


def main() -> None:
    if not PYTHON:
        print("OUTRIDER_VLLM_PYTHON names no interpreter with vLLM: skipped")
        return
    folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
    recipes = sys.argv[2:] or RECIPES
    servers = [Server("base:countdown", folder / f"{i}.log") for i in range(2)]
    found: dict[str, object] = {}
    try:
        for server in servers:
            server.wait()
        for recipe in recipes:
            found[recipe] = trained(recipe, servers, folder / recipe)
            print(recipe, json.dumps(found[recipe]), flush=True)
    finally:
        for server in servers:
            server.kill()
    keep("vllm_learning", {"recipes": found, "servers": versions(PYTHON, ("vllm", "torch=", "transformers="))})


if __name__ == "__main__":
    main()
