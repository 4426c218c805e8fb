#!/bin/bash
# SPDX-License-Identifier: MIT
# mesh.kernels=exact: the same bits where CBLAS and the C library choose for another processor, and by
# another number of threads; so a replay on another machine compares bits. Vectors of other widths:
# unit_tensor/exact.
. "$2/tests/cli/helpers.sh"
empty_here
[[ $(uname -m) == @(x86_64|aarch64) ]] || {
    run "$weft" train none.txt mesh.kernels=exact
    grep -q "mesh.kernels is 'exact'" err || fail "it says $(cat err)"
    finish
}
write_sentences >text.txt
other=(env OPENBLAS_CORETYPE=Prescott GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-AVX)

# bits FOLDER KEY=VALUE...: trained with them, the numbers of the checkpoint
bits() {
    local folder=$1
    shift
    expect 0 "${machine[@]}" "$weft" train text.txt model.layers=2 model.width=64 model.heads=4 data.length=64 \
        run.steps=6 run.save_every=6 schedule.warmup=2 batch.tokens_per_step=1024 mesh.nodes=2 \
        mesh.ranks_per_node=1 mesh.kernels=exact "run.folder=$folder" "$@"
    sha256sum <"$folder/checkpoints/step-00000006/model.safetensors"
}

for keys in method=flexdemo method=muloco "model.precision=bf16"; do
    machine=()
    here=$(bits "here ${keys%=*}-${keys#*=}" "$keys" mesh.threads=1)
    machine=("${other[@]}")
    there=$(bits "there ${keys%=*}-${keys#*=}" "$keys" mesh.threads=2)
    [[ $here == "$there" ]] || fail "$keys: $here here, $there there"
done
expect 0 "${other[@]}" "$weft" train --replay "here method-flexdemo" --quiet
grep -q "^the same bits" out || fail "a replay elsewhere says $(cat out)"
finish
