#!/usr/bin/env bash
# Trains on all workers of a Cloud TPU pod slice.
#   bash launch/tpu_pod.sh NAME ZONE CONFIG --workdir=DIR [ARGUMENTS]
#   CHECKOUT     folder of the checkout on the workers (default: transformer_jax)
#   PYTHON, VENV, READY_PYTHON   as in environment.sh, on the workers
# Each worker needs the checkout. DIR and the data must be on a file system that all workers mount.
set -euo pipefail

name="${1:?name the TPU: bash launch/tpu_pod.sh NAME ZONE CONFIG --workdir=DIR}"
zone="${2:?name its zone: bash launch/tpu_pod.sh NAME ZONE CONFIG --workdir=DIR}"
config="${3:?name a config: bash launch/tpu_pod.sh NAME ZONE CONFIG --workdir=DIR}"
shift 3

# Quote for the shell of the workers.
printf -v line ' %q' "$config" "$@"
settings=
for variable in PYTHON VENV READY_PYTHON; do
    if [ -n "${!variable:-}" ]; then
        printf -v settings '%s%s=%q ' "$settings" "$variable" "${!variable}"
    fi
done
exec gcloud compute tpus tpu-vm ssh "$name" --zone="$zone" --worker=all --command="
    cd ${CHECKOUT:-transformer_jax} &&
    ${settings}EXTRAS=tpu TRANSFORMER_JAX_PROCESSES=auto bash launch/local.sh$line"
