#!/bin/sh
# The main job, twice: the correct system on processes, judged by Spark, must keep its promises; then a planted bug in
# the simulator must be found.
set -eu
cd "$(dirname "$0")"
stormproof=.venv/bin/stormproof

echo "== The correct system, on processes, under faults =="
$stormproof run examples/start/quickstart.yaml --on process --seed 1 --engine spark

echo
echo "== The same system with a planted bug, in the simulator: this run must be judged INVALID =="
status=0
$stormproof run examples/start/stale_master.yaml --on sim --seed 1 --mutant ack-before-replication || status=$?
if [ "$status" != 1 ]; then
    echo "demo: the planted bug was not found (exit code $status, expected 1)" >&2
    exit 1
fi

echo
echo "Both reports, newest last:"
ls -tr runs/*/report.html | tail -n 2
