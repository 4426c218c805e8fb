#!/bin/bash
# SPDX-License-Identifier: MIT
# What other programs read of a run: the file for Prometheus, TensorBoard's hyperparameters, and
# that names from elsewhere send no escape codes to a terminal.
. "$2/tests/cli/helpers.sh"
empty_here
some_text >text.txt
keys=(data.path=text.txt "${tiny[@]}" run.steps=30 run.eval_every=10 mesh.nodes=2)

# ---- Prometheus ----

expect 0 "$weft" train "${keys[@]}" run.folder='odd "na\me' run.prometheus=now.prom --quiet
value() { awk -v name="$1" '$0 ~ "^" name "[{]" {print $NF}' now.prom; }
[[ $(value weft_step) == 30 && $(value weft_steps) == 30 ]] || fail "steps: $(cat now.prom)"
[[ $(value weft_running) == 0 ]] || fail "the run has not ended: $(cat now.prom)"
[[ $(value weft_tokens_total) == $((30 * 64)) ]] || fail "tokens: $(value weft_tokens_total)"
last=$(tail -1 'odd "na\me/metrics.jsonl')
[[ $last == *"\"validation_loss\":$(value weft_validation_loss),"* || $last == *"\"validation_loss\": $(value weft_validation_loss),"* ]] ||
    fail "validation loss $(value weft_validation_loss), but $last"
