#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs on the emulated wire against their predictions: bench/runtime/run.sh BUILD [steps]
# The facts are typed by hand: what one core does, shared by the ranks of this machine.
set -eu
build=$(cd "$1" && pwd) steps=${2:-16}
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c11 -O2 -Iinclude bench/runtime/agree.c -o "$work/agree" -L"$build" -lweft \
    -Wl,-rpath,"$build"
cores=$(nproc)
methods=("method=hsdp" "method=dadam" "method=diloco mixer.outer_every=4")
for link in 10Mbit,1ms 100Mbit,1ms 1Gbit,0.1ms 10Gbit,0.05ms; do
    shape="model.layers=4 model.width=128"
    [ $link = 10Mbit,1ms ] && shape="model.layers=2 model.width=64"
    for nodes in 2 4 8; do
        rate=$((20 * cores / nodes))
        [ $rate -gt 20 ] && rate=20
        printf 'threads: 1\nmemory_bandwidth: %sGB/s\nrank_flops: 50GFLOP/s\nlocal: {message: 2us}\n' \
            $rate > "$work/cluster.yaml"
        for method in "${methods[@]}"; do
            printf '%-13s %s %-68s ' $link $nodes "$method"
            timeout 300 "$work/agree" "$work/cluster.yaml" "$steps" 4 $method $shape model.heads=4 \
                data.length=64 mesh.pace=0.2 mesh.threads=1 mesh.nodes=$nodes mesh.link=$link \
                batch.tokens_per_step=$((64 * nodes)) || true
        done
    done
done
