#!/bin/bash
# SPDX-License-Identifier: MIT
# A process is killed while a run trains over TCP: the others go on to the end, with equal
# models. When it is killed is said as a number of lines of metrics.jsonl.
weft=$1
source_dir=$2
# shellcheck source=tests/cli/helpers.sh
. "$source_dir/tests/cli/helpers.sh"
empty_here
write_sentences >text.txt
cat >run.yaml <<'Y'
data: {path: [text.txt], length: 32}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: 768}
run: {steps: 60, eval_every: 20, save_every: 20, compare_every: 1, log_every: 1, tensorboard: false}
mesh: {threads: 1, compute_time: 0.01}
schedule: {warmup: 2}
method: flexdemo
Y
lines() { grep -c '"loss"' "$1/metrics.jsonl" 2>/dev/null; }

# Ranks $1 of $2 per copy of the model, of which $copies (1) are in a node; those named in $3 are
# killed after $4 lines; then key=value ...
losing() {
    local n=$1 per_node=$2 victims=$3 after=$4 r v pids=()
    local wide=$((per_node * ${copies:-1}))
    shift 4
    free_port
    rm -rf run
    for ((r = n - 1; r >= 0; r--)); do
        RANK=$r WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port exec "$weft" train run.yaml \
            run.folder=run mesh.nodes=$((n / wide)) mesh.ranks_per_node=$wide mesh.shards="$per_node" "$@" \
            --quiet >out.$r 2>log.$r &
        pids[r]=$!
    done
    for ((i = 0; i < 3000; i++)); do
        [ "$(lines run || true)" -ge "$after" ] 2>/dev/null && break
        sleep 0.01
    done
    for v in $victims; do kill -9 "${pids[v]}" || fail "$*: rank $v had ended before it was killed"; done
    (
        sleep 60
        kill -9 "${pids[@]}"
    ) >/dev/null 2>&1 & # its sleep lives on, and must not hold the test's output open
    local watchdog=$!
    for ((r = 0; r < n; r++)); do
        wait "${pids[r]}" 2>/dev/null
        local code=$?
        case " $victims " in
            *" $r "*) [ $code = 137 ] || fail "$*: rank $r was killed and ended with $code" ;;
            *" $((r / per_node * per_node)) "* | *" $((r / per_node * per_node + per_node - 1)) "*)
                [ $code = 1 ] || fail "$*: rank $r has lost a part of its model and ended with $code" ;;
            *) [ $code = 0 ] || fail "$* after $after: rank $r ended with $code: $(cat log.*)" ;;
        esac
    done
    kill "$watchdog" 2>/dev/null
    wait "$watchdog" 2>/dev/null
    [ -f run/checkpoints/step-00000060/model.safetensors ] || fail "$*: no last checkpoint"
    grep -q '"step":60,.*"loss"' run/metrics.jsonl || fail "$*: no line of the last step"
}

losing 3 1 2 7
grep -q "^validation loss" out.0 || fail "rank 0 says $(cat out.0)"
losing 3 1 0 19                                # who writes the run folder
grep -q "^validation loss" out.1 || fail "rank 1 says $(cat out.1)"
losing 3 1 1 20 replicator.exchange=all_gather # about when all evaluate and save
losing 3 1 1 33 replicator.exchange=sharded
losing 3 1 2 40 method=hsdp
losing 2 1 0 11 method=hsdp
losing 4 1 "1 3" 15 method=random              # two at once
losing 4 1 "0 1 2" 15 method=topk              # all but one
losing 4 2 3 15                                # with half of a node its other half ends
losing 4 2 0 15 method=hsdp
losing 4 2 2 15 method=random
losing 6 2 "0 5" 17 method=diloco mixer.outer_every=5 # of two nodes, of three
losing 4 2 1 15 method=dadam
# Messages that are taken in a step after they were sent.
losing 3 1 1 15 method=async-demo run.compare_every=8 run.eval_every=0
losing 4 2 0 21 method=async-demo run.compare_every=8 run.eval_every=0
# Several copies of the model in a node: one is lost, the other one goes on.
copies=2 losing 4 1 1 15 method=hsdp
copies=2 losing 8 2 3 15
# Who is lost is late for ever.
losing 3 1 1 15 method=dadam mixer.deadline=0.05
# Replicas that differ: what a lost neighbour has not sent is done without.
losing 3 1 1 9 method=dadam
grep -q "^validation loss" out.0 || fail "dadam: rank 0 says $(cat out.0)"
losing 4 1 0 20 method=dadam mixer.average_every=4 # groups' means in two rounds, all evaluate
losing 3 1 2 13 method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5
losing 2 1 1 15 method=accumadam
losing 4 1 "0 2" 17 method=diloco mixer.outer_every=5
losing 3 1 0 31 method=streaming-diloco mixer.outer_every=12 mixer.values=int4 mixer.fragments=2
losing 3 1 1 12 method=sparseloco mixer.outer_every=3
finish
