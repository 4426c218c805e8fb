# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # weft, what and port are set by who sources this, and helpers.sh
# Sourced by tests of runs that processes come into: a small text and run.yaml in an empty folder,
# processes that begin a run or join it, and waits for what they write.
empty_here
write_sentences >text.txt
small_run "steps: 1000000, eval_every: 0, save_every: 0" "compute_time: 0.01" "method: flexdemo"
pids=()
last= # the process that joined last; empty where it may end

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

# Until COMMAND... holds, or all processes have ended, or the last one that joined has.
await() {
    until "$@"; do
        live "${pids[@]}" || return 1
        [ -z "$last" ] || live "$last" || return 1
        sleep 0.02
    done
}
has_lines() { (($(lines) >= $1)); }
says_twice() { (($(grep -c -- "$1" "$2" 2>/dev/null) >= 2)); }
says_since() { tail -c "+$1" "$3" | grep -q -- "$2"; } # from that byte on
says() { grep -q -- "$1" "$2" 2>/dev/null; }

# Rank $1 of $2, at $port, $per_node (1) of a node; then key=value ...
founder() {
    local r=$1 n=$2 s=${per_node:-1}
    shift 2
    RANK=$r WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port exec "$weft" train run.yaml \
        run.folder=run mesh.nodes="$((n / s))" mesh.ranks_per_node="$s" "$@" >"out.$r" 2>"log.$r" &
    pids[r]=$!
    last=
}

# A new run of $1 founders, in $what $2; then key=value ...
begin() {
    local n=$1 r
    what=$2
    shift 2
    free_port
    rm -rf run out.* log.* && pids=()
    for ((r = n - 1; r >= 0; r--)); do founder "$r" "$n" "$@"; done
}

# A process that joins as $1, by the port $2; then key=value ...
joiner() {
    local name=$1 at=$2
    shift 2
    "$weft" train run.yaml --join "127.0.0.1:$at" run.folder=run "$@" >"out.$name" 2>"log.$name" &
    pids+=($!)
    # shellcheck disable=SC2034 # the caller's
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
