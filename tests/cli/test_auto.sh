#!/bin/bash
# SPDX-License-Identifier: MIT
# method=auto: the wire decides, all processes take the same, and the run's folder says why.
. "$2/tests/cli/helpers.sh"
empty_here
write_sentences >text.txt
keys=(text.txt model.layers=2 model.width=64 model.heads=2 data.length=32 mesh.threads=1
    batch.tokens_per_step=512 run.steps=200 schedule.warmup=10 decide.time=1 decide.alone=together)
auto=("$weft" train "${keys[@]}" method=auto)

# taken FOLDER: the keys that were decided there.
taken() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/decision.json"))["settings"])' "$1"; }

# -- two wires: what sends a thousandth, and what sends all
expect 0 "${auto[@]}" --nodes 2 --link 3Mbit,5ms run.folder=slow
grep -qE '^method=auto takes [a-z0-9 -]+: [0-9.]+ m?s a step, [0-9.]+ times as fast as one process.* on a wire of [23](\.[0-9]+)? Mbit/s and .*; next .* \(.* a step, .* times\) and ' err ||
    fail "no sentence: $(cat err)"
grep -q '^plan  *[0-9.]* m*s per step predicted, [0-9.]* m*s measured' out || fail "not compared: $(cat out)"
[[ -s slow/plan.json && -s slow/cluster.yaml ]] || fail "no plan.json or cluster.yaml"
expect 0 "${auto[@]}" --nodes 2 --link 20Gbit,20us run.folder=fast
[[ $(taken slow) != "$(taken fast)" ]] || fail "both wires: $(taken slow)"
for run in slow fast; do
    method=$(taken $run | grep -oE 'method=[a-z-]+' || echo method=hsdp)
    grep -qx "method: ${method#method=}" $run/config.yaml || fail "$run: $(head -3 $run/config.yaml)"
    grep -q '"step":200,' $run/metrics.jsonl || fail "$run is not at its end"
done

# -- afterwards
expect 0 "$weft" plan slow
grep -q "^method=auto takes " out || fail "plan RUN: $(cat out)"
grep -qE '^\* [a-z0-9 -]+  *2 ' out || fail "no choice in the table: $(cat out)"
grep -q "left out: .* the run keeps optimizer.kind=adamw" out || fail "what was left out: $(cat out)"
expect 0 "$weft" verify slow

# -- goes on as decided; on other nodes it is decided again, among what its state can go on with
expect 0 "${auto[@]}" --nodes 2 --link 3Mbit,5ms run.folder=slow --resume run.steps=210
grep -q "measures" err && fail "measured again: $(cat err)"
grep -q "^method=auto takes " err || fail "does not say what it goes on with: $(cat err)"
expect 0 "${auto[@]}" --nodes 4 --link 3Mbit,5ms run.folder=slow --resume run.steps=220
grep -q "^method=auto was decided for 2 nodes x 1 and decide.keep=optimizer; now there are 4 x 1 and optimizer: it is decided again$" err ||
    fail "on four nodes: $(cat err)"
taken slow | grep -q "^mesh.nodes=4 " || fail "four nodes: $(taken slow)"
expect 0 "${auto[@]}" run.folder=slow --resume run.steps=225
grep -q "now there are 1 x 1 and optimizer: the method stays$" err || fail "on one node: $(cat err)"

# -- bounds and refusals
expect 0 "${auto[@]}" --nodes 2 --link 100Mbit,1ms run.folder=exact decide.keep=exact run.steps=20 run.audit=true
grep -qx "method: hsdp" exact/config.yaml || fail "exact: $(taken exact)"
expect 0 "$weft" audit exact
expect 2 "${auto[@]}" --nodes 2 --link 1Mbit,5ms run.folder=alone decide.keep=exact decide.alone=end
grep -qxE "weft: one process alone is expected to be faster: of all on 2 nodes the best is full sync, .* times as fast; start one process, or set decide.alone=together" err ||
    fail "alone: $(cat err)"
[[ -e alone/metrics.jsonl ]] && fail "a run that ended has steps"
expect 0 "$weft" plan alone
grep -q "^one process alone" out || fail "plan of what ended: $(cat out)"
expect 0 "${auto[@]}" run.folder=one run.steps=5
grep -qxF "method=auto: one node, where nothing crosses a wire: adamw by itself" err || fail "one: $(cat err)"
refuses "mixer.kind is set, but method auto decides it: leave it out, or name a method" \
    "${auto[@]}" mixer.kind=gossip
refuses "optimizer.lr is set, but method auto decides it with decide.keep any: leave it out" \
    "${auto[@]}" optimizer.lr=1e-3 decide.keep=any
refuses "mesh.straggler_time is set, but method auto measures computing as it is, expected 0" \
    "${auto[@]}" mesh.straggler_time=0.1
refuses "batch.shares is set, but method auto plans equal parts, expected equal" \
    "${auto[@]}" --nodes 2 batch.shares=3,1
refuses "decide.alone is set, but method diloco does not read it, expected auto" \
    "$weft" train "${keys[@]}" method=diloco --nodes 2
refuses "--plan facts.yaml has facts, and method=auto measures its own, with which the run is compared: expected one of them" \
    "${auto[@]}" --nodes 2 --plan facts.yaml
refuses "method is auto, which weft train decides when it has measured; expected a method's name here" \
    "$weft" simulate "${keys[@]:1}" method=auto --nodes 2 --link 1Gbit,1ms --node-flops 10G
echo '{"version": 2}' >fast/decision.json
refuses "fast/decision.json is not the decision of a run with method=auto, version 1" "$weft" plan fast
refuses "fast/decision.json is not the decision of a run with method=auto, version 1" \
    "${auto[@]}" --nodes 2 run.folder=fast --resume run.steps=210

# -- processes: the first decides, and the second trains the same
free_port
for r in 0 1; do
    RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${auto[@]}" mesh.nodes=2 \
        mesh.ranks_per_node=1 run.steps=20 run.folder=tcp >"out.$r" 2>"err.$r" &
    pids[r]=$!
done
wait "${pids[0]}" || fail "over TCP: $(cat err.0)"
wait "${pids[1]}" || fail "over TCP, the other: $(cat err.1)"
grep -q "^method=auto takes " err.0 || fail "over TCP: $(cat err.0)"
grep -q '"step":20,' tcp/metrics.jsonl || fail "over TCP: not at its end"

((failures == 0))
