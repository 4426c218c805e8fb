#!/bin/bash
# SPDX-License-Identifier: MIT
# A process sleeps while the others train on, save and end. When it wakes, the run folder is theirs: it
# writes nothing, whatever it believes about the others.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# Every file of the run: its name, bytes, number and time. But for timeline.json, and what the sleeper tells
# TensorBoard of one step: a writer that falls asleep after it has looked at the lease finishes these when it wakes.
own_events() { stat -c %s run/events.*."${pids[sleeper]}".* 2>/dev/null || echo 0; }
folder() {
    (cd run && find . -type f ! -name 'timeline.json*' ! -name "events.*.${pids[sleeper]}.*" -printf '%p %i %s %T@\n' -exec cksum {} \;) |
        sort >"$1"
}

# begins 3 processes of which $1 sleeps from step 20 on; then key=value ...
put_to_sleep() {
    sleeper=$1
    begin 3 "rank $*" run.steps=150 run.save_every=50 run.keep=2 elastic.pause=2 --returns 0 "${@:2}"
    await has_lines 20 || fail "$what: no step 20: $(cat log.*)"
    kill -STOP "${pids[sleeper]}"
    others=()
    for r in 0 1 2; do ((r == sleeper)) || others+=("$r"); done
}

# The others end well; or at step 121 they are killed.
others_end() {
    local r
    for r in "${others[@]}"; do
        wait "${pids[r]}" || fail "$what: rank $r ended with $?: $(tail -n 3 log.*)"
    done
}
others_are_killed() {
    local r
    await has_lines 121 || fail "$what: no step 121: $(tail -n 3 log.*)"
    for r in "${others[@]}"; do kill -9 "${pids[r]}"; done
    for r in "${others[@]}"; do wait "${pids[r]}" 2>/dev/null; done
}

# It wakes, ends with an error, and every file is as it was.
wakes() {
    local code=0 events
    folder before
    events=$(own_events)
    kill -CONT "${pids[sleeper]}"
    wait "${pids[sleeper]}" || code=$?
    ((code == 1 || code == 2)) || fail "$what: it ended with $code: $(tail -n 3 "log.$sleeper")"
    folder after
    same before after
    (($(own_events) - events < 1000)) || fail "$what: it has written more events: $events, $(own_events) bytes"
    "$weft" verify run >out 2>err || fail "$what: $(cat out err)"
}

# What it says that it has found: by itself it goes on with elastic.partition=split.
says_what_it_found() {
    says "run holds step $1 of view .* from which this process does not descend: it has done step" "log.$sleeper" ||
        fail "$what: it says $(tail -n 3 "log.$sleeper")"
}

put_to_sleep 0 # who wrote the folder
others_end
wakes
says "the run has ended without it, while it was not heard; its results are in run" log.0 ||
    fail "$what: it says $(tail -n 3 log.0)"

put_to_sleep 2 elastic.partition=split run.tensorboard=true
others_end
wakes
says_what_it_found 150

put_to_sleep 0 elastic.partition=split run.tensorboard=true # who wrote the folder
others_end
wakes

put_to_sleep 1 elastic.partition=split run.steps=100000 # of which 121 are done
others_are_killed
wakes
says_what_it_found '[1-9][0-9][0-9]'

put_to_sleep 0 run.steps=100000
others_are_killed
wakes

# The others were killed, and somebody has resumed their run: that may cut what is newer than its
# checkpoint, and nothing else.
put_to_sleep 2 elastic.partition=split run.steps=100000
others_are_killed
# shellcheck disable=SC2016 # awk's
up_to_100() { awk -F'"step":' '{ split($2, after, /[,}]/) } after[1] <= 100' run/metrics.jsonl run/views.jsonl run/nodes.jsonl; }
up_to_100 >before
"$weft" train run.yaml run.folder=run --resume run.steps=160 --quiet >out 2>err || fail "$what: $(cat err)"
up_to_100 >after
same before after
(($(wc -l <before) > 100)) || fail "$what: $(cat before)"
wakes
says_what_it_found 160

# It has slept longer than the guards of the others live: the folder says that all steps are done, or that they
# were told to stop. It does not wait for elastic.pause.
guards_end() {
    local p
    for p in $(pgrep -x run-guard); do
        [ "$(readlink "/proc/$p/cwd")" != "$PWD" ] || kill -9 "$p"
    done
}
put_to_sleep 2 elastic.pause=500
others_end
guards_end
(sleep 30 && kill -9 "${pids[2]}") >/dev/null 2>&1 &
late=$!
wakes
kill "$late" 2>/dev/null || fail "$what: it waited: $(tail -n 3 log.2)"
says "takes no part any more: the run has ended without it, .*; its results are in run" log.2 || fail "$what: it says $(tail -n 3 log.2)"

# The same with a folder on each machine: none says so here. It waits for elastic.pause, writes nothing, and
# says where to look.
what="a folder on each machine"
free_port
rm -rf run log.* own
for r in 2 1 0; do
    folders=(run run own)
    founder "$r" 3 run.folder="${folders[r]}" run.steps=100 elastic.pause=2 --returns 0
done
await has_lines 20 || fail "$what: no step 20: $(cat log.*)"
kill -STOP "${pids[2]}"
for r in 0 1; do wait "${pids[r]}" || fail "$what: rank $r ended with $?: $(tail -n 3 log.*)"; done
guards_end
kill -CONT "${pids[2]}"
(sleep 30 && kill -9 "${pids[2]}") >/dev/null 2>&1 &
late=$!
wait "${pids[2]}" 2>/dev/null
(($? == 1)) || fail "$what: it ended with another code: $(tail -n 3 log.2)"
kill "$late" 2>/dev/null || fail "$what: it waited: $(tail -n 3 log.2)"
says "hears too few of the others to go on; if they have ended the run, its results are in their folder" log.2 ||
    fail "$what: it says $(tail -n 3 log.2)"
no_files own

# The others still train: it joins them again.
begin 3 "it joins again" elastic.partition=split
await has_lines 20
kill -STOP "${pids[2]}"
await says "lost rank 2" log.0 || fail "$what: nobody is lost: $(tail -n 3 log.*)"
kill -CONT "${pids[2]}"
await says "joined by .*; 3 nodes go on" log.0 || fail "$what: it is not back: $(tail -n 3 log.*)"
stop "${pids[0]}" "${pids[@]}"
finish
