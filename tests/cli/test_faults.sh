#!/bin/bash
# SPDX-License-Identifier: MIT
# A machine that computes wrongly (tests/brutal/faulty_machine.c) does not stop the others: a gradient,
# a loss or a parameter that is wrong on one of them is sent by nobody, the others name it and go on,
# and it comes in again with their parameters.
. "$2/tests/cli/helpers.sh"
weft=$FAULTY
. "$2/tests/cli/comings.sh"
host=$(hostname)
export WEFT_FAULTY=
keys=(mesh.min_message=1kB run.steps=3000) # half a minute, in which all of it has happened

# Founders $2 of $1 as begin makes them; those in $3 have the fault $4; then key=value ...
begin_faulty() {
    local n=$1 faulty=$3 fault=$4 r
    what="$2: $4"
    shift 4
    free_port
    rm -rf run out.* log.* && pids=()
    for ((r = n - 1; r >= 0; r--)); do
        case " $faulty " in
            *" $r "*) WEFT_FAULTY=$fault founder "$r" "$n" "${keys[@]}" "$@" ;;
            *) founder "$r" "$n" "${keys[@]}" "$@" ;;
        esac
    done
}

at="at step 17 \(learning rate [0-9.e-]+\): bucket [0-9]+, [a-z0-9_.]+"

# Rank $1's log names rank $2 with the sentence $3, and says that it is back.
names() {
    await says "joined by" "log.$1" || fail "$what: rank $2 is not back: $(tail -n 4 log.*)"
    grep -qE "lost rank $2 \(host $host\): $3; [0-9] nodes? go(es)? on" "log.$1" ||
        fail "$what: rank $1 says $(grep lost "log.$1")"
    says "this process joins the run again in 1 s (time 1 of 10)" "log.$2" || fail "$what: $(cat "log.$2")"
}

# After $1 more lines all end, no loss is null, and the run replays.
ends_well() {
    local before first=$2
    before=$(lines)
    await has_lines $((before + $1)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[first]}" "${pids[@]}"
    grep -q '"loss": *null' run/metrics.jsonl && fail "$what: a loss is null"
    "$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat out err)"
}

# --- one of three, one of two (which leads), with every way of exchange ---
begin_faulty 3 flexdemo 1 "gradient 17"
names 0 1 "the gradient is not finite $at"
ends_well 5 0
begin_faulty 2 hsdp 0 "loss 17" method=hsdp
names 1 0 "the loss is not finite $at"
ends_well 5 1
begin_faulty 3 dadam 2 "gradient 17" method=dadam
names 0 2 "the gradient is not finite $at"
ends_well 12 0
per_node=2 begin_faulty 4 "two ranks to a copy" 3 "gradient 17" method=hsdp
await says "joined by" log.0 || fail "$what: it is not back: $(tail -n 4 log.*)"
grep -qE "lost rank [23] \(host $host\): the gradient is not finite $at" log.0 || fail "$what: $(cat log.0)"
stop "${pids[0]}" "${pids[@]}"

# --- one whose parameters differ: the one that most do not have, of two the higher rank ---
same='\(of two: of the lower\): are binary and mesh.kernels the same\?'
begin_faulty 3 "the first of three" 0 "parameters 17"
names 1 0 "after step 17 unit [a-z0-9_. ]+ of replica 0 is not bit for bit that of most replicas $same"
stop "${pids[1]}" "${pids[@]}"
begin_faulty 2 "the second of two" 1 "parameters 17"
names 0 1 "after step 17 unit [a-z0-9_. ]+ of replica 1 is not bit for bit that of most replicas $same"
stop "${pids[0]}" "${pids[@]}"

# --- one that is wrong whenever it is back: elastic.faults times ---
begin_faulty 2 "again and again" 1 "gradient 17-" elastic.faults=2
wait "${pids[1]}" && fail "$what: it ended with 0"
grep -qE "^weft: the run at .* can not be joined: what this machine computed was not finite, or not that of \
the others, elastic.faults times" log.1 || fail "$what: rank 1 says $(cat log.1)"
says "(time 2 of 10)" log.1 || fail "$what: it was not taken in once: $(cat log.1)"
says "(time 3 of 10)" log.1 && fail "$what: it was taken in twice: $(cat log.1)"
(($(grep -c "lost rank" log.0) == 2)) || fail "$what: rank 0 says $(cat log.0)"
grep -qE "lost rank [0-9]+ \(host $host\): the gradient .*; it is not taken in again; 1 node goes on" log.0 ||
    fail "$what: rank 0 does not say so: $(cat log.0)"
before=$(lines)
await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
unset 'pids[1]'
stop "${pids[0]}" "${pids[@]}"

# --- all of them: the loss has diverged ---
for size in 2 3; do
    begin_faulty $size "all of $size" "0 1 2" "loss 17"
    for p in "${pids[@]}"; do wait "$p" && fail "$what: it ended with 0"; done
    for ((r = 0; r < size; r++)); do
        grep -qE "^weft: rank $r \(host $host\): the loss is not finite $at" "log.$r" ||
            fail "$what: rank $r says $(cat "log.$r")"
    done
    pids=()
done

# --- where a lost process ends the run, all name it ---
begin_faulty 3 "end" 1 "gradient 17" mesh.on_loss=end
for p in "${pids[@]}"; do wait "$p" && fail "$what: it ended with 0"; done
pids=()
grep -qE "rank 1 \(host $host\): the gradient is not finite $at; the last checkpoint is as it was" log.0 ||
    fail "$what: rank 0 says $(cat log.0)"
rm -rf run
WEFT_FAULTY="gradient 17" expect 1 "$weft" train run.yaml run.folder=run mesh.nodes=2 "${keys[@]}" --quiet
grep -qE "^weft: rank [01]: the gradient is not finite $at; the last checkpoint is as it was" err ||
    fail "threads: $(cat err)"
finish
