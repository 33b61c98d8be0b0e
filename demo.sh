#!/bin/sh
# The main job: the correct system on processes, judged by Spark, must keep its promises; then a planted bug in the
# simulator must be found. It ends with one sentence and one page.
set -eu
cd "$(dirname "$0")"
printf 'demo: two runs, about a minute: half of it is load on the cluster\n'
exec .venv/bin/stormproof demo --on process --engine spark
