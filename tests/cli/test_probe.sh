#!/bin/bash
# SPDX-License-Identifier: MIT
# weft probe: a table, a file, one sentence for what is wrong.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"
rm -rf ./*.yaml run

keys=(model.layers=1 model.width=32 model.heads=2 data.length=16 batch.tokens_per_step=64
    mesh.threads=1)
expect 0 "$weft" probe "${keys[@]}" --nodes 2 --link 1Gbit,1ms --seconds 1 -o cluster.yaml
for line in "mesh  *2 nodes x 1 rank x 1 thread, local backend, " "model  *gpt2 layers 1 width 32 " \
    "late after sleeping  *[0-9.]+ [mu]s " "matrix products  *[0-9.]+ [GMT]FLOP/s  *[0-9.]+ %" "matrix products, bf16  *[0-9.]+ [GMT]FLOP/s  *[0-9.]+ %" "block backward  *[0-9.]+ [mnu]s " \
    "its spread  *[0-9.e-]+ %  *[0-9.e-]+ points" "wire latency  *[0-9.]+ ms  *[0-9.]+ %" \
    "wire bandwidth  *[0-9.e+]+ [GM]bit/s " "all-reduce of 2, 1024 B  *[0-9.]+ ms " \
    "gossip, 2 nodes  *[0-9.]+ ns/parameter " "optimizer adamw  *[0-9.]+ ns/parameter " "time  "; do
    grep -qE "^$line" out || fail "no line '$line': $(cat out)"
done
[[ $(cat err) == "measuring rates"*"measuring optimizers" ]] || fail "progress: $(cat err)"
for line in "source: 'probe'" "backend: 'local'" "nodes: 2" "ranks_per_node: 1" "threads: 1"; do
    grep -qxF "$line" cluster.yaml || fail "no line '$line' in cluster.yaml"
done
for name in full demo gossip outer; do
    grep -qE "^  - \{name: '$name" cluster.yaml || fail "no codec $name in cluster.yaml"
done

cat >run.yaml <<'TEXT'
model: {layers: 1, width: 32, heads: 2}
data: {length: 16}
batch: {tokens_per_step: 64}
mesh: {threads: 1}
TEXT
expect 0 "$weft" probe run.yaml --seconds 1 --json --quiet
[[ ! -s err ]] || fail "something on stderr: $(head -1 err)"
grep -qE '^\{"nodes": 1, .*"backend": "local", .*"figures": \[\{"name": "late after sleeping", "unit": "s", "value": [0-9.e-]+, "first": .*"name": "matrix products", "unit": "FLOP/s", "value": [0-9.e+]+, ' out ||
    fail "json: $(cat out)"
(($(wc -l <out) == 1)) || fail "json of $(wc -l <out) lines"

# Threads pass pointers: what sending takes the processor is not known from them.
grep -qxF "collective_cpu: 0s" cluster.yaml || fail "threads: $(grep collective_cpu cluster.yaml)"
grep -q "processor of a collective" out && fail "threads have sent bytes"

# -- ranks as processes over sockets: what sending takes the processor, which plan reads
free_port
for r in 0 1; do
    RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$weft" probe "${keys[@]}" \
        model.width=256 mesh.nodes=2 mesh.ranks_per_node=1 --seconds 1 -o sockets.yaml >"out.$r" 2>"err.$r" &
    pids[r]=$!
done
wait "${pids[0]}" || fail "over TCP: $(cat err.0)"
wait "${pids[1]}" || fail "over TCP, the other: $(cat err.1)"
pids=()
grep -qE "^processor of a collective  *[0-9.]+ ns/B  *[0-9.]+ %" out.0 || fail "no processor: $(cat out.0)"
grep -qE "^collective_cpu: [0-9.]+e-(07|08|09|10)s" sockets.yaml || fail "sockets: $(grep collective_cpu sockets.yaml)"
expect 0 "$weft" plan "${keys[@]}" --cluster sockets.yaml --framework ddp --json
told=$(python3 -c 'import json; print([c["prediction"]["mean_step_s"] for c in json.load(open("out"))["candidates"] if c["framework"] == "ddp"][-1])')
sed -i 's/^collective_cpu: .*/collective_cpu: 1us/' sockets.yaml
expect 0 "$weft" plan "${keys[@]}" --cluster sockets.yaml --framework ddp --json
python3 -c 'import json, sys; assert [c["prediction"]["mean_step_s"] for c in json.load(open("out"))["candidates"] if c["framework"] == "ddp"][-1] > float(sys.argv[1])' \
    "$told" || fail "the processor's time counts for nothing"

# -- by MPI: one table, one file
if mpirun --version 2>/dev/null | grep -q "Open MPI" && [[ -e $(dirname "$weft")/libweft_openmpi.so ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # MPI itself leaves memory behind
    expect 0 env ASAN_OPTIONS=detect_leaks=0 timeout 100 mpirun -np 2 --oversubscribe "$weft" probe "${keys[@]}" mesh.nodes=2 \
        mesh.ranks_per_node=1 --seconds 1 --quiet -o processes.yaml
    (($(grep -cE "^mesh  *2 nodes x 1 rank x 1 thread, Open MPI .* backend, " out) == 1)) ||
        fail "not one table: $(cat out)"
    grep -qE "^wire latency  *[0-9.]+ [mu]s " out || fail "no latency: $(cat out)"
    grep -qE "^backend: 'Open MPI " processes.yaml || fail "backend: $(grep backend processes.yaml)"
fi

refuses "--seconds is '0', expected a time such as 30 or 5min from 1 to 7200 s" "$weft" probe --seconds 0
refuses "unknown key 'model.witdh' (did you mean 'model.width'?)" "$weft" probe model.witdh=3
refuses "could not open missing.yaml: No such file or directory" "$weft" probe missing.yaml
refuses_like "batch.tokens_per_step is 65, expected a multiple of .*" \
    "$weft" probe "${keys[@]}" batch.tokens_per_step=65 --seconds 1
refuses "there is no folder nowhere for cluster.yaml" "$weft" probe "${keys[@]}" -o nowhere/cluster.yaml
[[ ! -e nowhere ]] || fail "made a folder"
finish
