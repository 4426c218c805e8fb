#!/bin/bash
# SPDX-License-Identifier: MIT
# What a signal at one process ends (elastic.stop): who joined leaves and the others continue, a founder stops all;
# with self a founder leaves, too, and the last one saves.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# ends_well PID NAME: without an error, and says nothing of one.
ends_well() {
    wait "$1" || fail "$what: $2 ended with $?: $(tail -n 2 "log.$2")"
}
goes_on() {
    local before
    before=$(lines)
    await has_lines $((before + 3)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
}

what="who joined leaves"
begin 2 "$what"
joiner new "$port"
came=$last
await says "; 3 nodes go on" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
last=
kill -TERM "$came"
ends_well "$came" new
says "left the run after step [0-9]*; the others continue" log.new || fail "$what: says $(cat log.new)"
await says "lost rank 2 .*it was asked to stop after step [0-9]*; 2 nodes go on" log.0 ||
    fail "$what: the others say $(tail -n 3 log.0)"
goes_on

what="a founder stops all"
joiner late "$port"
await says_twice "; 3 nodes go on" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
stop "${pids[1]}" "${pids[0]}" "${pids[1]}" "$last"
says "stopped after step" out.0 || says "stopped after step" log.0 || fail "$what: says $(tail -n 5 log.0 out.0)"
says "left the run" log.late && fail "$what: who joined says $(cat log.late)"

what="self"
begin 3 "$what" elastic.stop=self
await has_lines 5 || fail "$what: no step: $(tail -n 3 log.*)"
kill -TERM "${pids[0]}"
ends_well "${pids[0]}" 0
says "left the run" log.0 || fail "$what: says $(tail -n 3 log.0)"
await says "; 2 nodes go on" log.1 || fail "$what: the others say $(tail -n 3 log.1)"
goes_on
kill -TERM "${pids[1]}" "${pids[2]}"
ends_well "${pids[1]}" 1
ends_well "${pids[2]}" 2
ls run/checkpoints/step-* >/dev/null 2>&1 || fail "$what: all have left, and nobody saved: $(ls run)"
"$weft" verify run >verified 2>&1 || fail "$what: $(cat verified)"

what="a copy of two ranks that joined"
per_node=2 begin 4 "$what" method=hsdp
joiner a "$port" method=hsdp
came=$last
joiner b "$port" method=hsdp
await says "; 3 nodes go on" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
both=("$came" "$last")
last=
kill -TERM "${both[1]}"
ends_well "${both[0]}" a
ends_well "${both[1]}" b
for r in a b; do says "left the run after step [0-9]*; the others continue" log.$r || fail "$what: $r says $(cat log.$r)"; done
await says "lost rank [45] .*; 2 nodes go on" log.0 || fail "$what: the others say $(tail -n 3 log.0)"
goes_on
stop "${pids[0]}" "${pids[@]:0:4}"

what="copies of two ranks, self"
per_node=2 begin 4 "$what" method=hsdp elastic.stop=self
await has_lines 5 || fail "$what: no step: $(tail -n 3 log.*)"
kill -TERM "${pids[0]}"
ends_well "${pids[0]}" 0
ends_well "${pids[1]}" 1
await says "; 1 node goes on" log.2 || fail "$what: the others say $(tail -n 3 log.2)"
goes_on
kill -TERM "${pids[3]}" # all that is left: it stops, and is saved
ends_well "${pids[2]}" 2
ends_well "${pids[3]}" 3
ls run/checkpoints/step-* >/dev/null 2>&1 || fail "$what: nobody saved: $(ls run)"

what="self without the others"
begin 2 "$what" elastic.stop=self mesh.on_loss=end
for r in 0 1; do wait "${pids[r]}" && fail "$what: it trains"; done
says "elastic.stop is self, but this run ends when a process is lost" log.0 || fail "$what: $(cat log.0)"
refuses "elastic.stop is 'none', expected auto, all or self" "$weft" train run.yaml elastic.stop=none
what="a signal that comes twice at once, as timeout sends it"
begin 2 "$what" mesh.compute_time=0.5
await has_lines 1 || fail "$what: it does not begin: $(tail -n 3 log.*)"
kill -INT "${pids[0]}"
sleep 0.02
kill -INT "${pids[0]}" 2>/dev/null
for r in 0 1; do ends_well "${pids[r]}" "$r"; done

# A closed stream's number would be a file's of the run, and what is printed in it.
what="standard streams that are closed"
rm -rf run
"$weft" train run.yaml run.folder=run run.steps=60 <&- >&- 2>&-
expect 0 "$weft" verify run
for f in run/*.jsonl; do
    python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$f" ||
        fail "$what: $f holds $(head -c 300 "$f")"
done
# --json's lines are what the program is for: that they could not be written is said when it happens, and by the exit
# code; the run goes on to its end, and is saved.
unheard() { # REASON REDIRECTION
    what="--json $2"
    rm -rf run
    eval '"$weft" train run.yaml run.folder=run run.steps=60 --json 2>err '"$2"
    local code=$?
    ((code == 1)) || fail "$what: exit code $code"
    [[ $(grep -c "^weft: warning: could not write to stdout: $1; the run goes on" err) == 1 ]] || fail "$what: $(cat err)"
    grep -q "^weft: could not write the output" err || fail "$what: $(cat err)"
    [[ -e run/checkpoints/step-00000060 ]] || fail "$what: nothing is saved"
    expect 0 "$weft" verify run
}
unheard "Bad file descriptor" '>&-'
unheard "No space left on device" '>/dev/full'
finish
