"""The contract suites of the optional engines, each with an interpreter that has it: what passed, failed, was skipped.

``make engines`` calls this with the interpreters of vLLM's and of SkyRL's environment. Slow cases run too. Servers are
asked from this interpreter; vLLM in the run's own processes is tested by that one. The results have the versions.
"""

from __future__ import annotations

import subprocess
import sys

from _gpu_contracts import suite
from _machine import keep

CONTRACTS = ["tests/sample/test_sampler_contract.py", "tests/sample/test_adapter_contract.py"]
OVER_HTTP = [*CONTRACTS, "tests/train/test_engine_runs.py"]
INSIDE = [*CONTRACTS, "tests/train/test_engine_inside.py"]
TINKER = ["tests/learn/test_tinker_contract.py"]
LEARNERS = ["tests/learn/test_learner_contract.py", "tests/train/test_sharded_runs.py"]
_SHOWN = ("vllm", "torch=", "transformers=", "peft=", "skyrl=", "tinker=", "jax=")


def versions(python: str) -> list[str]:
    listed = [python, "-m", "pip", "list", "--format=freeze"]
    installed = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return [line for line in installed.splitlines() if line.startswith(_SHOWN)]


def main() -> None:
    if len(sys.argv) < 3:
        print("no interpreters with vLLM and with SkyRL are named (`make engines` makes them): skipped")
        return
    vllm, skyrl = sys.argv[1:3]
    one = {"OMP_NUM_THREADS": "1"}
    found = {
        "vLLM over HTTP": suite(sys.executable, OVER_HTTP, one | {"OUTRIDER_VLLM_PYTHON": vllm}),
        "vLLM in this process": suite(vllm, INSIDE, one),
        "SkyRL behind the Tinker protocol": suite(sys.executable, TINKER, one | {"OUTRIDER_SKYRL_PYTHON": skyrl}),
        "learners, local and FSDP2": suite(sys.executable, LEARNERS, one),
    }
    keep(
        "engines",
        {
            "suites": found,
            "versions": {
                "of vLLM": versions(vllm),
                "of SkyRL": versions(skyrl),
                "of Outrider": versions(sys.executable),
            },
        },
    )
    if any(told.get("failed") or told.get("error") for told in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
