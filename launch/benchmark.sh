#!/usr/bin/env bash
# Measures what the paper's base and big models cost on all devices of this machine.
#   bash launch/benchmark.sh [FOLDER [ARGUMENTS]]     e.g. figures --config.mesh.fsdp=2
#   The figures go to standard output and, as JSON, into FOLDER (default: figures).
#   EXTRAS=cuda or EXTRAS=tpu installs JAX for that device
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

folder="${1:-figures}"
shift || true
environment "${EXTRAS:-}"
mkdir -p "$folder"
for config in base big; do
    say "measuring configs/$config.py"
    # Random sentences of the lengths of news: no corpus is needed.
    "$VENV_PYTHON" -m transformer_jax.benchmark --config="configs/$config.py" --synthetic=200000 \
        --json="$folder/$config.json" "$@"
done