# every line is a comment or a sample; a sample comes behind its type; no name twice
awk '
    /^# HELP [a-z_]+ [^ ].*$/ {helped[$3]++; next}
    /^# TYPE [a-z_]+ (gauge|counter)$/ {if (typed[$3]++ || !helped[$3]) print "type " $0; next}
    /^[a-z_]+\{run="odd \\"na\\\\me"(,node="[^"]*")?\} (-?[0-9.]+(e[-+]?[0-9]+)?|NaN|[+-]Inf)$/ {
        name = $1; sub(/\{.*/, "", name)
        if (!typed[name]) print "no type " $0
        if (name ~ /_total$/ && $NF < 0) print "negative " $0
        n++
        next
    }
    {print "strange " $0}
    END {if (n < 20) print n " samples"}' now.prom >strange
[[ ! -s strange ]] || fail "$(head -3 strange)"
[[ -z $(find . -maxdepth 1 -name 'now.prom.*') ]] || fail "left aside: $(ls now.prom.*)"
refuses "could not write none/x.prom: No such file or directory" \
    "$weft" train "${keys[@]}" run.folder=refused run.prometheus=none/x.prom --quiet
expect 0 "$weft" train "${keys[@]}" run.folder=without --quiet
[[ -z $(find without -name '*.prom*') ]] || fail "a file that nobody asked for"

# ---- TensorBoard ----

events=$(echo without/events.out.tfevents.*)
grep -aq '_hparams_/session_start_info' "$events" || fail "no hyperparameters in $events"
grep -aq '_hparams_/session_end_info' "$events" || fail "the session does not end in $events"
grep -aq 'tokens_per_step: 64' "$events" || fail "no configuration in $events"
if python3 -c 'import tensorboard' 2>/dev/null; then
    python3 - <<'E2' || fail "TensorBoard"
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.plugins.hparams import plugin_data_pb2
all_ = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory('.')
all_.Reload()
tags = all_.PluginRunToTagToContent('hparams')['without']
start = plugin_data_pb2.HParamsPluginData.FromString(tags['_hparams_/session_start_info']).session_start_info
assert start.hparams['batch.tokens_per_step'].number_value == 64, start
assert start.hparams['data.path'].string_value == 'text.txt', start
assert 'optimizer.beta1' not in start.hparams and 'run.folder' not in start.hparams, start
end = plugin_data_pb2.HParamsPluginData.FromString(tags['_hparams_/session_end_info']).session_end_info
assert end.status == 1, end
assert 'config' in all_.PluginRunToTagToContent('text')['without']
assert 'train/loss' in all_.Runs()['without']['tensors'] or 'train/loss' in all_.Runs()['without']['scalars']
E2
fi

for figure in cpu_cores memory_bytes rank_memory_bytes wire_out_bytes_per_second; do
    for node in 0 1; do
        [[ $(grep -c "^weft_node_$figure{.*,node=\"$node\"} [0-9]" now.prom) == 1 ]] ||
            fail "no $figure of node $node: $(grep weft_node now.prom)"
    done
done

# ---- nodes ----

expect 0 "$weft" train data.path=text.txt "${tiny[@]}" run.steps=20 run.eval_every=10 mesh.nodes=2 \
    mesh.ranks_per_node=2 run.folder=nodes --quiet
[[ $(grep -o '"step":[0-9]*,.*"node":[0-9]*' nodes/nodes.jsonl | sed 's/"elapsed_s.*"node"/"node"/') == '"step":10,"node":0
"step":10,"node":1
"step":20,"node":0
"step":20,"node":1' ]] || fail "nodes.jsonl: $(cat nodes/nodes.jsonl)"
(($(grep -c '"ranks":2,"cores":[1-9][0-9]*,"pass_rows":[1-9][0-9]*,"recomputes":0,"cpu_cores":[0-9].*"memory_bytes":[1-9].*"rank_bytes":[1-9].*"wire_out":[1-9]' nodes/nodes.jsonl) == 4)) ||
    fail "figures of nodes: $(cat nodes/nodes.jsonl)"
expect 0 "$weft" watch nodes --text --once
(($(grep -c '^  node [01], .*: .* of [0-9]* cores, ' out) == 2)) || fail "watch: $(cat out)"
expect 0 "$weft" verify nodes
grep -q 'ok  *nodes.jsonl  *4 lines' out || fail "verify: $(cat out)"
expect 0 "$weft" train data.path=text.txt "${tiny[@]}" run.steps=30 run.eval_every=10 mesh.nodes=2 \
    mesh.ranks_per_node=2 run.folder=nodes --quiet --resume
[[ $(grep -o '"step":[0-9]*' nodes/nodes.jsonl | sort | uniq -c | awk '{printf "%s ", $1}') == "2 2 2 " ]] ||
    fail "nodes.jsonl of a resumed run: $(cat nodes/nodes.jsonl)"

# ---- a trace of all ranks ----

expect 0 "$weft" train data.path=text.txt "${tiny[@]}" run.steps=24 mesh.nodes=2 mesh.ranks_per_node=2 \
    run.folder=traced --quiet
prints step.json "$weft" report traced --trace step.json
refuses "--trace is of one run, found 2" "$weft" report traced without --trace step.json
refuses "-o is the page's file, --trace has its own" "$weft" report traced --trace step.json -o x.html
mkdir bare
refuses "bare/timeline.json is not there: a run writes it at its first evaluation, checkpoint or end" \
    "$weft" report bare --trace x.json
mkdir other # a timeline of a run of before, of one rank only, and one whose times run backwards
echo '{"version": 1, "step": 3, "timeline": [{"lane": "compute", "index": 1, "what": "forward", "begin_s": 0, "end_s": 1}]}' \
    >other/timeline.json
expect 0 "$weft" report other --trace old.json
grep -q '"name":"forward 1","cat":"forward","ts":0.000,"dur":1000000.000' old.json || fail "an old timeline: $(cat old.json)"
sed 's/"end_s": 1/"end_s": -1/' other/timeline.json >t && mv t other/timeline.json
refuses_like "other/timeline.json: item 0 of the timeline is not a stretch of time, .*" "$weft" report other --trace x.json
[[ ! -e x.json ]] || fail "a trace of nothing"
if command -v python3 >/dev/null; then
    python3 - <<'E2' || fail "the trace"
import json
trace = json.load(open('step.json'))
events = trace['traceEvents']
names = {e['pid']: e['args']['name'] for e in events if e['name'] == 'process_name'}
assert [names[r].split(',')[:2] for r in range(4)] == [[f'rank {r}', f' node {r // 2}'] for r in range(4)], names
threads = {(e['pid'], e['tid']): e['args']['name'] for e in events if e['name'] == 'thread_name'}
assert sorted(threads.values()) == ['compute'] * 4 + ['exchange'] * 4, threads
rows = {}
for e in events:
    if e['ph'] == 'X':
        assert e['ts'] >= 0 and e['dur'] >= 0 and e['name'] == f"{e['cat']} {e['args']['index']}", e
        rows.setdefault((e['pid'], e['tid']), []).append((e['ts'], e['ts'] + e['dur'], e['cat']))
assert set(rows) == set(threads)
for row, spans in rows.items():
    spans.sort()
    for (_, end, _), (begin, _, _) in zip(spans, spans[1:]):
        assert end <= begin + 1e-3, (row, end, begin)  # one after the other: nothing to nest
    whats = {what for _, _, what in spans}
    if threads[row] == 'compute':
        assert {'load', 'forward', 'backward', 'settle'} <= whats, whats
assert min(b for s in rows.values() for b, _, _ in s) == 0
# one clock: nobody has settled before everybody has sent its gradient
first_settled = min(e for s in rows.values() for _, e, w in s if w == 'settle')
last_backward = max(b for s in rows.values() for b, _, w in s if w == 'backward')
assert last_backward <= first_settled, (last_backward, first_settled)
E2
fi

# ---- names of files ----

escape=$'\033'
red=$'\033[31mred\302\233'
cp text.txt "$red.txt"
quiet() { # COMMAND...: whatever it says, no escape code is in it
    run "$@"
    if LC_ALL=C grep -q "$escape" out err; then fail "an escape code from: $*"; fi
    if LC_ALL=C grep -q $'\302\233' out err; then fail "a control character of eight bits from: $*"; fi
}
quiet "$weft" train "$red.txt" "${tiny[@]}" run.folder="$red"
[[ $code == 0 ]] || fail "training on a file with a strange name: $(cat err)"
quiet "$weft" train "$red.txt" "${tiny[@]}" run.folder="$red" --resume
quiet "$weft" train "$red.none" "${tiny[@]}"
quiet "$weft" train text.txt "model.$red=3"
for command in report eval verify "watch --text --once" sample merge; do
    # shellcheck disable=SC2086
    quiet "$weft" $command "$red"
    # shellcheck disable=SC2086
    quiet "$weft" $command "$red.none"
done
quiet "$weft" report "$red" -o "$red.html"
quiet "$weft" watch "$red" "$red.none" --text --once
quiet "$weft" data encode text.txt -o "$red.bin"
quiet "$weft" data inspect "$red.bin"
quiet "$weft" "$red"
finish
