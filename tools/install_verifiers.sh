#!/bin/sh
# Make an environment with the package verifiers, for the task of that name. Usage: install_verifiers.sh FOLDER PYTHON
# Apart from .venv: it brings some fifty packages, with exact versions of a few (mcp, connectrpc), that nothing else needs.
# Environments are installed beside it: FOLDER/bin/python -m pip install …
set -e
folder=$1 python=$2
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install -qq 'verifiers==0.4.0'
