#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs on the emulated wire against their predictions: bench/runtime/run.sh BUILD [steps]
# The facts are typed by hand: what one core does, shared by the ranks of this machine.
set -eu
case=$(cd "$1" && pwd)/weft_predict_case steps=${2:-16}
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
cluster=$(mktemp)
trap 'rm -f "$cluster"' EXIT
cores=$(nproc)

# Measured and predicted: mean and median step, waiting, bytes.
line='import json, sys
run, said = (json.loads(x) for x in sys.argv[1:])
def pair(key): return "%.5f %.5f %+6.1f%%" % (run[key], said[key], 100 * (said[key] / run[key] - 1))
print(pair("mean"), " median", pair("median"), " wait %.5f %.5f" % (run["wait"], said["wait"]),
      " bytes %.0f %.0f" % (run["bytes"], said["bytes"]))'

# one NODES RANKS LINK SHAPE METHOD: a line of both
one() {
    local nodes=$1 ranks=$2 link=$3 shape=$4 method=$5 rate=$((20 * cores / ($1 * $2))) run said
    [ $rate -gt 20 ] && rate=20
    printf 'threads: 1\nmemory_bandwidth: %sGB/s\nrank_flops: 50GFLOP/s\nlocal: {message: 2us}\n' \
        $rate > "$cluster"
    # shellcheck disable=SC2206 # keys, one word each
    local keys=($method $shape model.heads=4 data.length=64 mesh.compute_time=0.2 mesh.threads=1
        mesh.nodes="$nodes" mesh.ranks_per_node="$ranks" mesh.link="$link"
        batch.tokens_per_step=$((64 * nodes * ranks)) run.steps=$((steps + 4)) schedule.warmup=0)
    printf '%-13s %sx%s %-84s ' "$link" "$nodes" "$ranks" "$method"
    said=$("$case" "$cluster" "${keys[@]}") && run=$(timeout 300 "$case" 4 "${keys[@]}") &&
        python3 -c "$line" "$run" "$said" || true
}
small="model.layers=2 model.width=64" large="model.layers=4 model.width=128"
methods=("method=hsdp" "method=hsdp optimizer.clip=0" "method=flexdemo replicator.exchange=all_gather"
    "method=flexdemo replicator.exchange=sharded replicator.values=int8" "method=random"
    "method=dadam" "method=diloco mixer.outer_every=4")
for link in 10Mbit,1ms 100Mbit,1ms 1Gbit,0.1ms 10Gbit,0.05ms; do
    shape=$large
    [ $link = 10Mbit,1ms ] && shape=$small
    for nodes in 2 4 8; do
        for method in "${methods[@]}"; do one $nodes 1 $link "$shape" "$method"; done
    done
done

# Shards, copies of the model, sites, stalls, no overlap.
sites="mesh.sites=2 mesh.site_link=20Mbit,10ms"
one 2 2 100Mbit,1ms "$large" "method=hsdp"
one 4 2 100Mbit,1ms "$large" "method=flexdemo"
one 2 2 100Mbit,1ms "$large" "method=hsdp mesh.shards=1 optimizer.clip=0"
one 4 2 100Mbit,1ms "$large" "method=dadam mesh.shards=1"
one 4 1 100Mbit,1ms "$large" "method=hsdp $sites site_replicator.kind=full"
one 4 1 100Mbit,1ms "$large" "method=hsdp $sites mixer.kind=outer mixer.outer_every=4"
one 4 1 100Mbit,1ms "$large" "method=hsdp mesh.overlap=false optimizer.clip=0"
one 4 1 100Mbit,1ms "$large" "method=hsdp mesh.straggler_time=0.1"
one 4 1 100Mbit,1ms "$large" "method=dadam mesh.straggler_time=0.1"
one 4 1 100Mbit,1ms "$large" "method=dadam mixer.topology=complete mesh.min_message=16kB"
one 4 1 100Mbit,1ms "$large" "method=dadam mixer.kind=choco mixer.topology=ring mixer.values=int8"
