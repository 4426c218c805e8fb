#!/bin/bash
# SPDX-License-Identifier: MIT
# weft bench: figures on stdout, no files.
. "$2/tests/cli/helpers.sh"

keys=(model.layers=1 model.width=32 model.heads=2 data.length=16 batch.tokens_per_step=64)
expect 0 "$weft" bench train "${keys[@]}" --steps 3 --warmup 1
for line in "speed  *[0-9]+ tokens/s .median of 3 steps" "MFU  *[0-9.]+ %" "memory  *[0-9.]+ GB" \
    "wire  *0 bytes"; do
    grep -qE "^$line" out || fail "no line '$line': $(cat out)"
done
expect 0 "$weft" bench train "${keys[@]}" --steps 3 --json mesh.nodes=2 method=flexdemo
grep -qE '^\{"tokens_per_s": [0-9.e+]+, .*"wire_bytes": [1-9][0-9]*\}$' out || fail "json: $(cat out)"

# The kernels of a step; the shares of the parts of a step are parts of it.
expect 0 "$weft" bench kernels "${keys[@]}" --steps 3 --svg roof.svg mesh.threads=1 mesh.kernels=base
for line in "model  *gpt2, [0-9]+ parameters; 4 sequences of 16 positions" \
    "machine  *1 thread, base kernels, f32: [0-9]+ GFLOP/s in registers, [0-9.]+ GB/s" \
    "step  *[0-9.]+ .?s \(.*: products [0-9.]+ %, other kernels [0-9.]+ %, the rest [0-9.]+ %" \
    "gemm \[64,32\] x \[32,96\]  *1 " "gemm \[64,32\]' x \[64,96\]  *1 " "layernorm_backward  *3 " \
    "head_loss  *1 " "adam  *1 "; do
    grep -qE "^$line" out || fail "no line '$line': $(cat out)"
done
grep -q "attention_backward" roof.svg && tail -n 1 roof.svg | grep -qx "</svg>" || fail "roofline: $(cat roof.svg)"
rm roof.svg
expect 0 "$weft" bench kernels "${keys[@]}" --steps 1 --json model.precision=bf16
python3 - out <<'END' || fail "json: $(cat out)"
import json, sys
sheet = json.load(open(sys.argv[1]))
shares = sum(k["share_of_step"] for k in sheet["of"])
assert sheet["precision"] == "bf16" and sheet["peak_flops"] > 0
assert abs(shares - sheet["kernels_share"]) < 0.01 and 0 < shares <= 1.01
END
refuses "nowhere/roof.svg can not be written: No such file or directory" \
    "$weft" bench kernels "${keys[@]}" --steps 1 --svg nowhere/roof.svg

expect 0 "$weft" bench optimizers --parameters 5000 --steps 2 mesh.threads=1 mesh.kernels=base \
    optimizer.kind=accum_adamw optimizer.accumulate=8
for line in "machine  *1 thread, base kernels, 5000 parameters" "stream  *[0-9.]+ GB/s: " \
    "adamw  *28.0 bytes per parameter,  *[0-9.]+ GB/s,  *[0-9.]+ % of the stream" \
    "accum_adamw  *29.0 bytes" "sgd  *12.0 bytes"; do
    grep -qE "^$line" out || fail "no line '$line': $(cat out)"
done
expect 0 "$weft" bench optimizers --parameters 5000 --steps 1 --json
grep -qE '^\{"threads": [0-9]+, .*"name": "accum_adam", "bytes": 30, "bandwidth_Bps": [0-9.e+]+, ' out ||
    fail "json: $(cat out)"
refuses "--parameters is '0', expected a whole number from 1 to 1099511627776" \
    "$weft" bench optimizers --parameters 0
refuses "unknown key 'optimizer.acumulate' (did you mean 'optimizer.accumulate'?)" \
    "$weft" bench optimizers optimizer.acumulate=2

small=(--parameters 5000 --steps 2 mesh.threads=1 mesh.kernels=base)
expect 0 "$weft" bench replicators "${small[@]}" --nodes 3
number="  *[0-9]+\.[0-9]+"
for line in "machine  *1 thread, base kernels, 5000 parameters, 3 nodes" \
    "copy  *[0-9.]+ GB/s \([0-9.]+ to [0-9.]+\): " \
    "demo 4/64 int8 all_gather$number \([0-9.]+ to [0-9.]+\)$number$number  *16.00($number){6}" \
    "full f32 .*  *42.6667  *42.67  *42.6667  *0.00" \
    "slicing 1/16 int8 "; do
    grep -qE "^$line" out || fail "no line '$line': $(cat out)"
done
[[ $(wc -l <out) -ge 25 ]] || fail "$(wc -l <out) lines, expected a line for each replicator"
expect 0 "$weft" bench replicators "${small[@]}" --only striding --json
grep -qE '^\{"threads": 1, .*"replicators": \[\{"name": "striding 1/16 f32", "keys": "method=striding ' out ||
    fail "json: $(cat out)"
grep -qE '"wire_bits": [0-9.]+, "bound_bits": [0-9.]+, "hidden_share": null\}\]\}$' out ||
    fail "json: $(cat out)"
expect 0 "$weft" bench replicators "${small[@]}" "${keys[@]}" --only "demo 4/64 int8" --hidden --json
[[ $(grep -oE '"hidden_share": [01]\.?[0-9]*\}' out | wc -l) == 2 ]] || fail "hidden: $(cat out)"
expect 0 "$weft" bench replicators "${small[@]}" "${keys[@]}" --only "demo 4/64 int8" --hidden
grep -qE "number  *bound  *\+ %  *hid\. %$" out || fail "hidden: $(cat out)"
refuses "no replicator that is measured has 'demos' in its name" \
    "$weft" bench replicators "${small[@]}" --only demos
refuses "--nodes is '65', expected a whole number from 1 to 64" \
    "$weft" bench replicators "${small[@]}" --nodes 65
refuses "--parameters is 'x', expected a whole number from 1 to 1099511627776" \
    "$weft" bench replicators --parameters x
refuses "unknown key 'mesh.thread' (did you mean 'mesh.threads'?)" \
    "$weft" bench replicators mesh.thread=2

refuses "--nodes belongs to bench replicators, found bench train" "$weft" bench train --nodes 2
refuses "--parameters belongs to bench optimizers or replicators, found bench kernels" \
    "$weft" bench kernels --parameters 5
refuses_like "unknown benchmark 'fast', expected train, kernels, optimizers or replicators" "$weft" bench fast
[[ -z $(ls | grep -vxE 'out|err|losses.*') ]] || fail "files: $(ls)"

finish
