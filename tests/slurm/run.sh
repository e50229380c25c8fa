#!/usr/bin/env bash
# Bring up a real Slurm on this machine, run the tests marked `slurm`, stop it. A skipped test is a failure.
#
#   bash tests/slurm/run.sh [pytest arguments]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$here")")
export SLURM_TEST_DIR=${SLURM_TEST_DIR:-/tmp/slurm-test}
export NODES=${NODES:-7} SLURMD_TIMEOUT=${SLURMD_TIMEOUT:-30} MIN_JOB_AGE=${MIN_JOB_AGE:-60} REQUEUE_WAIT=${REQUEUE_WAIT:-10}
export PROLOG_FLAG=$SLURM_TEST_DIR/prolog-fails  # a test that wants a failing prolog makes this file
mkdir -p "$SLURM_TEST_DIR"
cat >"$SLURM_TEST_DIR/prolog" <<'P'
#!/bin/sh
[ ! -e "$(dirname "$0")/prolog-fails.$SLURMD_NODENAME" ]
P
chmod 755 "$SLURM_TEST_DIR/prolog"
export EXTRA_CONF="Prolog=$SLURM_TEST_DIR/prolog"
trap 'bash "$here/down.sh" "$SLURM_TEST_DIR"' EXIT
variables=$(bash "$here/up.sh" "$SLURM_TEST_DIR")
eval "$variables"
cd "$root"
[ $# -gt 0 ] || set -- tests/contracts tests/slurm
CI=true "${PYTHON:-$root/.venv/bin/python}" -m pytest -q -m slurm -p no:cacheprovider "$@"
