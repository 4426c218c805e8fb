#!/bin/bash
# SPDX-License-Identifier: MIT
# A process is killed while a run trains over TCP: the others go on to the end, with equal
# models. When it is killed is said as a number of lines of metrics.jsonl.
. "$2/tests/cli/helpers.sh"
steps=60
. "$2/tests/cli/losing.sh"

# As losing; and the run goes on to its last step.
lost() {
    losing "$@"
    [ -f run/checkpoints/step-00000060/model.safetensors ] || fail "$*: no last checkpoint"
    grep -q '"step":60,.*"loss"' run/metrics.jsonl || fail "$*: no line of the last step"
}

lost 3 1 2 7
grep -q "^weft: lost rank 2" log.0 || fail "--quiet hides that a process was lost: $(cat log.0)"
grep -q "^validation loss" out.0 || fail "rank 0 says $(cat out.0)"
lost 3 1 0 19                                # who writes the run folder
grep -q "^validation loss" out.1 || fail "rank 1 says $(cat out.1)"
lost 3 1 1 20 replicator.exchange=all_gather # about when all evaluate and save
lost 3 1 1 33 replicator.exchange=sharded
lost 3 1 2 40 method=hsdp
lost 2 1 0 11 method=hsdp
lost 4 1 "1 3" 15 method=random              # two at once
lost 4 1 "0 1 2" 15 method=topk              # all but one
lost 4 2 3 15                                # with half of a node its other half ends
lost 4 2 0 15 method=hsdp
lost 4 2 2 15 method=random
lost 6 2 "0 5" 17 method=diloco mixer.outer_every=5 # of two nodes, of three
lost 4 2 1 15 method=dadam
# Messages that are taken in a step after they were sent.
lost 3 1 1 15 method=async-demo run.compare_every=8 run.eval_every=0
lost 4 2 0 21 method=async-demo run.compare_every=8 run.eval_every=0
# Machines of one name are as many nodes: of two one may be lost.
machines=1 lost 2 1 1 15
machines=1 lost 4 2 3 15 method=hsdp
# Several copies of the model in a node: one is lost, the other one goes on.
copies=2 lost 4 1 1 15 method=hsdp
copies=2 lost 8 2 3 15
# Who is lost is late for ever.
lost 3 1 1 15 method=dadam mixer.deadline=0.05
# Replicas that differ: what a lost neighbour has not sent is done without.
lost 3 1 1 9 method=dadam
grep -q "^validation loss" out.0 || fail "dadam: rank 0 says $(cat out.0)"
lost 4 1 0 20 method=dadam mixer.average_every=4 # groups' means in two rounds, all evaluate
lost 3 1 2 13 method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5
lost 2 1 1 15 method=accumadam
lost 4 1 "0 2" 17 method=diloco mixer.outer_every=5
lost 3 1 0 31 method=streaming-diloco mixer.outer_every=12 mixer.values=int4 mixer.fragments=2
lost 3 1 1 12 method=sparseloco mixer.outer_every=3
finish
