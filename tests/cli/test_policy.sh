#!/bin/bash
# SPDX-License-Identifier: MIT
# What a person chooses with elastic.*, on real processes over TCP: how long silence is borne, what
# too few do, how long one that stands still is waited for, what becomes of the rows of the lost.
# Nothing here depends on how fast the machine is: a process that is too slow to be stopped in time
# proves less, and fails nothing.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# The process $1 is to end with $2.
ends() {
    local code=0
    wait "${pids[$1]}" 2>/dev/null || code=$?
    [ "$code" = "$2" ] || fail "$what: rank $1 ended with $code, expected $2: $(tail -n 2 log.*)"
}
none_lost() { ! cat log.* out.* | grep -q "lost rank" || fail "$what: $(cat log.* out.*)"; }

# --- silence that is allowed, and a pause of two, end when the stopped one is heard again ---
begin 3 "elastic.silence=60" elastic.silence=60 run.steps=100
await has_lines 5
kill -STOP "${pids[2]}"
sleep 2.2 # the event itself: longer than the silence that is borne by default
kill -CONT "${pids[2]}"
for r in 0 1 2; do ends $r 0; done
none_lost

begin 2 "two, one stopped" run.steps=100
await has_lines 5
kill -STOP "${pids[1]}"
sleep 2.2
kill -CONT "${pids[1]}"
for r in 0 1; do ends $r 0; done
none_lost

# --- too few give up after elastic.pause, and go on where they may ---
begin 2 "elastic.pause=1" elastic.pause=1 run.steps=100 --returns 0
await has_lines 5
kill -STOP "${pids[1]}"
ends 0 1
says "it hears too few of the others to go on" log.0 || fail "$what: $(cat log.0)"
kill -9 "${pids[1]}"

# Its peer is connected all the time, and does not hear the farewell: it is not waited for.
begin 2 "elastic.partition=split" elastic.partition=split run.steps=100
await has_lines 5
kill -STOP "${pids[1]}"
ends 0 0
cat log.0 out.0 | grep -q "lost rank 1 .*; 1 node goes on" || fail "$what: $(cat log.0 out.0)"
kill -9 "${pids[1]}"
grep -q '"step":100,.*"loss"' run/metrics.jsonl || fail "$what: no line of the last step"

# --- what is on its way to a process that stands still is not waited for, in steps or at the end ---
begin 3 "a stopped one, large messages" method=hsdp model.width=256 model.layers=4 run.steps=12 \
    run.compare_every=0 batch.tokens_per_step=96
await has_lines 3
kill -STOP "${pids[2]}"
ends 0 0
ends 1 0
cat log.* out.* | grep -q "lost rank 2 .*; 2 nodes go on" || fail "$what: $(cat log.* out.*)"
kill -9 "${pids[2]}"

# --- one stands still in its step: the others wait for elastic.patience, and go on ---
# The straggler of the first step is drawn; two of three are enough.
begin 3 "elastic.patience=1" elastic.patience=1 mesh.straggler_time=600 run.steps=1
ended() {
    local r n=0
    for r in 0 1 2; do live "${pids[r]}" || n=$((n + 1)); done
    ((n >= 2))
}
until ended; do sleep 0.05; done
for r in 0 1 2; do
    if live "${pids[r]}"; then
        kill -9 "${pids[r]}"
        continue
    fi
    ends $r 0
done
cat log.* out.* | grep -q "lost rank [012] .*; 2 nodes go on" || fail "$what: $(cat log.* out.*)"

# --- the rows of a step: 24 sequences of 32 tokens, of three; the rest keeps them, or takes fewer ---
for batch in keep shrink; do
    begin 3 "elastic.batch=$batch" elastic.batch=$batch run.steps=60
    await has_lines 10
    kill -9 "${pids[1]}"
    ends 0 0
    ends 2 0
    tokens=512
    rows=8
    [ $batch = keep ] && tokens=768 rows=12
    grep '"step":60,.*"loss"' run/metrics.jsonl | grep -q "\"tokens\":$tokens," ||
        fail "$what: $(grep '"step":60,' run/metrics.jsonl), expected $tokens tokens"
    tail -n 1 run/views.jsonl | grep -q "\"rows_per_rank\":$rows," ||
        fail "$what: $(cat run/views.jsonl), expected $rows rows"
    "$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat out err)"
done

# --- who writes the run folder has no room for the checkpoint: it ends with a sentence, and the
# next one writes it ---
cat >first <<'B'
#!/bin/bash
[ "$RANK" != 0 ] || ulimit -f 64
exec "$REAL" "$@"
B
chmod +x first
export REAL=$weft
weft=./first
begin 3 "no room for the checkpoint" run.steps=40 run.save_every=20
weft=$REAL
ends 0 2
ends 1 0
ends 2 0
grep -aqE "could not (write|reserve [0-9]+ bytes for) .*: File too large" log.0 || fail "$what: $(cat log.0)"
cat log.1 out.1 | grep -q "lost rank 0 .*; 2 nodes go on" || fail "$what: $(cat log.1 out.1)"
[ -f run/checkpoints/step-00000040/index.json ] || fail "$what: no last checkpoint"

# --- what is refused ---
"$weft" train run.yaml elastic.silence=0.5 >out 2>err && fail "elastic.silence=0.5 is taken"
grep -q "elastic.silence is '0.5', expected a number from 1 to 3600 (seconds)" err || fail "$(cat err)"
"$weft" train run.yaml elastic.partition=merge >out 2>err && fail "elastic.partition=merge is taken"
grep -q "elastic.partition is 'merge', expected pause or split" err || fail "$(cat err)"
"$weft" train run.yaml elastic.batch=grow >out 2>err && fail "elastic.batch=grow is taken"
grep -q "elastic.batch is 'grow', expected shrink or keep" err || fail "$(cat err)"
finish
