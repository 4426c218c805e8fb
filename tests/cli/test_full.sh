#!/bin/bash
# SPDX-License-Identifier: MIT
# A disk that is full for a while costs a checkpoint, and no line and no process; only the last
# checkpoint is worth an error. The disk is a tmpfs in a mount namespace of its own.
if [ "${STAGE:-}" != inside ]; then
    user=()
    [ "$(id -u)" = 0 ] || user=(--map-root-user)
    if ! unshare "${user[@]}" -m sh -c 'mount -t tmpfs -o size=1m none /mnt' 2>why; then
        echo "skipped: no mount namespace here: $(head -1 why)"
        exit 77
    fi
    STAGE=inside exec unshare "${user[@]}" -m bash "$0" "$@"
fi
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"
mkdir -p run
mount -t tmpfs -o size=5m none run

# Nobody writes in between; what is there already keeps its place.
fill() {
    kill -STOP "${pids[@]}"
    dd if=/dev/zero of=run/ballast bs=4096 2>/dev/null
    kill -CONT "${pids[@]}"
}
ends() {
    local p code
    for p in "${pids[@]}"; do
        code=0
        wait "$p" || code=$?
        [ $code = "$1" ] || fail "$what: a process ended with $code: $(tail -n 3 log.*)"
    done
}
# begin $1 processes whose disk is full from step 20 on; then key=value ...
begin_and_fill() {
    begin "$@" run.save_every=50 run.keep=2 run.tensorboard=true 2>/dev/null
    await has_lines 20 || fail "$what: no step 20: $(tail -n 3 log.*)"
    fill
}

# --- full while two checkpoints are due: two processes, and one with two ranks ---
for n in 2 1; do
    begin_and_fill $n "full for a while ($n)" run.steps=200 ${one:-}
    await says "the checkpoint of step 100 is not written" log.0 || fail "$what: it says $(tail -n 5 log.0)"
    rm run/ballast
    ends 0
    says "could not write run/metrics.jsonl: No space left on device; its lines wait in memory" log.0 ||
        fail "$what: no warning: $(cat log.0)"
    (($(grep -c "could not write run/metrics.jsonl" log.0) == 1)) || fail "$what: warned more than once"
    says "run/metrics.jsonl is written again; none of its lines was lost" log.0 || fail "$what: $(cat log.0)"
    says "2 checkpoints could not be written, the last of them of step 100" log.0 || fail "$what: $(cat log.0)"
    (($(grep -o '"step":[0-9]*,"loss"' run/metrics.jsonl | uniq | wc -l) == 200)) || fail "$what: lines are missing"
    [ "$(cd run/checkpoints && echo *)" = "step-00000150 step-00000200" ] || fail "$what: $(ls run/checkpoints)"
    "$weft" verify run >out 2>err || fail "$what: $(cat out err)"
    one="mesh.nodes=2"
done

# --- who writes dies meanwhile: the next one writes when it can ---
begin_and_fill 2 "who writes dies" run.steps=400
await says "the checkpoint of step 50 is not written" log.0 || fail "$what: it says $(tail -n 5 log.0)"
kill -9 "${pids[0]}"
await says "could not take over run: .*No space left on device" log.1 || fail "$what: it says $(grep -v "^train" log.1)"
rm run/ballast
await says "took over run late: [0-9]* steps before step [0-9]* have no lines" log.1 || fail "$what: $(grep -v "^train" log.1)"
wait "${pids[1]}" || fail "$what: it ended with $?: $(tail -n 3 log.1)"
missing=$(sed -n 's/.* late: \([0-9]*\) steps .*/\1/p' log.1)
have=$(grep -o '"step":[0-9]*,"loss"' run/metrics.jsonl | sort -u | wc -l)
((have + missing == 400)) || fail "$what: $have lines, and $missing are missing"
[ -d run/checkpoints/step-00000400 ] || fail "$what: $(ls run/checkpoints)"
"$weft" verify run >out 2>err || fail "$what: $(cat out err)"

# --- who writes dies in a checkpoint, and what it left of that takes the room of all later ones ---
begin 2 "who writes dies in a checkpoint" run.steps=200 run.save_every=50 run.keep=2 2>/dev/null
await has_lines 20 || fail "$what: no step 20: $(tail -n 3 log.*)"
kill -STOP "${pids[@]}"
mkdir -p run/checkpoints/step-00000020.partial
dd if=/dev/zero of=run/checkpoints/step-00000020.partial/model.safetensors bs=4096 2>/dev/null
truncate -s -16K run/checkpoints/step-00000020.partial/model.safetensors
kill -9 "${pids[0]}"
kill -CONT "${pids[1]}"
wait "${pids[1]}" || fail "$what: it ended with $?: $(tail -n 3 log.1)"
! says "is not written" log.1 || fail "$what: it says $(grep "is not written" log.1)"
[ "$(cd run/checkpoints && echo *)" = "step-00000150 step-00000200" ] || fail "$what: $(ls run/checkpoints)"

# --- full to the end ---
begin_and_fill 2 "full to the end" run.steps=60
ends 2
says "the last checkpoint, of step 60, could not be written: .*No space left on device" log.0 ||
    fail "$what: it says $(tail -n 3 log.0)"
says "could not be written: run was not taken over yet: could not .*: No space left on device" log.1 ||
    fail "$what: the other one says $(tail -n 3 log.1)"
rm run/ballast
"$weft" train run.yaml run.folder=run --resume run.steps=60 --quiet >out 2>err || fail "$what: $(cat err)"
says "run has steps of a run and no checkpoint to resume from: the run begins anew" err || fail "$what: it says $(cat err)"
[ -d run/checkpoints/step-00000060 ] || fail "$what: $(ls run/checkpoints)"
finish
