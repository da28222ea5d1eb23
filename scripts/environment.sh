#!/bin/sh
# Make .venv and install siloquent into it: scripts/environment.sh core|dev
#   core  what a user needs, pages and federations included, at tested versions
#   dev   core, the extras and the tools for tests, checks and docs
# PYTHON=... chooses the interpreter; UV=1 uses uv instead of venv and pip. Safe to run again.
set -eu
cd "$(dirname "$0")/.."
want=${1:-core}

say() { printf '%s\n' "$*" >&2; }
fail() { say "siloquent: $*"; exit 1; }

# The first interpreter that runs and is of a supported version (shims may exist and yet refuse to run).
find_python() {
  for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
    if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
}

make_venv() {
  python=$(find_python)
  if [ -n "${UV:-}" ]; then
    command -v uv >/dev/null || fail "UV=1 asks for uv, which is not on PATH. Fix: pip install uv, or leave UV out."
    uv venv --quiet --python "${python:-3.13}" .venv
    return
  fi
  [ -n "$python" ] || fail "needs Python 3.11 to 3.14, found: $("${PYTHON:-python3}" --version 2>&1 || echo none)." \
    "Fix: apt-get install python3 python3-venv (Debian 12 or newer), or PYTHON=/path/to/python3.12 make demo."
  "$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python cannot make virtual environments: ensurepip is missing." \
    "Fix: apt-get install python3-venv, or UV=1 make demo if you have uv."
  say "siloquent: making .venv with $("$python" --version)"
  "$python" -m venv .venv
}

install() {
  if [ -n "${UV:-}" ]; then
    uv pip install --quiet --python .venv/bin/python "$@"
  else
    .venv/bin/python -m pip install -qq --disable-pip-version-check "$@"
  fi
}

[ -x .venv/bin/python ] || make_venv
minor=$(.venv/bin/python -c 'import sys; print("%d%d" % sys.version_info[:2])')
pins=constraints/py$minor.txt
case $want in
  core) what=".[server,federation]" ;;  # the demo holds a session of several processes, and ends with its pages open
  dev) what=".[dev,postgres,spark]" ;;
  *) fail "unknown environment '$want'. Known: core, dev." ;;
esac
say "siloquent: installing $what ($([ -f "$pins" ] && echo "$pins" || echo "newest allowed versions; no pins for this Python"))"
if [ -f "$pins" ]; then install -c "$pins" -e "$what"; else install -e "$what"; fi
touch .venv/.core
[ "$want" = core ] || touch .venv/.dev
