"""The contract suites of the optional engines, each with an interpreter that has it: what passed, failed, was skipped.

``make engines`` calls this with the interpreter of vLLM's environment. Slow cases run too. Servers are asked from this
interpreter; vLLM in the run's own processes is tested by that one. The results have the versions.
"""

from __future__ import annotations

import subprocess
import sys

from _gpu_contracts import suite
from _machine import keep

OVER_HTTP = ["tests/test_sampler_contract.py", "tests/test_adapter_contract.py", "tests/test_engine_runs.py"]
INSIDE = ["tests/test_sampler_contract.py", "tests/test_adapter_contract.py", "tests/test_engine_inside.py"]
LEARNERS = ["tests/test_learner_contract.py", "tests/test_sharded_runs.py"]
_SHOWN = ("vllm", "torch=", "transformers=", "peft=")


def versions(python: str) -> list[str]:
    listed = [python, "-m", "pip", "list", "--format=freeze"]
    installed = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return [line for line in installed.splitlines() if line.startswith(_SHOWN)]


def main() -> None:
    if not sys.argv[1:]:
        print("no interpreter with vLLM is named (`make engines` makes one): skipped")
        return
    vllm = sys.argv[1]
    one = {"OMP_NUM_THREADS": "1"}
    found = {
        "vLLM over HTTP": suite(sys.executable, OVER_HTTP, one | {"OUTRIDER_VLLM_PYTHON": vllm}),
        "vLLM in this process": suite(vllm, INSIDE, one),
        "learners, local and FSDP2": suite(sys.executable, LEARNERS, one),
    }
    keep("engines", {"suites": found, "versions": {"of vLLM": versions(vllm), "of Outrider": versions(sys.executable)}})
    if any(told.get("failed") or told.get("error") for told in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
