#!/bin/bash
# SPDX-License-Identifier: MIT
# A process is killed while a run trains over TCP, the others go on; then the run is played again in
# one process, from its views.jsonl, to the same bits. What was written down wrongly is found.
. "$2/tests/cli/helpers.sh"
steps=40
. "$2/tests/cli/losing.sh"

# Of $1 ranks those named in $2 are killed after $3 lines; then key=value ...
lost() {
    losing "$1" 1 "${@:2}"
    [ "$(grep -c '"members"' run/views.jsonl)" = 2 ] || fail "$*: views.jsonl is $(cat run/views.jsonl)"
}

# The run in run/ is played again: all that is compared is the same, and nothing is written there.
replays() {
    (cd run && find . -type f -exec cksum {} + | sort) >before
    "$weft" train --replay run --quiet >out 2>err || fail "$*: $(cat err)"
    grep -q "^the same bits .*losses of [0-9]* steps, parameters before 1 of the views, every number of checkpoint 40$" out ||
        fail "$*: it says $(cat out)"
    (cd run && find . -type f -exec cksum {} + | sort) >after
    same before after
}

# Each row is counted once or named: of every step's rows, those of the lost.
counts() {
    python3 - "$@" <<'P' || fail "rows of $*"
import json, sys
lines = [json.loads(line) for line in open('run/views.jsonl')]
views = [v for v in lines if 'members' in v]
steps = [json.loads(line) for line in open('run/metrics.jsonl')]
assert views[1]['first_row'] == (views[1]['step'] - 1) * views[0]['rows_per_rank'] * len(views[0]['members'])
assert len(views[1]['lost']) + len(views[1]['members']) == len(views[0]['members'])
for s in lines:
    if 'skipped' in s:
        assert s['complete'] and s['view'] == 1 and s['step'] < views[1]['step']
        gone = {place for place, host, why in views[1]['lost']}
        assert all(sender in gone for _, _, sender, _, _ in s['skipped'])
silent = {s['step'] for s in lines if 'skipped' in s and any(channel == 0 for channel, *_ in s['skipped'])}
for s in (s for s in steps if 'loss' in s):
    n = len(views[s['step'] >= views[1]['step']]['members'])
    left = n - len(views[1]['lost']) if s['step'] in silent else n
    assert (s['ranks'], s['participation']) == (n, left / n), (s, n, left)
P
}

lost 3 1 7
counts flexdemo
replays flexdemo
"$weft" train --replay run --json >out 2>err || fail "json: $(cat err)"
[ "$(grep -c '"loss"' out)" = 40 ] || fail "json: $(cat out)"
grep -q '"change": "steps 1 to ' out || fail "json names no view"

# What was written down wrongly does not pass.
differs() {
    "$weft" train --replay wrong --quiet >out 2>err && fail "a wrong log passes"
    grep -q -- "$1" err || fail "it says $(cat err), expected $1"
}
cp -r run wrong
sed -i 's/"checksum":"[0-9a-f]\{16\}"/"checksum":"0123456789abcdef"/' wrong/views.jsonl
differs "views.jsonl has 0123456789abcdef"
rm -rf wrong && cp -r run wrong
sed -i '9s/"loss":[0-9.]*/"loss":1.5/' wrong/metrics.jsonl
differs "metrics.jsonl has 1.5"
rm -rf wrong && cp -r run wrong
sed -i '1d' wrong/views.jsonl
differs "views.jsonl begins with view 2\|skipped between"
rm -f wrong/views.jsonl
differs "says nothing of who took part"
"$weft" train --replay run run.steps=3 >out 2>err && fail "replay takes keys"
grep -q "expected no other word" err || fail "it says $(cat err)"

# With a delay messages are under way when somebody is lost, and a checkpoint holds the direction that
# the next step applies.
lost 3 1 13 method=async-demo run.compare_every=8 run.eval_every=0
replays async-demo

# Lost after the last step, while the others evaluate: they do it again, write the last checkpoint
# anew, and the log has the view in which the run only ends.
for ((i = 0; i < 8; i++)); do cat text.txt; done >long.txt
lost 3 1 40 method=dadam run.eval_every=0 data.validation_path=long.txt
grep -q '"view":[0-9]*,"step":41' run/views.jsonl || fail "the end: views.jsonl is $(cat run/views.jsonl)"
replays the end

lost 3 0 11 method=hsdp # who writes the run folder, and owns a range
replays hsdp
lost 3 1 9 method=dadam # replicas differ
replays dadam
lost 4 1 9 method=dadam mixer.kind=tracking # directions begin anew
replays tracking
lost 4 1 9 method=dadam mixer.kind=choco mixer.values=int4 mixer.gamma=0.5 # pairs begin anew
replays choco
# Resumed from the checkpoint in which pairs may have met fewer times than they need: the same bits.
cp run/checkpoints/step-00000040/*.safetensors . && rm -r run/checkpoints/step-00000040
"$weft" train run.yaml run.folder=run --resume method=dadam mixer.kind=choco mixer.values=int4 mixer.gamma=0.5 \
    mesh.nodes=3 mesh.ranks_per_node=1 batch.tokens_per_step=576 --quiet >out 2>err || fail "choco: $(cat err)"
for file in *.safetensors; do same "$file" "run/checkpoints/step-00000040/$file"; done
rm ./*.safetensors
lost 3 1 9 method=hsdp replicator.kind=powersgd # whose answers nobody else can make
replays powersgd
lost 3 1 9 method=hsdp replicator.kind=signsgd # a lost owner's majority is counted by the others
replays signsgd
lost 3 2 13 method=diloco mixer.outer_every=5
replays diloco
lost 4 1 9 method=noloco mixer.outer_every=5 # replicas, starts and velocities differ
replays noloco
finish
