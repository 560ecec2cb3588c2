#!/usr/bin/env bash
# Measures what the paper's base and big models cost on all devices of this machine.
#   bash launch/benchmark.sh [FOLDER [ARGUMENTS]]     e.g. figures --config.mesh.fsdp=2
#   The figures go to standard output and, as JSON, into FOLDER (default: figures).
#   EXTRAS=cuda or EXTRAS=tpu installs JAX for that device. With cuda there are more parts, the most
#   useful first; each has a time limit, and all together take at most 12 minutes of a GPU:
#     base     training with the defaults
#     tuned    training with kernels that XLA has chosen by trying them (train.tune)
#     packed   training with several sentence pairs in a row (data.packing)
#     big      training of the big model
#     search   beam search with base: beam 4, 64 and 256 sentences together
#     killed   a tuned training, killed and resumed: does it end with the same bytes?
#     start    how long a training of the demo takes to its first step
#   PARTS="base search" measures only these. A part that fails or takes too long does not stop the
#   others; the end lists what could not be done.
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

folder="${1:-figures}"
shift || true
environment "${EXTRAS:-}"
mkdir -p "$folder"

case ",${EXTRAS:-}," in
    *,cuda,* | *,cuda12,*)
        parts="${PARTS:-base tuned packed big search killed start}"
        training=(--parts=train)
        limited=yes
        ;;
    *)
        parts="${PARTS:-base big start}"
        training=()
        limited=no
        ;;
esac
undone=()
running=

part() { # NAME, its limit in SECONDS, COMMAND...
    local name="$1" seconds="$2" code=0
    shift 2
    case " $parts " in *" $name "*) ;; *) return 0 ;; esac
    [ "$limited" = yes ] || seconds=0 # no limit
    say "measuring $name"
    # In the background, so that a signal is passed on at once.
    timeout --kill-after=10 "$seconds" "$@" &
    running=$!
    wait "$running" || code=$?
    case "$code" in
        0) ;;
        124 | 137) undone+=("$name: stopped after $seconds s") ;;
        *) undone+=("$name: failed with code $code") ;;
    esac
}

measure() { # NAME of the figures, SECONDS, CONFIG, ARGUMENTS
    local name="$1" seconds="$2" config="$3"
    shift 3
    # Random sentences with the lengths of news, so that no corpus is needed.
    part "$name" "$seconds" "$VENV_PYTHON" -m transformer_jax.benchmark \
        --config="configs/$config.py" --synthetic=200000 --json="$folder/$name.json" "$@"
}

trap '[ -z "$running" ] || kill "$running"; wait; exit 130' INT TERM
measure base 110 base ${training[@]+"${training[@]}"} "$@"
measure tuned 180 base --parts=train --config.train.tune=True "$@"
measure packed 105 base --parts=train --config.data.packing=True "$@"
measure big 110 big ${training[@]+"${training[@]}"} "$@"
measure search 70 base --parts=decode --searches=4x64,4x256 "$@"
part killed 105 "$VENV_PYTHON" tests/kill_once.py --json="$folder/killed.json" "$@"
part start 40 "$VENV_PYTHON" -m transformer_jax.benchmark --config=configs/demo.py --parts=start \
    --json="$folder/start.json"

if [ ${#undone[@]} -gt 0 ]; then
    say "could not be done:"
    printf '   %s\n' "${undone[@]}"
    exit 1
fi
