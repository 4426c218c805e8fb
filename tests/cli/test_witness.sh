#!/bin/bash
# SPDX-License-Identifier: MIT
# weft witness and elastic.witness, on real processes over TCP with TLS. Of two processes one is
# stopped: the other hears half of the run, as behind a cut cable, and may go on if it gets the vote.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

"$weft" key new >run.key
"$weft" key new >other.key
free_port
witness_port=$port
: >witness.log
serve() {
    "$weft" witness mesh.key=run.key --listen "$witness_port" --votes votes 2>>witness.log &
    witness=$!
    until says_since "$1" "a witness at port" witness.log; do
        live $witness || fail "the witness does not begin: $(cat witness.log)" || return
        sleep 0.02
    done
}
serve 1
two=(mesh.key=run.key "elastic.witness=127.0.0.1:$witness_port" run.steps=200)

# ends R CODE
ends() {
    local code=0
    wait "${pids[$1]}" 2>/dev/null || code=$?
    [ "$code" = "$2" ] || fail "$what: rank $1 ended with $code, expected $2: $(tail -n 2 log.*)"
}
stop_second() {
    await has_lines 5
    kill -STOP "${pids[1]}"
}

# --- the half that is heard by the witness goes on, and its replay has the same bits ---
begin 2 "a witness" "${two[@]}"
stop_second
ends 0 0
kill -9 "${pids[1]}"
cat log.0 out.0 | grep -q "lost rank 1 .*; 1 node goes on" || fail "$what: $(cat log.0 out.0)"
grep -q "the vote of its view 1 is given to rank 0 " witness.log || fail "$what: $(cat witness.log)"
grep -q '"step":200,.*"loss"' run/metrics.jsonl || fail "$what: no line of the last step"
(($(wc -l <votes) == 2)) || fail "$what: $(cat votes), expected one vote"
"$weft" train --replay run --quiet >out 2>err || fail "$what: the replay differs: $(cat out err)"

# --- killed and started again, it has its votes ---
kill -9 $witness
wait $witness 2>/dev/null
before=$(wc -c <witness.log)
serve $((before + 1))
grep -q "votes of 1 run in votes" witness.log || fail "the witness forgets: $(cat witness.log)"

# --- one process at a time has the file, and a file that was changed is none ---
expect 2 "$weft" witness mesh.key=run.key --votes votes
grep -q "another witness uses the votes votes" err || fail "$(cat err)"
{ cat votes && echo "0 1 2 3"; } >changed
expect 2 "$weft" witness mesh.key=run.key --votes changed
grep -q "changed: line 3 is not a vote" err || fail "$(cat err)"

# --- without the witness all is as it was: a warning, and half of two waits ---
kill -9 $witness
wait $witness 2>/dev/null
begin 2 "no witness" "${two[@]}" elastic.pause=1 --returns 0
stop_second
ends 0 1
kill -9 "${pids[1]}"
says "the witness at 127.0.0.1:$witness_port does not answer rank 0" log.0 || fail "$what: $(cat log.0)"
says "too few of the others to go on, and the witness does not answer" log.0 || fail "$what: $(cat log.0)"

# --- who is killed is missed by a majority of one: nobody is asked ---
begin 2 "no witness, one killed" "${two[@]}"
await has_lines 5
kill -9 "${pids[1]}"
ends 0 0

# --- what is refused ---
expect 2 "$weft" config elastic.witness=a elastic.partition=split
grep -q "elastic.witness is a with elastic.partition split" err || fail "$(cat err)"
begin 1 "an address that is none" elastic.witness=a:b mesh.key=run.key --listen "$witness_port"
ends 0 2
says "elastic.witness is a:b, expected HOST or HOST:PORT" log.0 || fail "$what: $(cat log.0)"
finish
