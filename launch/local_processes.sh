#!/usr/bin/env bash
# Trains with several processes on this machine, to try what happens on many hosts.
#   bash launch/local_processes.sh N CONFIG [ARGUMENTS]
#   DEVICES      CPU devices of each process (default: 4)
# SIGTERM and Ctrl-C go to all processes. If one process fails, the script ends the others.
set -euo pipefail
# shellcheck source=launch/environment.sh
. "$(dirname "$0")/environment.sh"

count="${1:?say how many processes: bash launch/local_processes.sh 2 configs/demo.py}"
config="${2:?name a config: bash launch/local_processes.sh 2 configs/demo.py}"
shift 2
environment "${EXTRAS:-}"
port=$("$VENV_PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
export JAX_COORDINATOR_ADDRESS="127.0.0.1:$port" JAX_NUM_PROCESSES="$count"
export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"
export XLA_FLAGS="${XLA_FLAGS:-} --xla_force_host_platform_device_count=${DEVICES:-4}"
command=("$VENV_PYTHON" -m transformer_jax.main --config="$config" "$@")

say "training $config with $count processes" >&2
pids=()
for ((index = 0; index < count; index++)); do
    if ((index == 0)); then
        JAX_PROCESS_ID=$index "${command[@]}" &
    else
        JAX_PROCESS_ID=$index "${command[@]}" > >(sed -u "s/^/[$index] /" >&2) 2>&1 &
    fi
    pids+=($!)
done

# shellcheck disable=SC2329  # called by the trap
forward() { kill -TERM "${pids[@]}" 2>/dev/null || true; }
trap forward TERM INT

code=0
failed=""
deadline=0
ended=()
while :; do
    for index in "${!pids[@]}"; do
        if [ -z "${ended[$index]:-}" ] && ! kill -0 "${pids[$index]}" 2>/dev/null; then
            one=0
            wait "${pids[$index]}" || one=$?
            ended[index]=1
            if ((one != 0)) && [ -z "$failed" ]; then
                code=$one
                if ((one != 75)); then
                    failed=$index
                    deadline=$((SECONDS + 10))
                    echo "error: process $index of $count ended with code $one: ending the others;" \
                        "the same command resumes from the last checkpoint." >&2
                fi
            fi
        fi
    done
    # Leave only after the exit code of every process was read.
    ((${#ended[@]} < count)) || break
    if [ -n "$failed" ] && ((SECONDS >= deadline)); then
        # A process that waits in a collective for a lost process does not answer SIGTERM.
        for index in "${!pids[@]}"; do
            [ -n "${ended[$index]:-}" ] || kill -KILL "${pids[$index]}" 2>/dev/null || true
        done
    fi
    sleep 0.2 &
    wait $! || true # a signal interrupts wait, but not sleep
done
exit "$code"
