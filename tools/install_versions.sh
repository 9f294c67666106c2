#!/usr/bin/env bash
# An environment with the lowest or the newest versions that pyproject.toml admits, for `make versions`.
# uv resolves, since pip knows no lowest versions. On Linux PyTorch comes as a CUDA build, 5 GB on disk.
set -euo pipefail
[ $# -eq 3 ] || { echo "usage: tools/install_versions.sh lowest|newest FOLDER PYTHON" >&2; exit 2; }
case "$1" in
  lowest) resolution=lowest-direct ;;
  newest) resolution=highest ;;
  *) echo "$1: lowest or newest" >&2; exit 2 ;;
esac
"$3" -m venv "$2"
"$2/bin/python" -m pip install -qq uv
"$2/bin/uv" pip install --quiet --compile-bytecode --python "$2/bin/python" --resolution "$resolution" -e '.[dev]'
"$2/bin/python" -m pip list --format=freeze | grep -iE '^(numpy|pydantic|pyyaml|rich|pyarrow|torch|transformers|safetensors|tensorboard|matplotlib|scikit-learn|scipy|duckdb|plotly|jinja2)=='
