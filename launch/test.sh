#!/usr/bin/env bash
# Installs and runs the tests.
#   bash launch/test.sh [PYTEST ARGUMENTS]      (PYTHON=python3.12 chooses the Python)
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

environment "test,huggingface"
say "running the tests"
# By files, since tests of one file share what takes long to make. --numprocesses=0 to debug one.
"$VENV_PYTHON" -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile "$@"
