#!/bin/bash
# SPDX-License-Identifier: MIT
# The k-th allocation of a command fails: the command ends well, or with one sentence and nothing
# held; it never crashes or hangs. (Nothing is said of the sentence: the JSON library loses bytes of
# a text without a word when a buffer of its own cannot grow.) Some k of each command here, evenly
# spread; all of them, which takes an hour:
#     WEFT_TEST_STRIDE=1 bash tests/cli/test_memory.sh build/dev/weft .
. "$2/tests/cli/helpers.sh"
empty_here
shim=$(dirname "$weft")/tests/failing_allocator.so
[[ -e $shim ]] || skip "there is no $shim, which makes allocations fail"
ways=16 # places of each command
if nm "$weft" 2>/dev/null | grep -q __asan_; then # slow, and looks for what is left behind
    ways=6
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
fi
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
some_text >text.txt
small=(model.layers=1 model.width=16 model.heads=2 data.length=16 batch.tokens_per_step=64
    run.steps=2 schedule.warmup=1 run.eval_tokens=64 run.tensorboard=false mesh.threads=1)

# with LIMITS COMMAND..: the command with these variables and the failing allocator.
with() {
    local limits=$1
    shift
    # shellcheck disable=SC2086
    run timeout --signal=KILL 120 env $limits LD_PRELOAD="$shim" "$@"
}

# survives NAME COMMAND..: what the command changes is in the folder `run`, put back each time
# from the folder NAME.before.
survives() {
    local name=$1 n k stride
    shift
    before "$name"
    with "WEFT_TEST_COUNT=$PWD/count" "$@"
    [[ $code == 0 ]] || fail "$name with all memory: exit code $code, $(head -1 err)"
    n=$(<count)
    ((n > 50)) || fail "$name: $n allocations were counted"
    stride=${WEFT_TEST_STRIDE:-$((n / ways))}
    for ((k = 1 + stride / 2; k <= n; k += stride)); do
        before "$name"
        with WEFT_TEST_FAIL_AT=$k "$@"
        ((code == 0)) && continue
        ((code <= 2)) || fail "$name, allocation $k: exit code $code, $(tail -3 err)"
        tail -1 err | grep -q '^weft: ' || fail "$name, allocation $k: $(tail -1 err)"
    done
}
before() {
    rm -rf run out.html
    [[ ! -d $1.before ]] || cp -r "$1.before" run
}

run_keys=("${small[@]}" mesh.nodes=2 method=flexdemo run.save_every=1)
expect 0 "$weft" train text.txt "${run_keys[@]}" run.folder=eval.before --quiet
cp -r eval.before sample.before
cp -r eval.before report.before
survives train "$weft" train text.txt "${run_keys[@]}" run.folder=run --quiet
survives eval "$weft" eval run
survives sample "$weft" sample run --prompt "the cat" --tokens 3
survives report "$weft" report run -o out.html
survives plan "$weft" plan "${small[@]}" data.path=text.txt --nodes 2 --link 100Mbit,1ms \
    --node-flops 1G --top 3

# Too few addresses: a sentence, in place of a wait without end in the matrix library.
if ((ways == 16)); then
    for kib in 150000 250000 300000 350000 450000 600000; do
        rm -rf run
        run bash -c 'ulimit -v "$1" && shift && exec timeout --signal=KILL 60 "$@"' few "$kib" \
            "$weft" train text.txt "${run_keys[@]}" run.folder=run --quiet
        ((code <= 2)) || fail "train in $kib kB of addresses: exit code $code, $(tail -1 err)"
        ((code == 0)) || grep -q 'ulimit -v' err || fail "in $kib kB: $(tail -1 err)"
    done
fi

finish
