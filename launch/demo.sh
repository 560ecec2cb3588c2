#!/usr/bin/env bash
# From nothing to a translator: installs, trains on the embedded corpus, translates.
#   bash launch/demo.sh [FLAGS OF transformer_jax.main]      (PYTHON=python3.12 chooses Python 3.12)
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

environment ""
say "training on the embedded English-French phrasebook (runs/demo; you may stop it, and start it again to resume)"
"$VENV_PYTHON" -m transformer_jax.main --config=configs/demo.py --workdir=runs/demo "$@"
say "translating a sentence that was held out from training"
sentence="The black cat sat on the couch and the brown dog slept on the rug."
echo "$sentence"
echo "$sentence" | "$VENV_PYTHON" -m transformer_jax.translate --workdir=runs/demo
