#!/bin/bash
# SPDX-License-Identifier: MIT
# Processes come into a run that trains over TCP. Nothing here waits for a time: a step takes as long
# as it takes, and what is waited for is a line of a file or the end of a process.
weft=$1
source_dir=$2
# shellcheck source=tests/cli/helpers.sh
. "$source_dir/tests/cli/helpers.sh"
empty_here
for ((i = 0; i < 900; i++)); do echo "the cat sat on mat number $((i * 7919 % 97)) and the dog ran"; done >text.txt
cat >run.yaml <<'Y'
data: {path: [text.txt], length: 32}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: 768}
run: {steps: 1000000, eval_every: 0, save_every: 0, compare_every: 1, log_every: 1, tensorboard: false}
mesh: {threads: 1, compute_time: 0.01}
schedule: {warmup: 2}
method: flexdemo
Y
pids=()

lines() {
    local n
    n=$(grep -c '"loss"' run/metrics.jsonl 2>/dev/null)
    echo "${n:-0}"
}

# Whether any of these processes lives.
live() {
    local p
    for p in "$@"; do kill -0 "$p" 2>/dev/null && return 0; done
    return 1
}

# Until COMMAND... holds, or all processes have ended.
await() {
    until "$@"; do
        live "${pids[@]}" || return 1
        sleep 0.02
    done
}
has_lines() { (($(lines) >= $1)); }
says_twice() { (($(grep -c -- "$1" "$2" 2>/dev/null) >= 2)); }
says() { grep -q -- "$1" "$2" 2>/dev/null; }

# Rank $1 of $2, at $port; then key=value ...
founder() {
    local r=$1 n=$2
    shift 2
    RANK=$r WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port exec "$weft" train run.yaml \
        run.folder=run mesh.nodes="$n" mesh.ranks_per_node=1 "$@" >"out.$r" 2>"log.$r" &
    pids[r]=$!
}

# A process that joins as $1, by the port $2; then key=value ...
joiner() {
    local name=$1 at=$2
    shift 2
    "$weft" train run.yaml --join "127.0.0.1:$at" run.folder=run "$@" >"out.$name" 2>"log.$name" &
    pids+=($!)
    last=$!
}

# All end well, after Ctrl-C at the first.
stop() {
    local p first=$1
    shift
    kill -INT "$first"
    for p in "$@"; do
        wait "$p" || fail "$what: a process ended with $?: $(tail -n 2 log.*)"
    done
}

# A run of $1 founders with key=value ..., into which one more comes, and which stops then.
grows() {
    local n=$1 r before
    shift
    what="$*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = n - 1; r >= 0; r--)); do founder "$r" "$n" "$@"; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    joiner new "$port" "$@"
    await says "joined by rank $n" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    says "; $((n + 1)) nodes go on with step" log.0 || fail "$what: log says $(tail -n 3 log.0)"
    stop "${pids[0]}" "${pids[@]}"
}

# Three come at once; one of them, and one of who began, are killed; two come again, and have their
# places.
churns() {
    local r before killed
    what="churn $*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 2; r >= 0; r--)); do founder "$r" 3 "$@"; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    joiner a "$port" "$@"
    killed=$last
    joiner b "$port" "$@"
    joiner c "$port" "$@"
    await says "6 nodes go on" log.0 || fail "$what: not all have joined: $(tail -n 3 log.*)"
    kill -9 "$killed" "${pids[1]}"
    await says "lost .*; 4 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    await says "lost .*; 4 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    joiner d "$port" "$@"
    joiner e "$port" "$@"
    await says_twice "; 6 nodes go on" log.0 || fail "$what: not all are back: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    wait "$killed" "${pids[1]}" 2>/dev/null
    local left=()
    for r in "${!pids[@]}"; do
        [ "$r" = 1 ] || [ "${pids[r]}" = "$killed" ] || left+=("${pids[r]}")
    done
    stop "${pids[0]}" "${left[@]}"
}

# Who has another model is sent away with a sentence, and the run does not mind.
refuses_others() {
    local r before
    what=refuses
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 1; r >= 0; r--)); do founder "$r" 2; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    joiner other "$port" model.width=48
    wait "$last" && fail "$what: another model has joined"
    says "it was refused, for its configuration or text is not the run's" log.other ||
        fail "$what: it says $(cat log.other)"
    unset "pids[$((${#pids[@]} - 1))]"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
}

# Who calls before there is a run says so, waits, and comes in when there is one.
waits() {
    local r early
    what=waits
    rm -rf run out.* log.* && pids=()
    free_port
    joiner early "$port"
    early=$last
    await says "does not take this process yet" log.early || fail "$what: it says $(cat log.early)"
    pids=([2]=$early)
    for ((r = 1; r >= 0; r--)); do founder "$r" 2; done
    await says "3 nodes go on" log.0 || fail "$what: it has not joined: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
}

if [ -n "${only:-}" ]; then
    $only
    finish
    exit
fi
grows 2 method=hsdp
grows 2 method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5
grows 2 method=diloco mixer.outer_every=5
grows 3 method=streaming-diloco mixer.outer_every=12 mixer.values=int4 mixer.fragments=2
churns
refuses_others
waits
finish
