#!/bin/bash
# SPDX-License-Identifier: MIT
# Whole nodes of two ranks, which share a copy of the model, are lost and come into a run that trains
# over TCP. Nothing here waits for a time.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

echo 'elastic: {stop: all}' >>run.yaml # at whichever process

# Two nodes of two ranks, which share a copy of the model: a rank is killed, so that its node goes; a
# new node comes, one process after the other; then the first node goes, whose place another takes.
nodes_return() {
    local r before per_node=2 keep first
    what="nodes return $*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 3; r >= 0; r--)); do founder "$r" 4 "$@"; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    kill -9 "${pids[3]}"
    await says "; 1 node goes on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    wait "${pids[2]}" "${pids[3]}" 2>/dev/null
    joiner a "$port" "$@"
    keep=$last
    joiner b "$port" "$@"
    await says "; 2 nodes go on" log.0 || fail "$what: no node came: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    first=$last
    joiner c "$port" "$@"
    joiner d "$port" "$@"
    await says "; 3 nodes go on" log.0 || fail "$what: no node came: $(tail -n 3 log.*)"
    kill -9 "${pids[1]}"
    wait "${pids[0]}" "${pids[1]}" 2>/dev/null
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    for r in 0 1 2 3; do unset "pids[$r]"; done
    last=
    stop "$keep" "$keep" "$first" "${pids[@]}"
}

# Of two nodes of two ranks one rank stands still until the others have gone on without its node.
half_a_node_stops() {
    what=$1
    shift
    per_node=2 begin 4 "$what" "$@"
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    kill -STOP "${pids[3]}"
    await says "; 1 node goes on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
}

# Both of its processes end, and neither comes back.
both_end() {
    local r
    for r in 2 3; do
        wait "${pids[r]}" && fail "$what: rank $r ended with 0"
        unset "pids[$r]"
    done
    says "takes part as" log.2 && fail "$what: it is back: $(cat log.2)"
    says "takes part as" log.3 && fail "$what: it is back: $(cat log.3)"
    says "$1" log.2 || fail "$what: it says $(cat log.2)"
    stop "${pids[0]}" "${pids[@]}"
}

# It wakes at once: both of its processes come back by themselves.
half_a_node_sleeps() {
    local r
    half_a_node_stops "half a node sleeps $*" "$@"
    kill -CONT "${pids[3]}"
    await says "; 2 nodes go on" log.0 || fail "$what: it does not come back: $(tail -n 3 log.*)"
    for r in 2 3; do says "joins the run again in 1 s" "log.$r" || fail "$what: $(tail -n 3 log.*)"; done
    stop "${pids[0]}" "${pids[@]}"
}

# It never wakes, or after the other one has given up.
half_a_node_is_gone() {
    half_a_node_stops "half a node dies $*" "$@"
    kill -9 "${pids[3]}"
    both_end "has lost a rank that holds a part of the same copy"
    half_a_node_stops "half a node wakes too late $*" "$@"
    while live "${pids[2]}"; do sleep 0.02; done
    kill -CONT "${pids[3]}"
    both_end "has lost a rank that holds a part of the same copy"
}

# A run that one process begins, alone, with key=value ...: four train, then one again, then three.
begins_alone() {
    local before p said
    what="alone $*"
    rm -rf run out.* log.* && pids=()
    free_port
    "$weft" train run.yaml --listen "$port" run.folder=run "$@" >out.0 2>log.0 &
    pids[0]=$!
    last=
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    for p in a b c; do joiner $p "$port" "$@"; done
    await says "; 4 nodes go on" log.0 || fail "$what: not all have joined: $(tail -n 3 log.*)"
    kill -9 "${pids[@]:1}"
    last=
    await says "; 1 node goes on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    wait "${pids[@]:1}" 2>/dev/null
    pids=("${pids[0]}")
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    said=$(wc -c <log.0)
    for p in d e; do joiner $p "$port" "$@"; done
    await says_since "$said" "; 3 nodes go on" log.0 || fail "$what: none came again: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
}

if [ -n "${only:-}" ]; then
    $only
    finish
    exit
fi
nodes_return
nodes_return method=hsdp
half_a_node_sleeps method=hsdp
half_a_node_is_gone method=hsdp
refuses "--listen 0: expected a port from 1 to 65535" "$weft" train run.yaml --listen 0
refuses "--listen 29500x: expected a port from 1 to 65535" "$weft" train run.yaml --listen 29500x
refuses "--listen begins a run and --join comes into one: expected one of them" \
    "$weft" train run.yaml --listen 29500 --join here
begins_alone method=hsdp
nodes_return method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5
finish
