# SPDX-License-Identifier: MIT
# Every method under mpirun with 1 to 4 ranks has the bits, the losses and the bytes on the
# wire of the same run in one process. Where one MPI runs a method with 2 and 3 ranks, the other one
# runs it with 1 and 4.
. "$(dirname "$0")/helpers.sh"
make_text
cat >run.yaml <<'Y'
data: {path: [text.txt], length: 16}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: 192}
run: {steps: 6, eval_every: 0, save_every: 0, tensorboard: false}
mesh: {threads: 1, min_message: 4kB}
schedule: {warmup: 2}
Y
# A step's loss and bytes, without the times.
numbers() { grep -o '"\(loss\|wire_bytes_out\|wire_bytes_in\|consensus_distance\)": *[^,}]*' "$1/metrics.jsonl"; }
compare() { # ranks, keys...
    local n=$1 code expected
    shift
    rm -rf threads processes
    timeout 60 "$weft" train run.yaml run.folder=threads --quiet "$@" >one.txt 2>&1
    expected=$?
    launch "$n" "$weft" train run.yaml run.folder=processes --quiet "$@" >several.txt 2>&1
    code=$?
    if [ "$expected" != 0 ]; then
        [ "$code" != 0 ] || fail "$n ranks, $*: threads refuse, processes do not"
        return
    fi
    if [ "$code" != 0 ]; then
        fail "$n ranks, $*: $(head -3 several.txt)"
        return
    fi
    for file in threads/checkpoints/step-00000006/*.safetensors; do
        cmp "$file" "processes/checkpoints/step-00000006/$(basename "$file")" ||
            fail "$n ranks, $*: $(basename "$file") differs"
    done
    diff <(numbers threads) <(numbers processes) || fail "$n ranks, $*: metrics differ"
    [ "$(numbers threads | wc -l)" -ge 12 ] || fail "$*: no metrics to compare"
}
turn=0
[[ $mpi == openmpi ]] && turn=1
for method in $("$weft" list methods | awk '$1 != "auto" {print $1}'); do # auto is one of them, by the clock
    [ "$method" = none ] && continue
    if ((turn++ % 2)); then counts="2 3"; else counts="1 4"; fi
    for n in $counts; do compare "$n" "method=$method" "mesh.nodes=$n"; done
done
compare 4 method=hsdp mesh.nodes=2 mesh.ranks_per_node=2
compare 4 method=flexdemo mesh.nodes=2 mesh.ranks_per_node=2 replicator.exchange=sharded replicator.values=int8
compare 4 method=flexdemo mesh.nodes=2 mesh.ranks_per_node=2 mesh.shards=1
compare 4 method=fsdp mesh.nodes=1 mesh.ranks_per_node=4
compare 4 method=flexdemo mesh.nodes=4 mesh.sites=2 site_replicator.kind=full
compare 4 method=dadam mesh.nodes=4 mixer.topology=complete
compare 4 method=diloco mesh.nodes=4 mixer.outer_every=3 mixer.values=int8
finish
