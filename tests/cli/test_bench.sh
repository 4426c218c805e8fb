#!/bin/bash
# SPDX-License-Identifier: MIT
# weft bench: figures on stdout, no files.
weft=$1
. "$2/tests/cli/helpers.sh"

keys=(model.layers=1 model.width=32 model.heads=2 data.length=16 batch.tokens_per_step=64)
expect 0 "$weft" bench train "${keys[@]}" --steps 3 --warmup 1
for line in "speed  *[0-9]+ tokens/s .median of 3 steps" "MFU  *[0-9.]+ %" "memory  *[0-9.]+ GB" \
    "wire  *0 bytes"; do
    grep -qE "^$line" out || fail "no line '$line': $(cat out)"
done
expect 0 "$weft" bench train "${keys[@]}" --steps 3 --json mesh.nodes=2 method=flexdemo
grep -qE '^\{"tokens_per_s": [0-9.e+]+, .*"wire_bytes": [1-9][0-9]*\}$' out || fail "json: $(cat out)"

expect 0 "$weft" bench optimizers --parameters 5000 --steps 2 mesh.threads=2 mesh.kernels=base \
    optimizer.accumulate=8
for line in "machine  *2 threads, base kernels, 5000 parameters" "stream  *[0-9.]+ GB/s: " \
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

refuses_like "unknown benchmark 'fast', expected train or optimizers" "$weft" bench fast
[[ -z $(ls | grep -vxE 'out|err|losses.*') ]] || fail "files: $(ls)"

finish
