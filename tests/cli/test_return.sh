#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that the others went on without comes in again by itself: it stood still. What is waited
# for is a line of a log; how long a process stands still is up to the others, who say that they
# have lost it.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# Starts founders as begin does; returns when they train.
begin_training() {
    begin "$@"
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
}

# Processes $2 ... stand still until rank $1 says that they are lost.
stand_still() {
    local p by=$1
    shift
    for p in "$@"; do kill -STOP "${pids[p]}"; done
    await says "lost rank" "log.$by" || fail "$what: nobody is lost: $(tail -n 3 log.*)"
    for p in "$@"; do kill -CONT "${pids[p]}"; done
}

# --- any process; then the one that leads and writes; each under its own number of process ---
begin_training 3 "comes back"
stand_still 0 2
await says "joined by .*; 3 nodes go on" log.0 || fail "$what: it is not back: $(tail -n 3 log.*)"
says "this process joins the run again in 1 s (time 1 of 10)" log.2 || fail "$what: it says $(cat log.2)"
stand_still 1 0
await says "joined by .*; 3 nodes go on" log.1 || fail "$what: rank 0 is not back: $(tail -n 3 log.*)"
before=$(lines)
await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
stop "${pids[1]}" "${pids[@]}"
"$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat out err)"

# --- both ranks of a copy of the model, of three (two copies would wait: docs/membership.md) ---
per_node=2 begin_training 6 "a copy comes back"
stand_still 0 4 5
await says "joined by .*; 3 nodes go on" log.0 || fail "$what: it is not back: $(tail -n 3 log.*)"
stop "${pids[0]}" "${pids[@]}"

# --- two copies: neither goes on without the other one, and says so until it is back ---
per_node=2 begin_training 4 "one of two copies"
for p in 2 3; do kill -STOP "${pids[p]}"; done
await says "rank 0 has waited 1[0-9] s: nothing is heard of rank 2 (host .*), rank 3 (host .*), and without \
them those that hear each other are too few to go on; it waits for 600 s (elastic.pause)" log.0 ||
    fail "$what: it says $(cat log.0)"
before=$(lines)
for p in 2 3; do kill -CONT "${pids[p]}"; done
await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
says "lost rank" log.0 && fail "$what: it went on without the other copy: $(cat log.0)"
stop "${pids[0]}" "${pids[@]}"

# --- a person who does not want that ---
begin_training 3 "--returns 0" --returns 0
stand_still 0 2
wait "${pids[2]}" && fail "$what: it ended with 0"
says "joins the run again" log.2 && fail "$what: it comes back: $(cat log.2)"
unset 'pids[2]'
stop "${pids[0]}" "${pids[@]}"
finish
