#!/bin/sh
# Make an environment with Outrider and TRL, for outrider.integrations.trl. Usage: install_trl.sh FOLDER PYTHON
# Apart from .venv: it brings datasets and what that needs, which nothing else needs.
set -e
folder=$1 python=$2 root=$(dirname "$0")/..
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install -qq -c "$root/constraints.txt" -e "$root" 'trl==1.16.0' pytest pytest-xdist hypothesis
