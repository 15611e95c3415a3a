# shellcheck shell=bash
# Sourced by quickstart, test, check and bench: finds a Python, makes .venv, installs rankrun in it.
# Done again only when pyproject.toml, constraints.txt or the Python changed.

say() { printf 'rankrun: %s\n' "$*" >&2; }
fail() { say "$*"; exit 3; }

# Prints a Python of 3.10 or newer that can make virtual environments.
find_python() {
    local candidate
    for candidate in "${RANKRUN_PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' \
            >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

# Debian's packages, where something is missing: installed as root, named otherwise.
need_packages() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "missing: $*. As root: apt-get install -y $*"
    fi
    say "installing Debian packages: $*"
    if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } >&2
    then
        fail "could not install $*; see the lines above"
    fi
}

# need_programs PROGRAM:PACKAGE...: the packages of those that are not there.
need_programs() {
    local pair packages=() PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || packages+=("${pair#*:}")
    done
    [ ${#packages[@]} = 0 ] || need_packages "${packages[@]}"
}

# setup EXTRA: .venv with rankrun (editable) and its extra ('' or '[test]'), torch as pinned.
setup() {
    local extra=$1 python stamp=.venv/.rankrun-setup fingerprint
    python=$(find_python) || { need_packages python3 python3-venv; python=$(find_python); } ||
        fail "no Python 3.10 or newer with venv and ensurepip; set RANKRUN_PYTHON to one"
    fingerprint=$("$python" -VV; cat pyproject.toml constraints.txt)
    if [ ! -x .venv/bin/rankrun ] || [ "$(cat "$stamp" 2>/dev/null)" != "$fingerprint" ]; then
        say "making .venv with $python"
        "$python" -m venv --clear .venv || fail "could not make .venv; see the lines above"
        install ""
        printf '%s\n' "$fingerprint" >"$stamp"
    fi
    if [ -n "$extra" ] && [ ! -e "$stamp$extra" ]; then
        install "$extra"
        touch "$stamp$extra"
    fi
}

install() {
    say "installing rankrun$1 and torch as constraints.txt pins it; this can take minutes"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt --editable ".$1" ||
        fail "could not install; see pip's lines above"
}
