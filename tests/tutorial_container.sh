#!/bin/sh
# Follow the tutorial to the letter in an empty container, as its reader would: install, then every command in order; then
# `stormproof new driver`, and what the README of the new package says, as far as a container may. It fails when a step
# fails, or prints something else than the page shows. Needs Docker's engine, the package registries, and some minutes.
#
#   tests/tutorial_container.sh
#
# IMAGE: an empty Debian or Ubuntu; without it, what images/debian.sh makes (python3 is the only thing it has of ours).
# ARGUMENTS: further ones for `docker run`, for a proxy or a certificate for example.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
image=${IMAGE:-stormproof-base:debian}
[ -n "${IMAGE:-}" ] || docker image inspect "$image" >/dev/null 2>&1 || images/debian.sh "$image"

name=stormproof-tutorial-$$
trap 'docker rm -f "$name" >/dev/null 2>&1 || true; rm -f .cache/tutorial.sh' EXIT
trap 'exit 130' INT TERM
mkdir -p .cache
# What the page tells its reader to type before the first command with an output; one shell, so `cd` and `activate` last.
{
    echo 'set -e; cd /stormproof'
    python3 tests/tutorial.py --install docs/tutorial.md
    echo 'python3 /stormproof/tests/tutorial.py /stormproof/docs/tutorial.md'
    cat <<'COMMANDS'
stormproof new driver shop
cd stormproof-shop
sed -n 's/^    \([^#]*\).*/\1/p' README.md | grep -v 'netns\|power\|lazy' >/tmp/commands
. /tmp/commands
COMMANDS
} >.cache/tutorial.sh

# shellcheck disable=SC2086 # ARGUMENTS are words
docker create --name "$name" --network host ${ARGUMENTS:-} "$image" bash /stormproof/.cache/tutorial.sh >/dev/null
# The checkout as it is, without what git ignores.
{ git ls-files -z --cached --others --exclude-standard; printf '.cache/tutorial.sh\0'; } |
    tar --null --files-from=- --transform='s,^,stormproof/,' --owner=0 --group=0 -c | docker cp - "$name:/"
docker start --attach "$name"
