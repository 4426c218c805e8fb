#!/bin/bash
# SPDX-License-Identifier: MIT
# A run that recorded digests of what its ranks sent is computed again: one bit of a gradient that was
# wrong on one machine (tests/brutal/faulty_machine.c) is found, with its step and its node, and where
# nothing was wrong nobody is named.
. "$2/tests/cli/helpers.sh"
weft=$FAULTY
export WEFT_FAULTY=
steps=40
. "$2/tests/cli/losing.sh"
sed -i 's/tensorboard: false/tensorboard: false, audit: true/; s/compute_time: 0.01/min_message: 1kB/' run.yaml

# Three processes, the second with the fault $1; then key=value ...
train() {
    local fault=$1 r pids=()
    shift
    free_port
    rm -rf run
    for r in 2 1 0; do
        WEFT_FAULTY=$([ $r = 1 ] && echo "$fault") RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            "$weft" train run.yaml run.folder=run mesh.nodes=3 mesh.ranks_per_node=1 "$@" --quiet >out.$r 2>log.$r &
        pids[r]=$!
    done
    for r in 0 1 2; do wait "${pids[r]}" || fail "$*: rank $r: $(cat log.$r)"; done
}

# The audit names step $1 and node 1; then further flags.
finds() {
    local step=$1
    shift
    expect 1 "$weft" audit run --quiet "$@"
    grep -qE "^rank 0: step $step: what node 1 \(.*\) sent is not what its state and rows give; until then all was right$" \
        out || fail "$what $*: it says $(cat out err), expected step $step"
}

# The audit compares $1 digests, all equal.
honest() {
    local n=$1
    shift
    prints "the same         $n digests of what a rank sent in a step" "$weft" audit run --quiet "$@"
}

# Every way of exchange: a range for each, to all, neighbours, outer steps, a step later.
for what in "hsdp 17" "flexdemo 17" "dadam 18" "diloco 20 mixer.outer_every=5" "async-demo 17" \
    "hsdp 17 optimizer.kind=muon"; do
    read -r method step key others <<<"$what"
    # shellcheck disable=SC2086 # keys are words
    train "bit 17" method="$method" $key $others
    finds "$step"
    finds "$step" --step "$step"
    "$weft" audit run --json >out 2>err && fail "$what: --json ends with 0"
    python3 -c 'import json, sys; found = json.load(open("out"))
assert (found["wrong_step"], found["wrong_node"]) == (int(sys.argv[1]), 1), found' "$step" || fail "$what: $(cat out)"
    honest 9 --step 3
done
"$weft" train --replay run --quiet >out 2>err && fail "a replay does not see it"
grep -q "step 17: what node 1" err || fail "a replay says $(cat err)"

train "" method=dadam
honest $((3 * 38))
honest 30 --step 30 # from the checkpoint of step 20

# Somebody is lost: the last steps of a view have no digests, those of the next one do.
losing 3 1 1 17 method=flexdemo
first=$(grep '"members"' run/views.jsonl | grep -o '"view":[0-9]*,"step":[0-9]*' | sed -n '2s/.*://p')
honest $((3 * (first - 1 - 2) + 2 * (41 - first - 2)))

# A copy of the model in two processes: both of a node have digests.
losing 4 2 "" 40 method=hsdp
honest $((4 * 38))

# Digests that nobody can have told, and none.
cp -r run wrong
sed -i '9s/"sent":"../"sent":"xy/' wrong/metrics.jsonl
refuses 'wrong/metrics.jsonl: "sent_step" and "sent" after step 6 are not a later step and 32 hexadecimal digits for each rank' \
    "$weft" audit wrong
rm -rf wrong && cp -r run wrong
sed -i '9s/"sent":"................................/"sent":"/' wrong/metrics.jsonl
expect 2 "$weft" audit wrong
grep -q "digests of 3 ranks for step 7, views.jsonl says that there were 4" err || fail "it says $(cat err)"
refuses "run/metrics.jsonl has no digests of step 39; it has those of 38 steps from 1 to 38" "$weft" audit run --step 39
sed -i 's/"sent[^,]*,//; s/,"sent":"[0-9a-f]*"//' run/metrics.jsonl
refuses "run/metrics.jsonl has no digests of what the ranks sent; expected those of a run with run.audit=true" \
    "$weft" audit run
refuses "run.audit is true with mixer.deadline 0.1, expected 0: chance decides then what is sent, so nobody can compute it again" \
    "$weft" train text.txt method=dadam mixer.deadline=0.1 mesh.nodes=3 batch.tokens_per_step=768 run.audit=true --quiet
finish
