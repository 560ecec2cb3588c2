#!/usr/bin/env bash
# Installs and runs the tests.
#   bash launch/test.sh [PYTEST ARGUMENTS]      (PYTHON=python3.12 chooses the Python)
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

environment "test,huggingface"
say "running the tests"
"$VENV_PYTHON" -m pytest "$@"
