#!/bin/bash
# SPDX-License-Identifier: MIT
# weft bench train: figures on stdout, no files.
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
refuses_like "unknown benchmark 'fast', expected train" "$weft" bench fast
[[ -z $(ls | grep -vxE 'out|err|losses.*') ]] || fail "files: $(ls)"

finish
