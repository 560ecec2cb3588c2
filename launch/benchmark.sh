#!/usr/bin/env bash
# Measures what the paper's base and big models cost on all devices of this machine, and how long a
# training of the demo takes to its first step.
#   bash launch/benchmark.sh [FOLDER [ARGUMENTS]]     e.g. figures --config.mesh.fsdp=2
#   The figures go to standard output and, as JSON, into FOLDER (default: figures).
#   EXTRAS=cuda or EXTRAS=tpu installs JAX for that device. With cuda, training is measured again with
#   four settings that may be faster: kernels that XLA chooses by trying them; also Triton's kernels
#   for all products; cuDNN's attention; and that with products that XLA does not merge.
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

folder="${1:-figures}"
shift || true
environment "${EXTRAS:-}"
mkdir -p "$folder"

measure() { # NAME of the figures, CONFIG, ARGUMENTS
    local name="$1" config="$2"
    shift 2
    say "measuring configs/$config.py: $name"
    # Random sentences with the lengths of news, so that no corpus is needed.
    "$VENV_PYTHON" -m transformer_jax.benchmark --config="configs/$config.py" --synthetic=200000 \
        --json="$folder/$name.json" "$@"
}

say "measuring the time to the first step of configs/demo.py"
"$VENV_PYTHON" -m transformer_jax.benchmark --config=configs/demo.py --parts=start \
    --json="$folder/start.json"
for config in base big; do
    measure "$config" "$config" "$@"
done
case ",${EXTRAS:-}," in
    *,cuda,* | *,cuda12,*)
        for config in base big; do
            tuned=(--parts=train --config.train.deterministic=False)
            measure "$config-tuned" "$config" "${tuned[@]}" "$@"
            XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_triton_gemm_any=true" \
                measure "$config-triton" "$config" "${tuned[@]}" "$@"
            cudnn=(--parts=train --config.model.attention_implementation=cudnn)
            measure "$config-cudnn" "$config" "${cudnn[@]}" "$@"
            XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_dot_merger_threshold_mb=0" \
                measure "$config-cudnn-apart" "$config" "${cudnn[@]}" "$@"
        done
        ;;
esac
