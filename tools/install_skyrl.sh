#!/bin/sh
# Make an environment with SkyRL's server and its JAX backend, for tests on a CPU. Usage: install_skyrl.sh FOLDER PYTHON
# Apart from .venv: it wants an older transformers. Two things keep SkyRL 0.3.0 from starting there as it is:
# its types need Python 3.12's TypedDict, which typing_extensions has for 3.11; and it starts its engine by `uv run` with
# the options of its own start, which is the environment's own Python here.
set -e
folder=$1 python=$2
"$python" -m venv "$folder"
pip="$folder/bin/python -m pip"
$pip install -qq torch==2.13.0
$pip install -qq 'skyrl[tinker,jax]==0.3.0' tinker==0.24.1 torch==2.13.0
site=$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')
cat > "$site/sitecustomize.py" <<'PYTHON'
import sys

if sys.version_info < (3, 12):
    import typing

    import typing_extensions

    typing.TypedDict = typing_extensions.TypedDict
PYTHON
cat > "$folder/bin/uv" <<'SHELL'
#!/bin/sh
while [ "$1" != "-m" ]; do shift; done
exec "$(dirname "$0")/python" "$@"
SHELL
chmod +x "$folder/bin/uv"
