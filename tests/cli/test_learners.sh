#!/bin/bash
# SPDX-License-Identifier: MIT
# Who joins a run gets parameters and state slice by slice while the others train, and takes part
# when it has all; evaluations and checkpoints do not wait for it. Checksums of all parameters are
# compared in each step, and afterwards the run is played again to the same bits. Nothing here waits for a time.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# The run in run/, played again.
replays() {
    "$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat err)"
    grep -q "^the same bits" out || fail "$what: the replay says $(cat out)"
}

# A run of $1 founders with key=value ...; one more comes in $2 steps.
comes() {
    local n=$1 steps=$2 r before
    shift 2
    what="$*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = n - 1; r >= 0; r--)); do founder "$r" "$n" "mesh.join_steps=$steps" "$@"; done
    await has_lines 3 || fail "$what: no step: $(cat log.*)"
    joiner new "$port" "mesh.join_steps=$steps" "$@"
    await says "takes part as rank $n" log.new || fail "$what: nobody joined: $(tail -n 3 log.*)"
    says "joins in about .* MB of state from .* in $steps steps" log.new ||
        fail "$what: the joiner says $(cat log.new)"
    before=$(lines)
    await has_lines $((before + 3)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
}
grows() {
    comes "$@"
    replays
}

# Evaluations and checkpoints while one gets its state: nobody waits for it, so it takes part after $2
# steps as if there were none, and what is saved until then has the $1 replicas that take part. Of the
# second run the newest checkpoint is of that time.
pauses() {
    local n=$1 steps=$2 first takes
    shift 2
    grows "$n" "$steps" run.eval_every=2 run.save_every=3 run.keep=50 "$@"
    first=$(sed -n 's/.*nodes go on with step \([0-9]*\).*/\1/p' log.0 | head -n 1)
    takes=$(sed -n 's/.*takes part as rank .* from step \([0-9]*\) on.*/\1/p' log.new)
    ((takes == first + steps)) || fail "$what: came at step $first, takes part from step $takes on"
    grep -q '"validation_loss"' run/metrics.jsonl || fail "$what: no evaluation"
    begin "$n" "pauses, stopped: $*" mesh.join_steps=4000 run.eval_every=2 run.save_every=3 "$@"
    await has_lines 3 || fail "$what: no step: $(cat log.*)"
    joiner new "$port" mesh.join_steps=4000 run.eval_every=2 run.save_every=3 "$@"
    await says "joins in about" log.new || fail "$what: nobody came: $(tail -n 3 log.*)"
    first=$(lines)
    await has_lines $((first + 8)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
    first=$(ls -d run/checkpoints/step-* | tail -n 1)
    grep -q "\\\"replicas\\\":$n[,}]" "$first/index.json" ||
        grep -q "\"replicas\": *$n[,}]" "$first/index.json" || fail "$what: $(cat "$first/index.json")"
    replays
}

# While one gets its state a second one comes, and one of those who give is killed; both get the rest
# of what they lack from the others. Then a third one comes and is killed half-way.
changes() {
    local r before
    what="changes $*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 2; r >= 0; r--)); do founder "$r" 3 mesh.join_steps=30 "$@"; done
    await has_lines 3 || fail "$what: no step: $(cat log.*)"
    joiner a "$port" mesh.join_steps=30 "$@"
    await says "joins in about" log.a || fail "$what: nobody came: $(tail -n 3 log.*)"
    joiner b "$port" mesh.join_steps=30 "$@"
    await says "joins in about" log.b || fail "$what: no second one came: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 3)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    kill -9 "${pids[1]}"
    await says "takes part as rank" log.a || fail "$what: a is lost: $(tail -n 3 log.*)"
    await says "takes part as rank" log.b || fail "$what: b is lost: $(tail -n 3 log.*)"
    wait "${pids[1]}" 2>/dev/null
    unset 'pids[1]'
    joiner c "$port" mesh.join_steps=30 "$@"
    await says "joins in about" log.c || fail "$what: no third one came: $(tail -n 3 log.*)"
    kill -9 "$last"
    wait "$last" 2>/dev/null
    last=
    unset "pids[$((${#pids[@]}))]" # what joined last, of numbers from 0 without 1
    await says_twice "lost .*; 4 nodes go on" log.0 || fail "$what: c is not lost: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 3)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
    replays
}

# Three are getting the state when both who have it are killed: nobody can go on, and all three say so.
loses_state() {
    local name p
    begin 2 "loses_state $*" mesh.join_steps=4000 "$@"
    await has_lines 3 || fail "$what: no step: $(cat log.*)"
    for name in a b c; do
        joiner "$name" "$port" mesh.join_steps=4000 "$@"
        await says "joins in about" "log.$name" || fail "$what: $name did not come: $(tail -n 3 log.*)"
    done
    kill -9 "${pids[0]}" "${pids[1]}"
    for p in "${pids[@]:2}"; do wait "$p" && fail "$what: one without state goes on: $(tail -n 3 log.*)"; done
    for name in a b c; do
        says "all who had parameters and state are lost" "log.$name" || fail "$what: $name: $(cat "log.$name")"
    done
    wait "${pids[0]}" "${pids[1]}" 2>/dev/null
    last=
}

if [ -n "${todo:-}" ]; then # by hand: "grows 2 5 method=hsdp"
    $todo
    finish
    exit
fi
pauses 2 5 method=flexdemo
grows 3 4 method=hsdp replicator.values=int8
grows 3 4 method=hsdp batch.shares=speed
pauses 2 5 method=dadam
pauses 3 5 method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5
pauses 3 5 method=dadam mixer.topology=push
grows 3 5 method=hsdp replicator.kind=powersgd
comes 3 5 method=dadam mixer.deadline=0.2 # who is late is left to chance
grows 2 7 method=diloco mixer.outer_every=5
grows 2 7 method=noloco mixer.outer_every=5
# What is under way while a step ends, or several, is not in the state that is given.
grows 2 5 method=async-demo
grows 2 7 method=streaming-diloco mixer.outer_every=6
changes
loses_state method=hsdp
loses_state method=dadam
finish
