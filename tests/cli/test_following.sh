#!/bin/bash
# SPDX-License-Identifier: MIT
# method=auto over a wire that becomes slow, and fast again: what crosses it changes on all processes
# before the same step, and back; the run is played again to the same bits, and resumed. Computing is
# emulated, so that what is gained does not depend on the cores of this machine. Needs to be root, for
# the test network; without that it is skipped (77).
. "$2/tests/cli/helpers.sh"
empty_here
export NETLAB=f$$x N=4
netlab=$2/bench/netlab/netlab
pids=()
stop_all() {
    kill -9 "${pids[@]}" 2>/dev/null
    "$netlab" down 2>/dev/null
}
trap stop_all EXIT
"$netlab" up $N --rate 10gbit >/dev/null 2>why || skip "$(head -1 why)"
write_sentences >text.txt
free_port

# carries RATE BURST: the wire from now on.
carries() {
    local i
    for ((i = 0; i < N; i++)); do
        tc -n "$NETLAB$i" qdisc change dev eth0 root tbf rate "$1" burst "$2" latency 50ms &&
            tc -n "$NETLAB-switch" qdisc change dev "port$i" root tbf rate "$1" burst "$2" latency 50ms ||
            fail "the wire stays as it is"
    done
}
# begin FOLDER key=value...: all processes.
begin() {
    local r folder=$1
    shift
    for ((r = N - 1; r >= 0; r--)); do
        RANK=$r WORLD_SIZE=$N MASTER_ADDR=10.77.0.1 MASTER_PORT=$port "$netlab" on "$NETLAB$r" \
            "$weft" train text.txt model.layers=2 model.width=64 model.heads=2 data.length=32 mesh.threads=1 \
            batch.tokens_per_step=512 schedule.warmup=10 schedule.kind=constant mesh.encrypt=off mesh.nodes=$N mesh.ranks_per_node=1 mesh.compute_time=0.05 \
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
        kill -0 "${pids[1]}" 2>/dev/null || break
        sleep 0.1
    done
    fail "no form $2: $(cat "$1/views.jsonl" err.0 err.1)"
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
    for ((r = 0; r < N; r++)); do wait "${pids[r]}" || fail "rank $r ended with $?: $(cat err.$r)"; done
}

# -- bursts that a shaper lets through are not its rate
carries 100mbit 4mb
begin bursts run.steps=1 decide.keep=exact
ends
grep -qE ' on a wire of ([0-9]{2}|1[0-2][0-9])(\.[0-9]+)? Mbit/s' err.0 || fail "the rate is not 100 Mbit/s: $(grep -o 'on a wire of [^;]*' err.0)"
carries 10gbit 800000

# -- it begins with all gradients, whatever this machine's other choices are
begin run run.steps=10 decide.keep=exact
ends
grep -q '"form"' run/views.jsonl && fail "decide.keep=exact changes: $(cat run/views.jsonl)"
sed -i 's/"keep": *"exact"/"keep":"optimizer"/' run/decision.json
# a wire of many machines in one is not measured well: without what several senders at once cost there
sed -i -E 's/(residual|incast): [0-9.e+-]+/\1: 0/g' run/cluster.yaml

cp -r run late

begin run run.steps=800 --resume
shows run "full f32"
reaches run 30
carries 10mbit 2000
shows run outer
at=$(tail -1 run/views.jsonl | grep -o '"step":[0-9]*')
grep -q 'weft: from step [0-9]* on diloco H=[0-9]* instead of full sync[^:]*: a step takes .*, .* were expected, as on a wire of .*; now .* a step are expected, and the rest of the run .* times as fast (.* to .*)' err.0 ||
    fail "it is not said: $(cat err.0)"
reaches run $((${at#*:} + 200)) # what is usual with outer steps is known
carries 10gbit 800000
ends
# with all gradients, or at least five times as often: where ranks wait for each other, all costs a little
grep -Eq '"form":"(full f32|outer f32 10 [0-9.]+)","name":"(full sync|diloco H=10)","why":"from step .* on (full sync|diloco H=10) instead of diloco H=50.*"expected":\[' run/views.jsonl ||
    fail "it does not come back: $(cat run/views.jsonl)"
grep -q '"lost":\[\[' run/views.jsonl && fail "a process is lost: $(cat run/views.jsonl)"
expect 0 "$weft" train --replay run --quiet
grep -q "^the same bits .*losses of 800 steps, .*every number of checkpoint 800$" out || fail "it says $(cat out)"

# -- seen: what crossed the wire in each step, why, and what it was expected to gain
for from in "full sync[^:]*" "diloco H=50"; do
    grep -q '"gain":[0-9.]*,"why":"from step .* instead of '"$from"':' run/metrics.jsonl || fail "no reason to leave $from"
done
[[ $(grep -c '"form":"' run/metrics.jsonl) -ge 790 ]] || fail "lines without a form"
expect 0 "$weft" plan run
[[ $(grep -c '^from step .* instead of .* were expected, .*; measured since then: .* a step, .* of what it was$' out) -ge 2 ]] ||
    fail "plan RUN: $(cat out)"
expect 0 "$weft" watch --text --once run
grep -qE '4 ranks since step [0-9]+: (full sync|diloco H=10), [0-9.]+ times as fast expected; ' out || fail "watch: $(cat out)"
expect 0 "$weft" report run
grep -q '"name":"diloco H=[0-9]*","why":"from step .* instead of .*","expected":\[' run/report.html || fail "the report has no reason"

# -- goes on in the form that its checkpoint has
last=$(grep -o '"form":"[^"]*"' run/views.jsonl | tail -1)
begin run run.steps=820 --resume
ends
[[ $(tail -1 run/views.jsonl | grep -o '"form":"[^"]*"') == "$last" ]] || fail "resumed as $(tail -1 run/views.jsonl), not $last"

# -- the first dies, and who takes its place plans from its own steps: nothing that was measured is left
begin late run.steps=100000 --resume
reaches late 30
rm late/cluster.yaml
kill -9 "${pids[0]}"
reaches late 80
carries 10mbit 2000
shows late outer
grep -q '"form":"outer.*"why":"from step [0-9]* on diloco H=[0-9]* instead of full sync[^:]*: a step takes .*, as on a wire of ' late/views.jsonl ||
    fail "it is not said: $(cat late/views.jsonl)"
kill -9 "${pids[@]:1}"

# -- a form that is none
sed -i '0,/"form":"[^"]*"/s//"form":"half f32"/' run/views.jsonl
run "$weft" train --replay run --quiet
grep -q "views.jsonl: the view of step 11 has the form 'half f32', expected such as 'full f32' or 'outer f32 50 0.4'" err ||
    fail "it says $(cat err)"
finish
