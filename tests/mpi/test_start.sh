# SPDX-License-Identifier: MIT
# Starting, resuming, and what is refused before the first step: one sentence by one rank.
. "$(dirname "$0")/helpers.sh"
make_text
cat >run.yaml <<'Y'
data: {path: [text.txt], length: 16}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: 128}
run: {steps: 6, eval_every: 0, tensorboard: false, folder: run}
mesh: {threads: 1}
schedule: {warmup: 2}
Y
train="$weft train run.yaml --quiet"
refused() { # sentence, log
    [ "$(grep -c '^weft: ' "$2")" = 1 ] || fail "not one sentence: $(cat "$2")"
    grep -q -- "$1" "$2" || fail "expected '$1', found: $(grep '^weft: ' "$2")"
}
part() { # working folder, keys...: what one rank of several runs
    local folder=$1
    shift
    echo "cd $folder && exec $train $*"
}
# One rank per machine is a node each; here all are on one, so one node of two ranks.
launch 2 $train run.folder=derived >log 2>&1 || fail "two ranks: $(cat log)"
grep -q 'ranks_per_node: *2' derived/config.yaml || fail "the mesh was not derived"
grep -q 'nodes: *1' derived/config.yaml || fail "the nodes were not derived"

launch 2 $train mesh.nodes=3 >log 2>&1 && fail "3 nodes on 2 ranks were accepted"
refused "mesh.nodes x mesh.ranks_per_node is 3 x 1, but 2 ranks on 1 hosts" log
launch 2 $train mesh.nodes=2 mesh.link=100Mbit,1ms >log 2>&1 && fail "a wire was emulated"
refused "a wire is emulated inside one process only" log
launch 2 $train data.path=nowhere.txt >log 2>&1 && fail "no text was accepted"
refused "nowhere.txt" log
launch 1 $train mesh.nodes=2 : -np 1 $train mesh.nodes=2 run.seed=5 >log 2>&1 &&
    fail "two configurations were accepted"
refused "run.seed is 1 on rank 0 and 5 on rank 1" log

# Ranks that do not see the folder of rank 0: their files are brought, both ways.
for folder in here there; do
    mkdir -p "$folder"
    cp text.txt run.yaml "$folder/"
done
both() {
    launch 1 bash -c "$(part here "$@")" : -np 1 bash -c "$(part there "$@")" >log 2>&1 ||
        fail "apart, $*: $(cat log)"
}
both method=flexdemo mesh.nodes=2 run.steps=4 schedule.kind=constant
both method=flexdemo mesh.nodes=2 run.steps=6 schedule.kind=constant --resume
timeout 60 $train method=flexdemo mesh.nodes=2 run.folder=whole schedule.kind=constant >log 2>&1 ||
    fail "whole: $(cat log)"
for file in model.safetensors replica-00001.safetensors; do
    cmp "whole/checkpoints/step-00000006/$file" "here/run/checkpoints/step-00000006/$file" ||
        fail "$file is not that of a run in one process"
done
[ ! -e there/run/checkpoints/step-00000006 ] || fail "a second checkpoint is left"
[ ! -e there/run/metrics.jsonl ] || fail "rank 1 kept a journal"
"$weft" eval here/run run.yaml >log 2>&1 || "$weft" eval here/run >log 2>&1 || fail "eval: $(cat log)"

# Tasks that srun started without telling them of each other.
SLURM_STEP_NUM_TASKS=2 $train run.folder=lost >log 2>&1 && fail "lonely tasks trained"
refused "srun has started 2 tasks without telling" log

# mpirun inside a Slurm job, whose variables its ranks inherit, also those of another MPI.
launch 2 bash -c 'export SLURM_STEP_NUM_TASKS=2 PMIX_RANK=${PMIX_RANK:-0}; exec "$@"' job \
    $train run.folder=inherited >log 2>&1 || fail "in a job: $(cat log)"
grep -q 'ranks_per_node: *2' inherited/config.yaml || fail "in a job: alone"

# The launcher takes no rank that ends before the others for dead.
for n in 1 2 3 4 5 6 7 8; do
    launch 4 $train run.steps=2 "run.folder=end$n" >log 2>&1 || fail "end $n: $(cat log)"
done
finish
