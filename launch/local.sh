#!/usr/bin/env bash
# Trains on all devices of this machine.
#   bash launch/local.sh CONFIG [ARGUMENTS]       e.g. configs/base.py --config.mesh.fsdp=2
#   EXTRAS=cuda or EXTRAS=tpu installs JAX for that device
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

config="${1:?name a config: bash launch/local.sh configs/base.py}"
shift
environment "${EXTRAS:-}"
say "training $config"
# exec, so that signals reach the training and its exit code is that of this script.
exec "$VENV_PYTHON" -m transformer_jax.main --config="$config" "$@"
