#!/bin/sh
# Make everything that Stormproof needs on this machine: a Python environment in .venv from the lock file, a JDK 17 or
# newer for Spark and for the linearizability checker, that checker's jar, and the class-data archives that shorten the
# start of both. Safe to run again: after the first run, no network is needed.
set -eu
cd "$(dirname "$0")"

# Where bytecode is switched off, as in many images, pyspark has none, and each worker compiles it again.
unset PYTHONDONTWRITEBYTECODE

began=$(date +%s)
ticking=
fresh=

say() { printf 'setup: %s\n' "$1" >&2; }

fail() {
    say "$1"
    exit 3
}

# Say every fifteen seconds that this goes on, and how far it is, until `done_with` or the end.
tick() {
    while sleep 15 >/dev/null 2>&1; do
        say "  $(($(date +%s) - began)) s, .venv has $(du -sm .venv 2>/dev/null | cut -f 1) of about 1,100 MB"
    done &
    ticking=$!
}

done_with() {
    [ -z "$ticking" ] || kill "$ticking" 2>/dev/null || true
    ticking=
}
trap done_with EXIT
trap 'exit 130' INT TERM

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    say "installing $* with apt-get (half a minute or so)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
        >.cache/apt.log 2>&1 || fail "apt-get could not install $*; see .cache/apt.log"
}

# What an interpreter says of itself: the processor time in µs of a piece of work like the simulator's, the best of nine,
# and where it is. How it was built doesn't say it: Debian's is optimised by profile, and its configuration hides it.
time_python='
import sys, time
if sys.version_info < (3, 11):
    sys.exit(1)
if len(sys.argv) > 1:
    import ensurepip, venv
def work():
    rows = []
    for i in range(20000):
        row = {"kind": "trace", "step": i, "value": {"size": i}}
        rows.append((i, *row.values(), str(i).encode()))
        if len(rows) > 100:
            rows.clear()
def once():
    began = time.process_time()
    work()
    return time.process_time() - began
print(round(min(once() for _ in range(9)) * 1e6), sys.executable)
'

# PYTHON, if it is set; otherwise the fastest that can make an environment, if there is one.
find_python() {
    if [ -n "${PYTHON:-}" ] && "$PYTHON" -c "$time_python" >/dev/null 2>&1; then
        command -v "$PYTHON"
        return
    fi
    for needed in venv ''; do
        found=$(
            for candidate in python3.13 python3.12 python3.11 python3 /usr/bin/python3 /usr/bin/python3.1[1-9]; do
                "$candidate" -c "$time_python" $needed 2>/dev/null || true
            done | sort -n | head -n 1
        )
        [ -z "$found" ] || { printf '%s\n' "${found#* }"; return; }
    done
    return 1
}

java_works() {
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

find_java() {
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        [ -x "$candidate" ] && java_works "$candidate" && return 0
    done
    return 1
}

find_javac() {
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/javac}" "$(command -v javac || true)" /usr/lib/jvm/*/bin/javac; do
        [ -x "$candidate" ] && return 0
    done
    return 1
}

pip_install() { .venv/bin/python -m pip install -q --disable-pip-version-check "$@"; }

make_environment() {
    python=$(find_python) || {
        can_apt || fail "Python 3.11 or newer is missing: install it (Debian/Ubuntu: apt-get install python3 python3-venv)."
        apt_install python3 python3-venv
        python=$(find_python) || fail "the distribution's Python is older than 3.11: install 3.11 or newer and set PYTHON to it."
    }
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        can_apt || fail "$python has no venv module: install it (Debian/Ubuntu: apt-get install python3-venv)."
        apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    fi
    say "making .venv from requirements.lock with $python: one to three minutes, most of it for Spark"
    fresh=yes
    tick
    rm -rf .venv
    "$python" -m venv .venv
    # Spark is the largest by far, and everything else takes as long: each by a pip of its own. Spark is built by
    # setuptools, which therefore comes first: it must not change meanwhile. It is the locked one that builds, in the way
    # that all versions of pip know. The lock names all that either needs, and one entry of it takes several lines.
    awk '/^[a-z]/ { part = /^setuptools==/ ? "builder" : /^py(spark|4j)==/ ? "spark" : "others" }
        { print >(".cache/" part ".lock") }' requirements.lock
    pip_install --no-deps --require-hashes -r .cache/builder.lock || fail "pip could not install setuptools."
    pip_install --no-deps --require-hashes --no-build-isolation --use-pep517 -r .cache/spark.lock &
    pip_install --no-deps --require-hashes -r .cache/others.lock || fail "pip could not install what requirements.lock names."
    wait $! || fail "pip could not install pyspark."
    pip_install --no-deps --no-build-isolation -e .
    done_with
    printf '%s\n' "$stamp" >.venv/stormproof.stamp
}

mkdir -p .cache
stamp="$(cat requirements.lock pyproject.toml | cksum) $(pwd)"
[ "$(cat .venv/stormproof.stamp 2>/dev/null || true)" = "$stamp" ] && .venv/bin/python -c '' 2>/dev/null || make_environment

if ! find_java || ! find_javac; then
    if can_apt; then
        (apt_install openjdk-17-jdk-headless) || apt_install default-jdk-headless
    fi
    find_java || fail "Java 17 or newer is missing: install it (Debian/Ubuntu: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME."
fi
[ -z "$fresh" ] || say "building the linearizability checker, and archives for a faster start of Java: about half a minute"
if find_javac; then
    .venv/bin/python -m checkers.linearizable || fail "the linearizability checker could not be built; the lines above say why."
else
    say "no javac (Debian/Ubuntu: apt-get install openjdk-17-jdk-headless), so the linearizability checker has no jar; only its --engine python works"
fi
.venv/bin/python -m chaos.judging.class_archive || say "no class-data archive; Spark will start more slowly"
[ -z "$fresh" ] || say "done in $(($(date +%s) - began)) s. Next: . .venv/bin/activate && stormproof demo"
