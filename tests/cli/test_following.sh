#!/bin/bash
# SPDX-License-Identifier: MIT
# method=auto over a wire that becomes slow, and fast again: what crosses it changes on all processes
# before the same step, and the run is played again to the same bits, stopped and resumed. Needs to be
# root, for the test network; without that it is skipped (77).
weft=$1
# shellcheck source=tests/cli/helpers.sh
. "$2/tests/cli/helpers.sh"
empty_here
export NETLAB=f$$x
netlab=$2/bench/netlab/netlab
pids=()
stop_all() {
    kill -9 "${pids[@]}" 2>/dev/null
    "$netlab" down 2>/dev/null
}
trap stop_all EXIT
"$netlab" up 2 --rate 1gbit >/dev/null 2>why || {
    echo "skipped: $(head -1 why)" >&2
    exit 77
}
write_sentences >text.txt
free_port

# carries RATE BURST: the wire from now on.
carries() {
    local i
    for i in 0 1; do
        tc -n "$NETLAB$i" qdisc change dev eth0 root tbf rate "$1" burst "$2" latency 50ms &&
            tc -n "$NETLAB-switch" qdisc change dev "port$i" root tbf rate "$1" burst "$2" latency 50ms ||
            fail "the wire stays as it is"
    done
}
# begin FOLDER key=value...: two processes.
begin() {
    local r folder=$1
    shift
    for r in 1 0; do
        RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=$port "$netlab" on "$NETLAB$r" \
            "$weft" train text.txt model.layers=2 model.width=64 model.heads=2 data.length=32 mesh.threads=1 \
            batch.tokens_per_step=512 schedule.warmup=10 schedule.kind=constant mesh.encrypt=off mesh.nodes=2 mesh.ranks_per_node=1 \
            run.log_every=1 run.tensorboard=false run.compare_every=100 method=auto decide.time=1 \
            decide.alone=together "run.folder=$folder" "$@" >"out.$r" 2>"err.$r" &
        pids[r]=$!
    done
}
# shows FOLDER WORDS: waits until its views have a form like that.
shows() {
    local i
    for ((i = 0; i < 1800; i++)); do
        grep -q "\"form\":\"$2" "$1/views.jsonl" 2>/dev/null && return
        kill -0 "${pids[0]}" 2>/dev/null || break
        sleep 0.1
    done
    fail "no form $2: $(cat "$1/views.jsonl" err.0)"
}
# reaches FOLDER STEP
reaches() {
    local i
    for ((i = 0; i < 1800; i++)); do
        grep -q "\"step\":$2," "$1/metrics.jsonl" 2>/dev/null && return
        sleep 0.1
    done
    fail "step $2 is not reached: $(cat err.0)"
}
ends() {
    local r
    for r in 0 1; do wait "${pids[r]}" || fail "rank $r ended with $?: $(cat err.$r)"; done
}

# -- it begins with all gradients, whatever this machine's other choices are
begin run run.steps=10 decide.keep=exact
ends
grep -q '"form"' run/views.jsonl && fail "decide.keep=exact changes: $(cat run/views.jsonl)"
sed -i 's/"keep": *"exact"/"keep":"optimizer"/' run/decision.json

begin run run.steps=700 --resume
shows run "full f32"
reaches run 30
carries 10mbit 2000
shows run outer
grep -q 'weft: from step [0-9]* on diloco H=[0-9]* instead of full sync: a step takes .*, .* were expected, as on a wire of .*; now .* a step are, and the rest of the run .* times as fast (.* to .*)' err.0 ||
    fail "it is not said: $(cat err.0)"
carries 1gbit 80000
ends
grep -q '"lost":\[\[' run/views.jsonl && fail "a process is lost: $(cat run/views.jsonl)"
expect 0 "$weft" train --replay run --quiet
grep -q "^the same bits .*losses of 700 steps, .*every number of checkpoint 700$" out || fail "it says $(cat out)"

# -- goes on in the form that its checkpoint has
last=$(grep -o '"form":"[^"]*"' run/views.jsonl | tail -1)
begin run run.steps=720 --resume
ends
[[ $(tail -1 run/views.jsonl | grep -o '"form":"[^"]*"') == "$last" ]] || fail "resumed as $(tail -1 run/views.jsonl), not $last"

# -- a form that is none
sed -i '0,/"form":"[^"]*"/s//"form":"half f32"/' run/views.jsonl
run "$weft" train --replay run --quiet
grep -q "views.jsonl: the view of step 11 has the form 'half f32', expected such as 'full f32' or 'outer f32 50 0.4'" err ||
    fail "it says $(cat err)"
finish
