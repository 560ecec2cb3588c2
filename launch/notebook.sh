#!/usr/bin/env bash
# Opens the notebooks in Jupyter; the first time it installs what they need.
#   bash launch/notebook.sh [ARGUMENTS OF jupyter lab]      (PYTHON=python3.12 chooses Python 3.12)
#   bash launch/notebook.sh --no-browser --port=8889        prints the address to open
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

environment notebook
say "opening launch/notebooks in Jupyter (Ctrl-C ends it)"
exec "$VENV_PYTHON" -m jupyter lab --notebook-dir=launch/notebooks "$@"
