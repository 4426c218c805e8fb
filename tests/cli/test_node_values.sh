#!/bin/bash
# SPDX-License-Identifier: MIT
# Nodes that send in codecs of their own (replicator.node_values): one is lost, the others keep theirs,
# and the run is played again to the same bits.
. "$2/tests/cli/helpers.sh"
steps=40
. "$2/tests/cli/losing.sh"

# A run of three that loses rank $1, with replicas compared in each step; then key=value ...
mixed() {
    losing 3 1 "$1" 7 replicator.values=int8 replicator.node_values=1=int4,2=sign run.compare_every=1 "${@:2}"
    "$weft" train --replay run --quiet >out 2>err || fail "$*: $(cat err)"
    grep -q "^the same bits .*losses of [34][0-9] steps, parameters before 1 of the views, every number of checkpoint 40$" out ||
        fail "$*: it says $(cat out)"
}
mixed 0
mixed 1 replicator.exchange=sharded
mixed 2 method=topk
mixed 1 batch.shares=3,2,1 replicator.exchange=all_gather

# The route changes no bit, whatever the codecs; they change what the first node sends, and the loss.
train() { "$weft" train run.yaml mesh.nodes=3 "$@" --quiet >out 2>err || fail "$*: $(cat err)"; }
rows=replicator.node_values=0=int4,2=bf16
train run.folder=a replicator.exchange=sharded $rows
train run.folder=b replicator.exchange=all_gather $rows
train run.folder=c replicator.exchange=all_gather
train run.folder=d replicator.exchange=all_gather replicator.values=int4
train run.folder=part replicator.exchange=sharded $rows schedule.kind=constant run.steps=20
train run.folder=whole replicator.exchange=sharded $rows schedule.kind=constant
train run.folder=part replicator.exchange=sharded $rows schedule.kind=constant --resume
[ "$(losses a)" = "$(losses b)" ] || fail "by another route: $(losses a), $(losses b)"
[ "$(losses a)" != "$(losses c)" ] || fail "node_values changes nothing"
[ "$(losses part | tail -n 2)" = "$(losses whole | tail -n 2)" ] || fail "resumed: $(losses part), $(losses whole)"
sent() { grep -o '"wire_bytes_out":[0-9]*' "$1/metrics.jsonl" | tail -n 1; }
[ "$(sent b)" = "$(sent d)" ] || fail "the first node sends $(sent b), and with int4 of all $(sent d)"
[ "$(sent b)" != "$(sent c)" ] || fail "the first node sends as much as in f32"

# What is not applied is refused.
refused() {
    "$weft" train run.yaml run.folder=no mesh.nodes=3 replicator.node_values=2=int4 "$@" --quiet >out 2>err && fail "$* passes"
    grep -q "$said" err || fail "$*: it says $(cat err)"
}
said="replicator.node_values is set, but replicator.kind full does not read it, expected one of demo, topk" refused method=hsdp
said="replicator.node_values is set, but replicator.kind none does not read it" refused method=diloco
said="replicator.node_values is '2=int5', expected as in 3=int4" refused replicator.node_values=2=int5
said="replicator.node_values names node 3, expected nodes 0 to 2" refused replicator.node_values=3=int4
said="replicator.node_values is 2=int4 with mesh.sites 3, expected one site" refused mesh.sites=3 site_replicator.kind=full
said="replicator.node_values is 2=int4 with mesh.shards 1 of 2 ranks on a node" refused mesh.shards=1 mesh.ranks_per_node=2
said="replicator.node_values is set, but method auto decides it" refused method=auto
said="replicator.rounding is set, but replicator.values f32 does not read it, expected one of int8, int4" refused \
    replicator.node_values=2=bf16 replicator.rounding=stochastic
"$weft" config run.yaml mesh.nodes=3 replicator.node_values=0=bf16,2=int4 replicator.rounding=stochastic >out 2>err ||
    fail "a node that rounds: $(<err)"
finish
