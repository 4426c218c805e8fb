# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the tests of the program: counts failures and goes on, so that one run shows all.
set -u
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# run COMMAND...: leaves the exit code in $code and the output in the files out and err.
run() {
    code=0
    "$@" >out 2>err </dev/null || code=$?
}

# expect CODE COMMAND...: the exit code.
expect() {
    local want=$1
    shift
    run "$@"
    [[ $code == "$want" ]] || fail "exit code $code, expected $want: $* ($(head -1 err))"
}

# refuses SENTENCE COMMAND...: exit code 2, nothing on stdout, exactly this line on stderr.
refuses() {
    local sentence=$1
    shift
    expect 2 "$@"
    [[ ! -s out ]] || fail "something on stdout: $*"
    [[ $(cat err) == "weft: $sentence" ]] || fail "found '$(cat err)', expected 'weft: $sentence'"
}

# prints TEXT COMMAND...: exit code 0, nothing on stderr, TEXT is a line of stdout.
prints() {
    local text=$1
    shift
    expect 0 "$@"
    [[ ! -s err ]] || fail "something on stderr: $* ($(head -1 err))"
    grep -qxF -- "$text" out || fail "no line '$text' from: $*"
}

same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ: $(diff "$1" "$2" | head -5)"
}

finish() {
    if ((failures > 0)); then
        echo "$failures failed" >&2
        exit 1
    fi
}
