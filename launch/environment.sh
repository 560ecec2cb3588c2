# shellcheck shell=bash
# Sourced by the other scripts: makes a virtual environment with the package, unless there is one.
#
#   PYTHON       the Python to make it with (default: python3, or another version if python3 is too
#                old or too new)
#   VENV         its folder (default: .venv-VERSION in the checkout, one for each Python version)
#   READY_PYTHON an interpreter that has the package already; then nothing is made or installed
#   environment EXTRAS    installs the package with these extras, e.g. "test", if it is not installed
#                         or pyproject.toml has changed; sets VENV_PYTHON, the interpreter to use

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

say() { printf '== %s\n' "$*"; }

# Prints the version of the Python $1, e.g. 3.12. Fails if $1 does not run.
python_version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# Sets FOUND_PYTHON and FOUND_VERSION to PYTHON if that is set, otherwise to the first suitable one.
find_python() {
    local versions candidates
    if [ -n "${PYTHON:-}" ]; then
        FOUND_PYTHON="$PYTHON"
        if ! FOUND_VERSION=$(python_version "$PYTHON"); then
            echo "error: PYTHON=$PYTHON does not run: name a Python 3.11 to 3.14, e.g. PYTHON=python3.13." >&2
            exit 2
        fi
        case "$FOUND_VERSION" in
            3.11 | 3.12 | 3.13 | 3.14) return ;;
        esac
        echo "error: PYTHON=$PYTHON is Python $FOUND_VERSION: name a Python 3.11 to 3.14, e.g. PYTHON=python3.13." >&2
        exit 2
    fi
    # Try all commands of a name on the PATH: those of pyenv come before those of the system, and fail
    # if their version is not selected.
    mapfile -t candidates < <(type -ap python3 python3.13 python3.12 python3.11 python3.14)
    # Python 3.14 comes last, because TensorFlow has no build for it yet.
    for versions in '3.11 3.12 3.13' '3.14'; do
        for FOUND_PYTHON in ${candidates[@]+"${candidates[@]}"}; do
            FOUND_VERSION=$(python_version "$FOUND_PYTHON") || continue
            case " $versions " in
                *" $FOUND_VERSION "*) return ;;
            esac
        done
    done
    echo "error: neither python3 nor python3.11 to python3.14 is a Python 3.11 to 3.14 that runs:" \
        "install one, or name it with PYTHON=/path/to/python." >&2
    exit 2
}

environment() {
    local extras="$1" stamp wanted
    if [ -n "${READY_PYTHON:-}" ]; then
        VENV_PYTHON="$READY_PYTHON"
        return
    fi
    find_python
    VENV="${VENV:-.venv-$FOUND_VERSION}"
    # shellcheck disable=SC2034  # for those who source this file
    VENV_PYTHON="$VENV/bin/python"
    stamp="$VENV/installed-$extras"
    wanted=$(cksum pyproject.toml)
    if [ -x "$VENV/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        say "using the virtual environment $VENV"
        return
    fi
    # Check for pip, not for python: without ensurepip, as on a fresh Debian, venv leaves a folder that
    # has a Python but no pip.
    if [ ! -x "$VENV/bin/pip" ]; then
        say "making a virtual environment with Python $FOUND_VERSION in $VENV"
        "$FOUND_PYTHON" -m venv "$VENV"
    fi
    say "installing transformer_jax${extras:+[$extras]} (about 2 GB, takes minutes the first time)"
    if [ "$FOUND_VERSION" = 3.14 ]; then
        say "without TensorFlow, which has no build for Python 3.14 yet: TFDS corpora and TensorBoard files need Python 3.11 to 3.13"
    fi
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}"
    echo "$wanted" > "$stamp"
}
