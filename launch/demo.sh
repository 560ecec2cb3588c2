#!/usr/bin/env bash
# From nothing to a translator: installs, trains on the embedded corpus, translates.
#   bash launch/demo.sh [FLAGS OF transformer_jax.main]      (PYTHON=python3.12 chooses Python 3.12)
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

environment ""
say "training on the embedded English-French phrasebook (runs/demo; you may stop it, and start it again to resume)"
"$VENV_PYTHON" -m transformer_jax.main --config=configs/demo.py --workdir=runs/demo "$@"
say "translating sentences that were held out from training"
sentences="The cat sat on the mat.
The cat slept on the couch. It was too tired to get up.
The cat sat on the rug and it was dry-cleaned.
It is easy to translate languages with transformers.
The black cat sat on the couch and the brown dog slept on the rug."
translations=$("$VENV_PYTHON" -m transformer_jax.translate --workdir=runs/demo <<< "$sentences")
paste -d '\n' <(echo "$sentences") <(echo "$translations")
