# SPDX-License-Identifier: MIT
# A rank that dies or stands still: the others leave soon, one of them says which it was and
# where, and the newest checkpoint is whole.
. "$(dirname "$0")/helpers.sh"
make_text
cat >run.yaml <<'Y'
data: {path: [text.txt], length: 16}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: 192}
run: {steps: 1000000, eval_every: 0, save_every: 10, keep: 2, tensorboard: false}
mesh: {threads: 1, nodes: 3, timeout: 3}
method: flexdemo
Y
# MPICH's launcher kills everybody itself within milliseconds when a process dies: who it was
# is for the launcher to say then.
speaks() { [ "$mpi" != mpich ] || [ "$1" != KILL ]; }
victim() { # the process of this rank in the run of this folder
    local p
    for p in /proc/[0-9]*; do
        { tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null | grep -q "^$weft train.*run.folder=$1 " || continue
        { tr '\0' '\n' <"$p/environ"; } 2>/dev/null |
            grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$2\$" && basename "$p"
    done
}
strike() { # name, rank, signal, expected sentence
    local job pid i begun
    launch 3 "$weft" train run.yaml --quiet "run.folder=$1" >"$1.log" 2>&1 &
    job=$!
    for ((i = 0; i < 300; i++)); do
        ls "$1"/checkpoints/step-*[0-9] >/dev/null 2>&1 && break
        sleep 0.1
    done
    pid=$(victim "$1" "$2" | head -1)
    [ -n "$pid" ] || { fail "$1: no process of rank $2"; kill $job; wait $job; return; }
    begun=$SECONDS
    kill "-$3" "$pid"
    wait $job && fail "$1: success was reported"
    [ $((SECONDS - begun)) -le 30 ] || fail "$1: took $((SECONDS - begun)) s to leave"
    kill -KILL "$pid" 2>/dev/null
    if speaks "$3"; then
        [ "$(grep -c '^weft: ' "$1.log")" = 1 ] || fail "$1: not one sentence: $(cat "$1.log")"
        grep -qE -- "$4" "$1.log" || fail "$1: expected '$4', found $(cat "$1.log")"
    fi
    [ -z "$(victim "$1" 0)$(victim "$1" 1)$(victim "$1" 2)" ] || fail "$1: ranks are left"
    timeout 60 "$weft" train "$1/config.yaml" --resume --quiet run.steps="$(steps "$1")" \
        >resume.log 2>&1 || fail "$1: does not resume: $(cat resume.log)"
}
steps() { # two steps more than the newest checkpoint
    local newest
    newest=$(ls "$1/checkpoints" | grep -E '^step-[0-9]+$' | tail -1)
    echo $((10#${newest#step-} + 2))
}
strike killed 1 KILL "rank 1 \(host [^ ]+, process [0-9]+\) has died; it was last (at|getting)"
strike first 0 KILL "rank 0 \(host [^ ]+, process [0-9]+\) has died; it was last (at|getting)"
strike stopped 2 STOP "rank 2 \(host [^ ]+\) has given no sign of life for [0-9.]+ s: .* it was last at"
finish
