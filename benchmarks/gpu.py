"""Everything that there is to know about Outrider on a GPU, by one command.

``python benchmarks/gpu.py [--trl PYTHON] [--only TEXT] [--logs FOLDER] [--tiny]``. About an hour on an H100. For
models of random weights in the shapes of Qwen2.5 0.5B and 1.5B, 32 prompts of 128 tokens, 8 responses each of 1,024
tokens (random weights hardly ever end one), bfloat16 products over float32 weights:

- the contract suites of samplers and learners, with what is there: CUDA, vLLM over HTTP and in the run's own process;
- sampling: the local sampler, its packed path, vLLM, ``generate`` of transformers;
- learning: one optimizer step, with and without layers computed twice, against a clipped loss over padded rows and
  whole logits of transformers; tokens are those of responses, and ``share_of_peak`` counts what ``_gpu_parts.py`` says;
  ours also with gradients that are the same to the last bit each time (``learn.deterministic``), and with the head
  compiled (``learn.compile``; on a GPU only);
- the operations of the optimizer step that take most of the GPU's time, also with ``learn.deterministic``, whose cost
  they explain;
- the head of one micro-batch of it: as it is, with its passes over logits compiled, and its products alone;
- a whole step of grpo and of dars-hw as ``outrider train`` runs it, sampled locally and by vLLM in the same process
  (grpo also with vLLM's sleep mode), with the seconds of each phase, the weight sync among them;
  grpo also by TRL's GRPOTrainer with vLLM in its process, on the same model, prompts, lengths, group size and reward.

Each is a process of its own: the second of two rounds counts, and what fails is recorded with the reason while the
others go on (exit status 1); what all of them printed is in ``--logs``. vLLM's are run by this interpreter if it has
vLLM, else by the one that ``OUTRIDER_VLLM_PYTHON`` names; TRL's by the one that ``--trl`` names. Where there is none,
the result is null and says why. Results go to ``benchmarks/results/gpu.json`` after each; with ``--only`` those whose
name contains a text are measured, and the others in the file stay. Without CUDA nothing is measured; ``--tiny`` runs
all of it with a small model on whatever there is, and keeps no numbers.

Anchors, neither of which is the same work: NeMo-RL, 1,562 tokens per second and H100 end to end for 8 B; prime-rl's
trainer, 11,900 tokens per second for 0.6 B on one H100.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _gpu_contracts import ROOT, suite
from _gpu_model import SIZES, VLLM_MEMORY
from _machine import RESULTS, keep

HERE = Path(__file__).parent
SECONDS = 1800
VLLM = sys.executable if importlib.util.find_spec("vllm") else os.environ.get("OUTRIDER_VLLM_PYTHON") or None
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
TELLING = {"VLLM_LOGGING_LEVEL": "INFO", "PYTHONUNBUFFERED": "1"}  # how far one was whose time is over
WITHOUT_GPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}  # for vLLM's CPU build
RECIPES = ("grpo", "dars-hw")


class Case(NamedTuple):
    """One measurement: where it stands in the results, and the process that makes it; without one, why not."""

    name: str
    command: Sequence[str] | None
    why: str = ""


def cases(size: str, folder: Path, trl: str | None, gpu: bool) -> Iterator[Case]:
    """Those of one model, in the order in which they run; the first writes the model for the others."""

    def ours(kind: str, python: str | None = sys.executable, **arguments: Any) -> list[str] | None:
        script = str(HERE / "_gpu_case.py")
        return python and [python, script, kind, size, str(folder), json.dumps(arguments)]  # type: ignore[return-value]

    no_vllm = "neither this interpreter nor OUTRIDER_VLLM_PYTHON has vLLM"
    yield Case(f"{size}/model", ours("model"))
    yield Case(f"{size}/sampling/local", ours("sampling", engine="local"))
    yield Case(f"{size}/sampling/local, packed path", ours("sampling", engine="local", path="packed"))
    yield Case(f"{size}/sampling/vllm", ours("sampling", VLLM, engine="vllm"), no_vllm)
    yield Case(f"{size}/sampling/transformers", ours("plain_sampling"))
    for kind, who in (("learning", "local"), ("plain_learning", "transformers")):
        for recompute, how in ((False, ""), (True, ", layers computed twice")):
            yield Case(f"{size}/learning/{who}{how}", ours(kind, recompute=recompute))
    yield Case(f"{size}/learning/local, deterministic", ours("learning", recompute=False, deterministic=True))
    yield Case(f"{size}/learning/local, compiled head", ours("learning", recompute=False, compiled=True))
    for deterministic, how in ((False, ""), (True, ", deterministic")):
        yield Case(f"{size}/operations/local{how}", ours("operations", deterministic=deterministic))
    for how in ("ours", "compiled", "products"):
        yield Case(f"{size}/head/{how}", ours("head", how=how))
    for recipe in RECIPES:
        yield Case(f"{size}/step/{recipe}, local", ours("step", name=recipe, engine="local"))
        yield Case(f"{size}/step/{recipe}, vllm", ours("step", VLLM, name=recipe, engine="vllm"), no_vllm)
    yield Case(f"{size}/step/grpo, vllm asleep", ours("step", VLLM, name="grpo", engine="vllm asleep"), no_vllm)
    yield Case(f"{size}/step/grpo, trl", trl and trl_command(size, folder, trl, gpu), "--trl names no interpreter")  # type: ignore[arg-type]


def trl_command(size: str, folder: Path, trl: str, vllm: bool) -> list[str]:
    shape = SIZES[size]
    sizes = {name: getattr(shape, name) for name in ("rows", "samples", "response", "micro_batch")}
    asked = {"folder": str(folder), **sizes, "vllm": vllm, "memory": VLLM_MEMORY}
    return [trl, str(HERE / "_gpu_trl.py"), json.dumps(asked)]


def measured(case: Case, environment: dict[str, str], logs: Path, seconds: int = SECONDS) -> dict[str, Any]:
    """What its process says, or why there is nothing."""
    if case.command is None:
        return {"result": None, "why": case.why}
    file = log_of(case.name, logs)
    answer = file.with_suffix(".out")
    try:
        # as it comes, so that what runs out of time has said how far it was; apart, as warnings end many a process
        with file.open("w") as errors, answer.open("w") as told:
            ran = subprocess.run(
                case.command, env={**os.environ, **TELLING, **environment}, stdout=told, stderr=errors, timeout=seconds
            )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {seconds} seconds"}
    except OSError as error:  # no such interpreter
        return {"error": str(error)}
    if ran.returncode:
        said = file.read_text(errors="replace").strip().splitlines()
        reasons = [line for line in said if "Error" in line]
        return {"error": (reasons or said or [f"ended with {ran.returncode}"])[-1]}
    last = (answer.read_text(errors="replace").strip().splitlines() or [""])[-1]
    try:
        found: dict[str, Any] = json.loads(last)
    except json.JSONDecodeError:
        return {"error": f"its last line is no result: {last}"}
    return found


def log_of(name: str, logs: Path) -> Path:
    """Its stderr, or all that a suite says; its stdout, with the lines of vLLM, is in ``.out`` beside it."""
    return logs / f"{re.sub('[^a-z0-9.-]+', '-', name.lower())}.log"


def contracts(environment: dict[str, str], logs: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each suite, and the sampler's once more where another interpreter has vLLM."""
    vllm = {"OUTRIDER_VLLM_PYTHON": VLLM or ""}
    learner, sampler = "tests/learn/test_learner_contract.py", "tests/sample/test_sampler_contract.py"
    asked: list[tuple[str, str, list[str], dict[str, str]]] = [
        ("learner", sys.executable, [learner], {}),
        ("sampler", sys.executable, [sampler], vllm),
    ]
    if VLLM not in (None, sys.executable):
        assert VLLM is not None
        asked.append(("sampler, vLLM in the same process", VLLM, [sampler, "-k", "inside"], {}))
    for who, python, words, more in asked:
        name = f"contracts/{who}"
        yield name, suite(python, words, {**environment, **more}, log_of(name, logs))


