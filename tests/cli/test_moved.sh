#!/bin/bash
# SPDX-License-Identifier: MIT
# Each process has a folder of its own. The one that began as the first is left out, joins again, and is
# the last that is left: it goes on in its own folder, behind what it wrote there before.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

what="folders of their own"
free_port
for r in 2 1 0; do founder "$r" 3 run.folder="run$r" elastic.stop=all; done
ln -s run0 run
await has_lines 5 || fail "$what: no step: $(tail -n 3 log.*)"
kill -STOP "${pids[0]}"
await says "lost rank 0 .*; 2 nodes go on" log.1 || fail "$what: nobody is lost: $(tail -n 3 log.*)"
before=$(lines)
kill -CONT "${pids[0]}"
await says "joined by .*; 3 nodes go on" log.1 || fail "$what: it is not back: $(tail -n 3 log.*)"
await says "takes part as rank 2" log.0 || fail "$what: it has no state: $(tail -n 3 log.*)"
kill -9 "${pids[1]}" "${pids[2]}"
wait "${pids[1]}" "${pids[2]}" 2>/dev/null
await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.0)"
# It writes for others who do not see its folder: their replicas are sent to it.
ports=$port
for i in 1 2 3 4; do ports=$ports,127.0.0.1:$((port + i)); done # it has come back at one of these
mkdir -p run3/checkpoints/step-00000001.partial-7 # of a replica that was killed here
touch run3/checkpoints/step-00000001.partial-7/replica-00007.safetensors
joiner late "$ports" run.folder=run3 elastic.stop=all
await says "joined by .*; 2 nodes go on" log.0 || fail "$what: nobody comes: $(tail -n 3 log.*)"
await says "takes part as rank 1" log.late || fail "$what: it has no state: $(tail -n 3 log.*)"
grep -q "^view [2-9]" run0/lease || fail "$what: the lease is of view $(grep -a "^view" run0/lease)"
stop "${pids[0]}" "${pids[0]}" "$last"
[ "$(find run0/checkpoints -name 'replica-0000[01].safetensors' | wc -l)" = 2 ] ||
    fail "$what: not of all replicas: $(find run0/checkpoints)"
no_files run3
"$weft" verify run0 >out 2>err || fail "$what: $(cat out err)"
says "the run came here with step .*, from another folder" out || fail "$what: $(cat out)"
"$weft" verify run1 >out 2>err || fail "$what: $(cat out err)"
"$weft" train --replay run0 --quiet >out 2>err && fail "$what: it is played again: $(cat out)"
says "views.jsonl goes on with view .*, expected those between" err || fail "$what: it says $(cat err)"
finish
