#!/bin/sh
# Make the base of the node image from the distribution's packages, for machines that can pull no image: a minimal Debian
# (or Ubuntu) with Python and the tools of node.Dockerfile. Takes about a minute and 300 MB; needs root and debootstrap.
#
#   images/debian.sh [TAG]      SUITE (this machine's) and MIRROR (debootstrap's own) can be set in the environment
set -eu
tag=${1:-stormproof-base:debian}

fail() {
    printf 'debian.sh: %s\n' "$1" >&2
    exit 3
}

[ "$(id -u)" = 0 ] || fail "making an image from packages needs root: run it with sudo"
command -v debootstrap >/dev/null || fail "debootstrap is missing: install it (apt-get install debootstrap)"
command -v docker >/dev/null || fail "the docker command is missing: install it (apt-get install docker.io)"
docker version >/dev/null 2>&1 || fail "Docker's engine does not answer: start it (systemctl start docker, or dockerd)"
suite=${SUITE:-$(. /etc/os-release && printf %s "${VERSION_CODENAME:-}")}
[ -n "$suite" ] || fail "this machine does not say which release it is: set SUITE, to bookworm for example"

components=main
[ "$(. /etc/os-release && printf %s "${ID:-}")" != ubuntu ] || components=main,universe # where it has libfaketime

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 3' INT TERM
printf 'debian.sh: installing a minimal %s\n' "$suite" >&2
debootstrap --variant=minbase --components="$components" \
    --include=python3,iptables,iproute2,procps,openssh-server,libfaketime \
    "$suite" "$work/root" ${MIRROR:+"$MIRROR"} >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    fail "debootstrap of $suite failed; the lines above say why"
}
rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/doc \
    "$work"/root/usr/share/man "$work"/root/usr/share/locale "$work"/root/etc/ssh/ssh_host_*
tar -C "$work/root" --numeric-owner -c . | docker import --message "debootstrap of $suite" - "$tag" >/dev/null
printf 'debian.sh: %s is there\n' "$tag" >&2
