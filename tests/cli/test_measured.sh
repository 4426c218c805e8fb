#!/bin/bash
# SPDX-License-Identifier: MIT
# Nodes whose speed is measured (batch.shares=speed): a slow one gets fewer sequences, each row is taken
# once, also when one is lost, and the run is played again to the same bits.
. "$2/tests/cli/helpers.sh"
steps=50
. "$2/tests/cli/losing.sh"

# Rank 2 is a fifth as fast as the others (tests/brutal/faulty_machine.c). With emulated computing that is
# what it tells of its speed, however busy this machine is.
cat >slowed <<S
#!/bin/bash
[ "\$RANK" != 2 ] || WEFT_FAULTY="slower 1- 5" exec ${FAULTY:?} "\$@"
exec $weft "\$@"
S
chmod +x slowed
weft=$PWD/slowed

# A run of three with rank 2 slow, which loses those named in $1; then key=value ...
measured() {
    losing 3 1 "$1" 30 batch.shares=speed "${@:2}"
    python3 - "$@" <<'P' || fail "$*: $(cat run/views.jsonl)"
import json, sys
views = [v for v in (json.loads(line) for line in open('run/views.jsonl')) if 'members' in v]
assert views[0]['rows'] == [8, 8, 8], views[0]
shared = [v for v in views if v.get('shared')]
late = 'run.compare_every=20' in sys.argv # gossip reads a step's status in the next one, if it need not before
assert shared[0]['step'] == 6 + late, shared # four slow steps, a second, are heard of, also between outer steps
assert [v['rows'] for v in shared if len(v['members']) == 3] == [[11, 11, 2]], views
few = '; optimizer steps in 7 steps 7, 7, 2' if 'batch.shares=steps' in sys.argv else ''
assert shared[0]['why'].endswith(': sequences of each rank by node are 11, 11, 2' + few), shared
for before, now in zip(views, views[1:]):
    assert now['first_row'] - before['first_row'] == (now['step'] - before['step']) * sum(before['rows']), views
if sys.argv[1]:
    world = next(v for v in views if v['view'] == 2) # as many of a node as before, in proportion
    assert world['rows'] == [14, 2], views
P
    "$weft" train --replay run --quiet >out 2>err || fail "$*: $(cat err)"
    grep -q "^the same bits .*every number of checkpoint 50$" out || fail "$*: it says $(cat out)"
}
measured ""
measured "" method=diloco mixer.outer_every=5
measured "" method=muloco mixer.outer_every=7 batch.shares=steps # checkpoints are between its optimizer steps
measured "" method=streaming-diloco mixer.outer_every=10 mixer.delay=3 mesh.min_message=1kB
measured "" method=dadam run.compare_every=20
measured 1 method=dadam mixer.topology=complete
measured 1 method=hsdp batch.micro=3
measured 0

# A fast one is lost, and another comes in its place: a step has as many rows of a node as before.
(
    mkdir back && cd back || exit 1
    . "$source_dir/tests/cli/comings.sh"
    begin 3 "a fast one comes back" batch.shares=speed
    await says '"shared":true' run/views.jsonl || fail "$what: $(tail -n 3 log.*)"
    kill -9 "${pids[1]}"
    await says "lost rank 1" log.0 || fail "$what: $(tail -n 3 log.*)"
    unset 'pids[1]'
    joiner new "$port" batch.shares=speed
    await says "takes part as rank" log.new || fail "$what: $(tail -n 3 log.*)"
    begun=$(lines)
    await has_lines $((begun + 20)) || fail "$what: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
    python3 -c "
import json
rows = [v['rows'] for v in map(json.loads, open('run/views.jsonl')) if 'rows' in v]
assert min(rows[-1]) < rows[0][0] and {len(each) for each in rows} == {2, 3}, rows
assert len({sum(each) / len(each) for each in rows}) == 1, rows" || fail "$what"
    "$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat out err)"
    finish
) || failures=1

refused() { "$weft" train run.yaml run.folder=no --quiet "$@" >out 2>err && fail "$* passes"
    grep -q "$said" err || fail "$*: it says $(cat err)"; }
said="all nodes are threads of this process" refused mesh.nodes=2 batch.shares=speed
said="steps with nodes that exchange in each step" refused mesh.nodes=2 batch.shares=steps
said="speed with replicator.delay" refused mesh.nodes=2 batch.shares=speed method=async-demo
finish
