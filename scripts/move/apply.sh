#!/usr/bin/env bash
# Apply the whole move to a clean checkout: apply.sh CHECKOUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${KSAME_BIN:-$here/../../.venv/bin}
[ -x /tmp/cst/bin/python ] || { python3 -m venv /tmp/cst; /tmp/cst/bin/pip install -q libcst; }
cd "$1"
[ -z "$(git status --porcelain)" ] || { echo "not a clean checkout: $1" >&2; exit 1; }
nice /tmp/cst/bin/python "$here/rewrite.py" "$PWD"
$bin/ruff check -q --fix --select F401,I . >/dev/null || true # what a part of a split module does not use
$bin/ruff format -q .
$bin/ruff check -q --fix . >/dev/null || true
/tmp/cst/bin/python "$here/wrap.py" "$PWD"
$bin/ruff format -q .
git add -A
