#!/bin/bash
# SPDX-License-Identifier: MIT
# Nodes with different parts of each step (batch.shares): one is lost, the others keep theirs, each row
# is taken once, and the run is played again to the same bits.
. "$2/tests/cli/helpers.sh"
steps=40
. "$2/tests/cli/losing.sh"

# A run of $1 ranks, $2 per node, that loses those named in $3; its views have the sequences $4, of all
# and of those that are left; then key=value ...
shares() {
    losing "$1" "$2" "$3" 7 "${@:5}"
    python3 - "$4" <<'P' || fail "$*: $(cat run/views.jsonl)"
import json, sys
lines = [json.loads(line) for line in open('run/views.jsonl')]
views = [v for v in lines if 'members' in v]
assert [v['rows'] for v in views] == json.loads(sys.argv[1]), views
then, now = views
assert now['first_row'] == (now['step'] - 1) * sum(then['rows'])
gone = {place for place, host, why in now['lost']}
rows = {place: n for (place, _, _), n in zip(then['members'], then['rows'])}
for s in lines:
    if 'skipped' in s:
        assert s['rows_skipped'] + s['rows_in_part'] <= sum(rows[p] for p in gone), s
P
    "$weft" train --replay run --quiet >out 2>err || fail "$*: $(cat err)"
    grep -q "^the same bits .*losses of [34][0-9] steps, parameters before 1 of the views, every number of checkpoint 40$" out ||
        fail "$*: it says $(cat out)"
}
shares 3 1 1 "[[12, 8, 4], [12, 4]]" batch.shares=3,2,1
shares 3 1 0 "[[12, 8, 4], [8, 4]]" batch.shares=3,2,1 method=hsdp batch.micro=5
shares 3 1 0 "[[14, 7, 3], [17, 7]]" batch.shares=4,2,1 method=hsdp elastic.batch=keep
shares 4 2 3 "[[9, 9, 3, 3], [9, 9]]" batch.shares=3,1
shares 3 1 2 "[[12, 8, 4], [12, 8]]" batch.shares=3,2,1 method=diloco mixer.outer_every=5
shares 3 1 1 "[[12, 8, 4], [12, 4]]" batch.shares=3,2,1 method=dadam
shares 3 1 1 "[[12, 8, 4], [12, 4]]" batch.shares=3,2,1 method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5

# A run that is stopped and resumed goes on with its rows.
train_to() { "$weft" train run.yaml mesh.nodes=2 method=hsdp batch.shares=2,1 "$@" --quiet >out 2>err || fail "$*: $(cat err)"; }
train_to run.folder=whole
train_to run.folder=part schedule.kind=constant run.steps=20
train_to run.folder=again schedule.kind=constant
train_to run.folder=part schedule.kind=constant --resume
loss_of() { grep -o '"step":40,.*"loss":[0-9.e-]*' "$1/metrics.jsonl" | grep -o 'loss":.*'; }
[ -n "$(loss_of again)" ] && [ "$(loss_of again)" = "$(loss_of part)" ] || fail "resumed: $(loss_of again), $(loss_of part)"

# What is not applied is refused.
refused() {
    "$weft" train run.yaml run.folder=no mesh.nodes=2 "$@" --quiet >out 2>err && fail "$* passes"
    grep -q "batch.shares is $said" err || fail "$*: it says $(cat err)"
}
said="'3', expected equal, speed, steps, or a whole number from 1 to 1000000 for each of the 2 nodes" refused batch.shares=3
said="'3,1,1', expected" refused batch.shares=3,1,1
said="'3,0', expected" refused batch.shares=3,0
said="'3;1', expected" refused "batch.shares=3;1"
said="3,1 with replicator.kind signsgd, which gives each node one vote" refused batch.shares=3,1 method=signsgd
said="not equal with mixer.topology push of 3 nodes" refused batch.shares=3,1,1 mesh.nodes=3 method=dadam mixer.topology=push
said="not equal with mixer.topology exponential of 4 nodes, in which one hears another that does not hear it when nodes are lost" \
    refused batch.shares=3,1,1,1 mesh.nodes=4 method=dadam mixer.topology=exponential
said="3,1 with mesh.sites 2, expected one site" refused batch.shares=3,1 mesh.sites=2 site_replicator.kind=full method=hsdp
said="3,1" refused batch.shares=3,1 batch.tokens_per_step=800 mesh.ranks_per_node=2
finish
