#!/usr/bin/env bash
# Installs the package and runs the tests, but for those marked slow: kills, several processes and
# the READMEs' scripts.
#   bash launch/test.sh [PYTEST ARGUMENTS]      (PYTHON=python3.12 chooses Python 3.12)
#   bash launch/test.sh -m ''                   all tests, as .ci/run does
#   bash launch/test.sh -m slow                 the slow ones only
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

environment "test,huggingface"
say "running the tests"
# By file, because the tests of a file share slow fixtures; conftest.py puts the longest files first.
# --numprocesses=0 helps to debug a test.
"$VENV_PYTHON" -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder "$@"
