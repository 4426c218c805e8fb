# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the tests of the program, which are called with PROGRAM SOURCE_DIR: counts failures and
# goes on, so that one run shows all.
set -u
weft=${1-}
source_dir=${2-}
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# empty_here: removes what an earlier run left in this folder. A test that is started by hand
# may stand in a home or a checkout: only a folder that CMake made for tests is emptied.
empty_here() {
    if [[ $PWD != */tests/work/* && -n $(ls -A) ]]; then
        echo "$PWD has files in it, expected an empty folder to test in" >&2
        exit 1
    fi
    find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +
}

# free_port: leaves in $port one that nobody has, below those that the system gives to who asks
# for any.
free_port() {
    local low
    read -r low _ </proc/sys/net/ipv4/ip_local_port_range
    while :; do
        port=$((10000 + (RANDOM * 32768 + RANDOM) % (low - 10000)))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
    done
}

# write_sentences: a small text in which there is something to learn.
write_sentences() {
    local i
    for ((i = 0; i < 900; i++)); do
        echo "the cat sat on mat number $((i * 7919 % 97)) and the dog ran"
    done
}

# small_run RUN MESH [LINE]: run.yaml of a small model on text.txt, of $tokens (768) a step, with these
# keys of run and mesh, and a line.
small_run() {
    cat >run.yaml <<Y
data: {path: [text.txt], length: 32}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: ${tokens:-768}}
run: {$1, compare_every: 1, log_every: 1, tensorboard: false}
mesh: {threads: 1, $2}
schedule: {warmup: 2}
${3-}
Y
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

# refuses_like REGEX COMMAND...: as `refuses`; the whole sentence matches the expression.
refuses_like() {
    local regex=$1
    shift
    expect 2 "$@"
    [[ ! -s out ]] || fail "something on stdout: $*"
    (($(wc -l <err) == 1)) || fail "$(wc -l <err) lines on stderr, expected 1: $*"
    grep -qxE -- "weft: $regex" err || fail "found '$(cat err)', expected 'weft: $regex'"
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

# Leaves no file there, whatever folders.
no_files() {
    local found
    found=$(find "$@" -type f 2>/dev/null | head -3)
    [[ -z $found ]] || fail "left behind: $found"
}

# flip FILE OFFSET: changes one bit of that byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# A model and text so small that a run takes a tenth of a second.
# shellcheck disable=SC2034
tiny=(data.length=16 model.layers=1 model.width=16 model.heads=2 batch.tokens_per_step=64
    mesh.threads=1 schedule.warmup=1 run.steps=8)
# losses RUN: of all steps and evaluations, as they are written.
losses() { grep -o '"\(loss\|validation_loss\)":[^,]*' "$1/metrics.jsonl"; }
some_text() {
    for ((i = 1; i <= 300; i++)); do echo "the cat $i and the dog $((i % 7)) sat on the mat"; done
}

# skip WHY: ends a test whose needs are not met here.
skip() {
    echo "skipped: $*"
    exit 77
}

finish() {
    if ((failures > 0)); then
        echo "$failures failed" >&2
        exit 1
    fi
}

need_python() { command -v python3 >/dev/null || skip "this test needs python3"; }

# need_linking: others can link libweft.so.
need_linking() {
    nm -D "$(dirname "$weft")/libweft.so" | grep -q '__[at]san_' &&
        skip "a library with a sanitizer can not be linked by others"
}

# await_text FILE: until a program that was just started has written into it, 20 s at most.
await_text() {
    local i
    for ((i = 0; i < 200; i++)); do
        [[ -s $1 ]] && break
        sleep 0.1
    done
}

# need_browser: finds chromium, or says what is missing and skips the test.
need_browser() {
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        skip "this test needs chromium (Debian's package chromium)"
}

browse() { # options and an address; the page after its scripts ran, on stdout
    HOME=$PWD timeout 240 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars \
        --disable-dev-shm-usage --user-data-dir="$PWD/profile" --enable-logging=stderr \
        --virtual-time-budget=60000 --dump-dom "$@" 2>browser.log
}

# try_claims FILE.js: its claims (page_claims.js) about pages in this folder, in frames of one page.
try_claims() {
    {
        echo '<!doctype html><meta charset="utf-8"><body><pre id="result">began</pre>'
        echo "<script src='$source_dir/tests/cli/page_claims.js'></script>"
        echo "<script src='$1'></script>"
    } >claims.html
    browse --allow-file-access-from-files --window-size=1300,900 "file://$PWD/claims.html" >result ||
        fail "the browser: $(tail -3 browser.log)"
    grep -q '^all claims were tried$' result ||
        fail "the claims did not end: $(grep -A99 '<pre' result | head -40) $(grep CONSOLE browser.log)"
    while read -r line; do fail "$line"; done < <(grep '^not ' result)
}
