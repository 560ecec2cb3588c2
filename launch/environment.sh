# shellcheck shell=bash
# Sourced by the other scripts: makes sure of a virtual environment with the package in it.
#
#   PYTHON       the Python to make it with (default: python3)
#   VENV         its folder (default: .venv-VERSION in the checkout, one for each Python version)
#   READY_PYTHON an interpreter that has the package already: nothing is made or installed then
#   environment EXTRAS    installs the package with these extras, e.g. "test"; again only if
#                         pyproject.toml has changed since; sets VENV_PYTHON, the interpreter to use

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

say() { printf '== %s\n' "$*"; }

environment() {
    local extras="$1" python="${PYTHON:-python3}" version stamp wanted
    if [ -n "${READY_PYTHON:-}" ]; then
        VENV_PYTHON="$READY_PYTHON"
        return
    fi
    if ! version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then
        echo "error: PYTHON=$python does not run: name a Python 3.11 or 3.12, e.g. PYTHON=python3.12." >&2
        exit 2
    fi
    case "$version" in
        3.11 | 3.12) ;;
        *)
            echo "error: $python is Python $version, but 3.11 or 3.12 is needed: set PYTHON=python3.12, say." >&2
            exit 2
            ;;
    esac
    VENV="${VENV:-.venv-$version}"
    # shellcheck disable=SC2034  # for those who source this file
    VENV_PYTHON="$VENV/bin/python"
    stamp="$VENV/installed-$extras"
    wanted=$(cksum pyproject.toml)
    if [ ! -x "$VENV/bin/python" ]; then
        say "making a virtual environment with Python $version in $VENV"
        "$python" -m venv "$VENV"
    fi
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        say "installing transformer_jax${extras:+[$extras]} (about 2 GB, some minutes at the first time)"
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}"
        echo "$wanted" > "$stamp"
    else
        say "using the virtual environment $VENV"
    fi
}