def results(only: str, trl: str | None, tiny: bool, logs: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    gpu = torch.cuda.is_available()
    environment = ENVIRONMENT if gpu else ENVIRONMENT | WITHOUT_GPU
    for size in ("tiny",) if tiny else ("0.5b", "1.5b"):
        with tempfile.TemporaryDirectory() as parent:
            model, *others = cases(size, Path(parent) / "model", trl, gpu)
            chosen = [case for case in others if only in case.name]
            for case in [model, *chosen] if chosen or only in model.name else []:
                yield case.name, measured(case, environment, logs)
    if only in "contracts":
        yield from contracts(environment, logs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small model, on a CPU too; no numbers are kept")
    parser.add_argument("--trl", metavar="PYTHON", help="an interpreter that has trl, with a GPU also vLLM")
    parser.add_argument("--only", metavar="TEXT", default="", help="results whose name contains it; contracts is one")
    parser.add_argument(
        "--logs", metavar="FOLDER", type=Path, help="where all that was printed goes (else a new folder)"
    )
    asked = parser.parse_args()
    for python, who in ((asked.trl, "--trl"), (VLLM, "OUTRIDER_VLLM_PYTHON")):
        if python and not shutil.which(python):
            parser.error(f"{who}: {python} is no interpreter")
    if not (asked.tiny or torch.cuda.is_available()):
        print("no CUDA here: skipped")
        return 0
    file = RESULTS / "gpu.json"
    found: dict[str, Any] = json.loads(file.read_text()) if asked.only and file.exists() else {}
    logs = asked.logs or Path(tempfile.mkdtemp(prefix="outrider-gpu-"))
    logs.mkdir(parents=True, exist_ok=True)
    print(f"what each of them prints: {logs}", flush=True)
    bad, measured_now = [], 0
    for name, result in results(asked.only, asked.trl, asked.tiny, logs):
        print(f"{name}: {json.dumps(result)}", flush=True)
        measured_now += 1
        if result.get("error") or result.get("failed"):
            bad.append(name)
        found[name] = result
        if not asked.tiny:
            keep("gpu", found, show=False)
    if not measured_now:
        parser.error(f"--only {asked.only!r}: no result has a name that contains it")
    print(f"failed: {', '.join(bad)}" if bad else "nothing failed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
