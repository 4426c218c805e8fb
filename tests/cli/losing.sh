# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # weft, steps and port are set by who sources this, and helpers.sh
# Sourced by tests of runs over TCP that lose processes: a small text and run.yaml of $steps steps in
# an empty folder, and a run of which some processes are killed.
empty_here
write_sentences >text.txt
small_run "steps: $steps, eval_every: 20, save_every: 20" "compute_time: 0.01" "method: flexdemo"
lines() { grep -c '"loss"' "$1/metrics.jsonl" 2>/dev/null; }

# Ranks $1 of $2 per copy of the model, of which $copies (1) are in a node; those named in $3 are
# killed when metrics.jsonl has $4 lines; then key=value ... The others end as they must.
losing() {
    local n=$1 per_node=$2 victims=$3 after=$4 r v pids=()
    local wide=$((per_node * ${copies:-1}))
    # With machines=1 each node is a machine of its own, all of one name, and weft finds out how many
    # there are.
    local counts="mesh.nodes=$((n / wide)) mesh.ranks_per_node=$wide mesh.shards=$per_node"
    [ -z "${machines:-}" ] || counts=
    shift 4
    free_port
    rm -rf run
    for ((r = n - 1; r >= 0; r--)); do
        # shellcheck disable=SC2086 # $counts is several words
        WEFT_MACHINE=${machines:+$((r / wide))} RANK=$r WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            exec "$weft" train run.yaml run.folder=run $counts "$@" --quiet >out.$r 2>log.$r &
        pids[r]=$!
    done
    for ((i = 0; i < 3000; i++)); do
        [ "$(lines run || true)" -ge "$after" ] 2>/dev/null && break
        sleep 0.01
    done
    # With at_once none of them does anything after another one has gone.
    [ -z "${at_once:-}" ] || for v in $victims; do kill -STOP "${pids[v]}"; done
    for v in $victims; do kill -9 "${pids[v]}" || fail "$*: rank $v had ended before it was killed"; done
    (
        sleep 60
        kill -9 "${pids[@]}"
    ) >/dev/null 2>&1 & # its sleep lives on, and must not hold the test's output open
    local watchdog=$!
    for ((r = 0; r < n; r++)); do
        wait "${pids[r]}" 2>/dev/null
        local code=$?
        case " $victims " in
            *" $r "*) [ $code = 137 ] || fail "$*: rank $r was killed and ended with $code" ;;
            *" $((r / per_node * per_node)) "* | *" $((r / per_node * per_node + per_node - 1)) "*)
                [ $code = 1 ] || fail "$*: rank $r has lost a part of its model and ended with $code" ;;
            *) [ $code = 0 ] || fail "$* after $after: rank $r ended with $code: $(cat log.*)" ;;
        esac
    done
    kill "$watchdog" 2>/dev/null
    wait "$watchdog" 2>/dev/null
}
