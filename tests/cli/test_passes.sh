#!/bin/bash
# SPDX-License-Identifier: MIT
# Nodes with passes of their own: batch.micro and model.recompute as each is told, or as its memory
# has room. All have the same bits, which a replay and a resumed run have, too.
. "$2/tests/cli/helpers.sh"
need_python
empty_here
write_sentences >text.txt
tokens=4096 small_run "steps: 8, eval_every: 4, save_every: 4" "timeout: 60" "method: hsdp"
sed -i 's/length: 32/length: 64/; s/layers: 2, width: 32/layers: 8, width: 64/' run.yaml

# pair KEY=VALUE...: a run of two processes in the folder run; $own is told to the second one alone, and
# $in goes before its command.
pair() {
    local r pids=() conf=${conf:-run.yaml}
    free_port
    for r in 1 0; do
        # shellcheck disable=SC2086 # they are several words
        RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 100 ${before[r]-} \
            "$weft" train "$conf" run.folder=run mesh.nodes=2 mesh.ranks_per_node=1 "$@" ${own[r]-} \
            >out.$r 2>log.$r &
        pids[r]=$!
    done
    wait "${pids[0]}" && wait "${pids[1]}"
}
# has PASSES: those of the ranks, in each view of the run; "": as it says for all.
has() {
    [[ $(grep -o '"micros":\[[0-9,]*\]' run/views.jsonl | sort -u) == "${1:+\"micros\":[$1]}" ]] ||
        fail "$*: the views are $(cat run/views.jsonl)"
}
replays() {
    "$weft" train --replay run --quiet >out 2>err || fail "$*: $(cat err)"
    grep -q '^the same bits .*losses of 8 steps' out || fail "$*: $(cat out)"
}
trains() {
    rm -rf run
    pair "$@" || fail "$*, ${own[*]-}: $(cat log.*)"
}
losses_are() { [[ $(losses run) == "$1" ]] || fail "$2: the losses are $(losses run), not $1"; }

# Each as it is told.
own=()
trains
has ""
common=$(losses run)
expected=$(sed -n 's/^expects  \([0-9]*\) MB memory.*/\1/p' log.0) # of one process
own=("" "model.recompute=true")
trains
has ""
losses_are "$common" "activations computed twice by one"
grep -q '"node":0,.*"pass_rows":32,"recomputes":0,' run/nodes.jsonl && grep -q '"node":1,.*"pass_rows":32,"recomputes":1,' run/nodes.jsonl ||
    fail "nodes.jsonl: $(tail -2 run/nodes.jsonl)"
own=("" "batch.micro=4")
trains batch.micro=16
has 16,4
replays
[[ $(losses run) != "$common" ]] || fail "with other passes not a bit is different"
losses run | cut -d: -f2 | paste - <(echo "$common" | cut -d: -f2) >both
python3 -c "
for a, b in (map(float, line.split()) for line in open('both')):
    assert abs(a - b) < 1e-5, (a, b)" || fail "other passes are of other rows"
trains batch.micro=16 batch.shares=5,3
has 16,4
replays
own=("batch.micro=4" "")
trains method=dadam batch.micro=8
has 4,8
replays
grep -q 'in passes of at most 4, 8$' log.0 || fail "it does not say which: $(cat log.0)"

# Resumed, each keeps its own, which the configuration of the run does not say.
own=("" "batch.micro=4")
trains batch.micro=16 schedule.kind=constant run.steps=4
own=()
conf=run/config.yaml pair schedule.kind=constant run.steps=8 --resume || fail "resumed: $(cat log.*)"
has 16,4
mv run part
own=("" "batch.micro=4")
trains batch.micro=16 schedule.kind=constant
mv run whole
[[ $(losses part) == "$(losses whole)" ]] || fail "resumed: $(losses part), at once $(losses whole)"

# Only these keys may differ.
differ() {
    rm -rf run
    own=("" "$1")
    pair batch.micro=16 && fail "$1 passes"
    grep -q "$2" log.* || fail "$1: $(cat log.*)"
}
differ batch.tokens_per_step=8192 "batch.tokens_per_step is 4096 .* 8192 .*; all ranks must have the same"
differ model.precision=bf16 "model.precision is f32 .* bf16 .*; all ranks must have the same"
differ batch.micro=5 "batch.micro is 5, expected a divisor of"
free_port # refused before they meet: the other one would wait
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    refuses "batch.micro is '-1', expected a whole number from 0 to 1048576 (sequences)" \
    "$weft" train run.yaml mesh.nodes=2 mesh.ranks_per_node=1 batch.micro=-1

# With too little memory for the common passes: no bit is different if activations need not be kept,
# else passes are smaller; what one is told on its command line stays. A sanitizer has memory of its own.
if ldd "$weft" | grep -qE 'lib[at]san'; then
    finish
    exit
fi
own=("" "mesh.memory_limit=$((expected - 31))MB")
trains
grep -q 'is free under mesh.memory_limit: rank 1 on .* computes activations twice (model.recompute)$' log.0 || fail "$(cat log.0)"
has ""
losses_are "$common" "with little memory"
own=("" "mesh.memory_limit=$((expected - 51))MB")
trains
grep -q 'rank 1 on .* takes [1-8] sequences per pass instead of 32' log.0 || fail "$(cat log.0)"
grep -q '"micros":\[32,[1-8]\]' run/views.jsonl || fail "$(cat run/views.jsonl)"
replays
needs() {
    rm -rf run
    pair && fail "${own[*]} passes"
    grep -q "the run needs .* but .* is free under mesh.memory_limit; use" log.* || fail "$(cat log.*)"
}
own=("" "mesh.memory_limit=$((expected - 51))MB batch.micro=32")
needs
own=("" "mesh.memory_limit=$((expected - 41))MB batch.micro=32 model.recompute=false")
needs

# The same in a group of the kernel's that has less.
group=/sys/fs/cgroup/memory/weft_test_$$
if mkdir "$group" 2>/dev/null; then
    echo $((expected - 29))M >"$group/memory.limit_in_bytes"
    cat >inside <<'S'
#!/bin/sh
echo $$ >"$group/cgroup.procs"
exec "$@"
S
    chmod +x inside
    export group
    before=("" ./inside) own=()
    trains
    before=()
    grep -q 'is free: rank 1 on ' log.0 || fail "in a group with little memory: $(cat log.0)"
    replays
    rmdir "$group"
fi
finish
