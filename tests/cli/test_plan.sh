#!/bin/bash
# SPDX-License-Identifier: MIT
# weft plan, and weft train --plan.
. "$2/tests/cli/helpers.sh"
rm -rf ./*.svg ./*.yaml ./*.json run

cat >run.yaml <<'YAML'
run: {folder: run, steps: 200}
data: {path: text.txt, length: 32}
model: {layers: 2, width: 64, heads: 2}
batch: {tokens_per_step: 2048}
mesh: {threads: 1}
schedule: {warmup: 2}
YAML
some_text >text.txt
facts=(--link "100Mbit,1ms" --node-flops 20G)

# -- text: head, table, words
expect 0 "$weft" plan run.yaml "${facts[@]}"
[[ ! -s err ]] || fail "something on stderr: $(head -1 err)"
grep -qxF "cluster  2 nodes x 1 rank, wire 100 Mbit/s, 1 ms; facts: by hand" out ||
    fail "head: $(sed -n 2p out)"
grep -qE "^ *[0-9]+= +one node " out || fail "no row for one node"
(($(grep -cE "^ *[0-9]+\*" out) == 1)) || fail "not one choice"
[[ $(sed -n 4p out) =~ ^(Take|Stay|Measure\ first) ]] || fail "the answer is not first: $(sed -n 4p out)"
grep -A1 "^     method " out | tail -1 | grep -qE "^ *[0-9]+\*" || fail "the choice is not on row one"
(($(grep -E "^ *[0-9]+[*=]? +[a-z]" out | wc -L) <= 80)) || fail "more than 80 columns"
(($(wc -L <out) <= 80)) || fail "a line of more than 80 columns: $(awk 'length > 80' out | head -1)"
(($(grep -cE "^ *[0-9]+[*=]? +[a-z]" out) == 5)) || fail "not the choice, three others and one node"
(($(wc -l <out) <= 20)) || fail "a long answer: $(wc -l <out) lines"
grep -q "^Assumed: a fifth of the wire's label or more (TCP)" out || fail "no assumptions"
expect 0 "$weft" plan run.yaml "${facts[@]}" --wide
grep -q "tokens/s" out || fail "not all columns with --wide"
grep -q "^One node alone takes" out || fail "no word about one node"
tr -s "\n " " " <out | grep -q "Assumed, too: .* and no failures" || fail "what was assumed besides"
grep -q "^Against one node alone, with a wire of 100 Mbit/s and 1 ms latency" out ||
    fail "no word about the methods"
expect 0 "$weft" plan run.yaml "${facts[@]}" --top 12
(($(grep -cE "^ *[0-9]+[*=]? +[a-z]" out) <= 16)) || fail "more rows than --top and the marked ones"
expect 0 "$weft" plan run.yaml "${facts[@]}" --top 0
(($(grep -cE "^ *[0-9]+[*=]? +[a-z]" out) > 15)) || fail "not all rows with --top 0"

# -- overrides and facts of the run file
expect 0 "$weft" plan run.yaml mesh.nodes=4 mesh.link=1Gbit,20us --node-flops 20G
grep -qxF "cluster  4 nodes x 1 rank, wire 1 Gbit/s, 20 us; facts: by hand" out ||
    fail "facts of the run: $(sed -n 2p out)"
expect 0 "$weft" plan run.yaml --nodes 1 --node-flops 20G --wide
grep -q "^Against" out && fail "words about a wire with one node"

# -- JSON, a drawing, a run file
expect 0 "$weft" plan run.yaml "${facts[@]}" --json --svg plan.svg --write chosen.yaml
python3 - out <<'PY' || fail "JSON"
import json, sys
a = json.load(open(sys.argv[1]))
assert a["version"] == 3 and a["tokens_per_step"] == 2048 and a["tokens"] == 200 * 2048
c = a["candidates"]
one, best = c[a["baseline"]], c[a["choice"]]
assert one["nodes"] == 1 and one["speedup"] == 1 and best["usable"]
for x in c:
    p = x["prediction"]
    assert p["step_s"]["low"] <= p["step_s"]["median"] <= p["step_s"]["high"]
    assert p["bound"] in ("compute", "wire", "waiting", "codec")
    assert 0 <= p["hidden_share"] <= 1
    assert x["speedup_range"]["low"] <= x["speedup"] <= x["speedup_range"]["high"]
    assert x["alone_range"]["low"] <= x["alone"] <= x["alone_range"]["high"]
    low, high = x["alone_range"]["low"], x["alone_range"]["high"]
    assert x["worth"] == ("no" if x["nodes"] == 1 or high <= 1.02 else "yes" if low > 1 else "measure")
    assert c[x["peer"]]["nodes"] == 1 and x["doubt"] in ("wire", "computing", "learning", "model")
assert a["worth"] == c[a["headline"]]["worth"] and a["answer"].startswith(
    {"yes": "Take ", "no": "Stay ", "measure": "Measure first: "}[a["worth"]])
n = len(a["curves"]["bandwidth_Bps"])
assert n > 5 and all(len(m["speedup"]) == n for m in a["curves"]["methods"])
assert a["ranges"][0]["from_Bps"] == 0 and a["ranges"][-1]["to_Bps"] is None
PY
# what it knows of methods' steps is what the data files say
python3 "$source_dir/bench/methods-compared" --steps "$source_dir/bench/results/methods-compared.csv" \
    "$source_dir/bench/results/methods-compared-medium.csv" >steps.txt || fail "no steps in the data files"
python3 - <<'PY' || fail "steps of a method are not those of bench/results/methods-compared*.csv"
import json
rows = [line.rstrip("\n").split("\t") for line in open("steps.txt")][1:]
measured = {row[0]: (float(row[2]), float(row[3])) for row in rows
            if row[1] == "2" and int(row[4]) > 1}
grows = {row[0]: (float(row[5]), float(row[6])) for row in rows if row[1] == "8" and row[5] != "-"}
named = {"full sync, muon": "Muon", "flexdemo": "flexdemo f32", "flexdemo int8": "flexdemo int8",
         "flexdemo sign": "flexdemo signs", "random 1/16": "random", "choco aer int8": "choco int8",
         "muloco": "MuLoCo", "sparseloco": "SparseLoCo", "streaming-diloco": "Streaming DiLoCo",
         "diloco H=50": "DiLoCo"}
seen = set()
for c in json.load(open("out"))["candidates"]:
    data = named.get(c["name"], c["name"])
    if c["nodes"] == 1 or data not in measured:
        continue
    low, high = c["learning"]["steps_low"], c["learning"]["steps_high"]
    assert abs(low - measured[data][0]) < 0.011 and abs(high - measured[data][1]) < 0.011, (c["name"], low, high)
    grown, error = (c["learning"][key] for key in ("per_doubling", "per_doubling_error"))
    mean, half = grows.get(data, (grown, 0))
    if data == "Muon":  # the same sum with any number of nodes: what was measured are the seeds
        assert grown == error == 0 and abs(mean) <= half, (grown, error, mean, half)
    else:
        assert abs(grown - mean) < 0.011 and error > half - 0.011, (c["name"], grown, error)
    seen.add(data)
assert len(seen) >= 15 and len(grows) >= 15, (seen, grows)
PY
grep -q "^</svg>$" plan.svg || fail "no drawing"
if command -v xmllint >/dev/null; then xmllint --noout plan.svg || fail "not valid XML"; fi
expect 0 "$weft" config chosen.yaml
expect 0 "$weft" train chosen.yaml run.steps=2 run.folder=run/chosen
[[ -s run/chosen/report.html ]] || fail "the chosen run was not trained"
expect 0 "$weft" plan run.yaml "${facts[@]}" --write one.yaml --pick 2
expect 0 "$weft" config one.yaml

# -- a file of facts
cat >cluster.yaml <<'YAML'
nodes: 2
rank_flops: 10G
wire: {bandwidth: 100Mbit, latency: 1ms}
YAML
expect 0 "$weft" plan run.yaml --cluster cluster.yaml --json
cp out a.json
expect 0 "$weft" plan run.yaml --link 100Mbit,1ms --node-flops 10G --json
same a.json out

# -- a goal
expect 0 "$weft" plan run.yaml "${facts[@]}" --tokens 1G --json
grep -qE '"tokens": (1e\+?0?9|1000000000\.0),' out || fail "the goal is not 1G tokens"

# -- a run beside its plan
expect 0 "$weft" train run.yaml run.steps=24 run.eval_tokens=64 mesh.nodes=2 \
    mesh.link=100Mbit,1ms --plan cluster.yaml
grep -qE "^plan     [0-9.]+ [mu]?s per step \(" err || fail "no plan at the start"
grep -qE "^plan +[0-9.]+ [mu]?s per step predicted, .* measured \((median|mean)\): [+-][0-9]+ %" out ||
    fail "no plan at the end"
[[ -s run/plan.json && -s run/timeline.json ]] || fail "no plan.json or timeline.json"
python3 - run/timeline.json run/plan.json <<'PY' || fail "timeline.json or plan.json"
import json, sys
measured, plan = (json.load(open(f)) for f in sys.argv[1:])
assert measured["step"] == 21
for t, lanes in ((measured, ("compute", "exchange")), (plan, ("compute", "exchange", "wire"))):
    assert t["version"] == 1 and t["timeline"]
    for x in t["timeline"]:
        assert x["lane"] in lanes and x["end_s"] >= x["begin_s"]
# each unit once forward but the head, each once backward
done = [(x["what"], x["index"]) for x in measured["timeline"] if x["lane"] == "compute"]
assert [d for d in done if d[0] == "forward"] == [("forward", u) for u in range(3)]
assert [d for d in done if d[0] == "backward"] == [("backward", u) for u in (3, 2, 1, 0)]
assert plan["prediction"]["wire_bytes"] > 0
PY
grep -q '"prediction":{"low_step_s":[0-9]' run/report.html || fail "the report does not show the plan"
expect 0 "$weft" train run.yaml run.folder=run/json run.steps=4 mesh.nodes=2 --plan here \
    mesh.link=100Mbit,1ms --json
head -1 out | grep -q '^{"predicted_step_s": ' || fail "no prediction in the JSON lines"

# -- facts that promise too much: the run says so, and why
echo "rank_flops: 1000T" >fast.yaml
expect 0 "$weft" train run.yaml run.folder=run/slow run.steps=24 run.eval_tokens=64 \
    --plan fast.yaml
grep -qE "^weft: a step takes .*, the plan says .*: computing is slower \(computing .*\)" err ||
    fail "no word on slow computing"

# -- errors
refuses "what a node computes is not known, expected --accelerator such as RTX4090, --measured \"1 node: 0.9 s\", --cluster FILE, --node-flops 80T, or --node-flops here, which measures this machine" \
    "$weft" plan run.yaml --link 1Gbit
refuses "the wire between the 2 nodes is not known, expected link, as in --link 1Gbit,50us" \
    "$weft" plan run.yaml --node-flops 1T
refuses "the wire between the 2 sites is not known, expected site-link, as in --site-link 1Gbit,10ms" \
    "$weft" plan run.yaml --node-flops 1T --link 1Gbit --nodes 4 --sites 2
refuses "--tokens is '1X', expected a whole number of at least 1" \
    "$weft" plan run.yaml "${facts[@]}" --tokens 1X
refuses "--tokens is '-1', expected a whole number of at least 1" \
    "$weft" plan run.yaml "${facts[@]}" --tokens -1
refuses "--top is '-1', expected a whole number from 0 to 1000000" \
    "$weft" plan run.yaml "${facts[@]}" --top -1
refuses "--pick says what --write writes, but there is no --write" \
    "$weft" plan run.yaml "${facts[@]}" --pick 2
refuses_like "--pick is 999, expected at most [0-9]+, the rows of the whole table" \
    "$weft" plan run.yaml "${facts[@]}" --pick 999 --write none.yaml
refuses_like "link is '100', expected .*" "$weft" plan run.yaml --link 100 --node-flops 1T
refuses_like "nodes is '0', expected .*" "$weft" plan run.yaml --nodes 0 --node-flops 1T
refuses "could not open none.yaml: No such file or directory" \
    "$weft" plan run.yaml --cluster none.yaml
refuses "there is nothing to draw in one.svg: no method was tried on several nodes" \
    "$weft" plan run.yaml --nodes 1 --node-flops 1T --svg one.svg
refuses_like ".*none.yaml.*" "$weft" train run.yaml run.folder=run/none --plan none.yaml
refuses "one node alone: run.yaml:4: batch.tokens_per_step is 2048, expected a multiple of 96 (3 ranks times data.length 32) such as 2016" \
    "$weft" plan run.yaml "${facts[@]}" --ranks-per-node 3
refuses "nodes is 2 and sites is 3, expected as many nodes in each site, such as 3 nodes" \
    "$weft" plan run.yaml "${facts[@]}" --sites 3 --nodes 2
for bad in "" "2 nodes" "2 nodes: soon" "2 nodes: -1 s" "0 nodes: 1 s" "2 nodes, mpi: 1 s" \
    "2 nodes x 0: 1 s" "nan nodes: 1 s" "2 nodes: 1e999 s" ": 4 s"; do
    refuses_like "--measured '$bad': .*, expected such as .*" \
        "$weft" plan run.yaml "${facts[@]}" --measured "$bad"
done
for bad in 1Xbit 1Gbit, 1Gbit,3 1Gbit,-1ms -1Gbit nan 0Gbit "" 1e400bit 1Gb; do
    refuses_like "link is '$bad', expected .*" "$weft" plan run.yaml --link "$bad" \
        --node-flops 1T
done
refuses_like "--framework names 'horovod', expected .*" \
    "$weft" plan run.yaml "${facts[@]}" --framework horovod
refuses "--collective is 'star', expected auto|ring|tree|hierarchical|gloo" \
    "$weft" plan run.yaml "${facts[@]}" --collective star
refuses "--precision is 'fp4', expected f32|mixed|bf16|bf16-8bit" \
    "$weft" plan run.yaml "${facts[@]}" --precision fp4
refuses "--batch is 'both', expected total|per-rank" \
    "$weft" plan run.yaml "${facts[@]}" --batch both
refuses_like "accelerator is 'abacus', expected one of .*" \
    "$weft" plan run.yaml --link 1Gbit --accelerator abacus
refuses_like "--failures is '4000', expected a time .*" \
    "$weft" plan run.yaml "${facts[@]}" --failures 4000
refuses_like "--restart says what a failure costs, but there is no --failures" \
    "$weft" plan run.yaml "${facts[@]}" --restart 5min
refuses_like "node-memory is '64Gbit', expected .*" \
    "$weft" plan run.yaml "${facts[@]}" --node-memory 64Gbit
for size in 0B 24; do # of bytes
    refuses "node-memory is '$size', expected a size such as 16GB" \
        "$weft" plan run.yaml "${facts[@]}" --node-memory $size
done
refuses "nodes is 2 and sites is 3, expected as many nodes in each site, such as 3 nodes" \
    "$weft" plan run.yaml --link 1Gbit,1ms --nodes 2 --sites 3 --measured "1 node: 0.3 s"
# as people write it
expect 0 "$weft" plan run.yaml --link 1GbE,1ms --framework DDP,FSDP-all --precision BF16 --measured "1 node: 0.9 s" \
    --measured "2 nodes, DDP: 3 s" --top 0
tr -s "\n " " " <out | grep -q "bit/s of 1 Gbit/s" || fail "1GbE: $(<out)"
for name in ddp fsdp; do
    grep -qE "^ *[0-9]+.? $name " out || fail "no $name: $(<out)"
done
# what nothing would read
refuses "--measured is '1 node x 4: 0.9 s', but the plan is of one rank per node, expected --ranks-per-node 4 beside it" \
    "$weft" plan run.yaml --link 100Mbit,1ms --measured "1 node x 4: 0.9 s"
refuses "--allreduce is '2 nodes x 4: 5 MB/s', but the plan is of one rank per node, expected --ranks-per-node 4 beside it" \
    "$weft" plan run.yaml "${facts[@]}" --allreduce "2 nodes x 4: 5 MB/s"
expect 0 "$weft" plan run.yaml --link 100Mbit,1ms --ranks-per-node 4 --measured "1 node x 4: 0.9 s" --top 1
refuses "--node-link is the wire between ranks of a node, but there is one, expected --ranks-per-node beside it" \
    "$weft" plan run.yaml "${facts[@]}" --node-link 100GBps
refuses "--site-link is the wire between sites, but there is no --sites" \
    "$weft" plan run.yaml "${facts[@]}" --site-link 1Gbit
refuses "--link is of the wire between nodes, but there is one node" "$weft" plan run.yaml "${facts[@]}" --nodes 1
refuses "--critical-batch holds where each node adds a batch, but there is no --batch per-rank" \
    "$weft" plan run.yaml "${facts[@]}" --critical-batch 1M
refuses "--layers is '0', expected a whole number such as 12" \
    "$weft" plan run.yaml "${facts[@]}" --parameters 63M --layers 0
refuses "--flop-per-token is '0', expected a whole number such as 400M" \
    "$weft" plan run.yaml "${facts[@]}" --flop-per-token 0
for word in "--framework ," "--measured 1.5nodes:1s" "--nodes 2,4" "--top 1.5" "--pick 0 --write x.yaml" \
    "--parameters -5M" "--parameters 63M --layers 99999999" "--hf /dev/zero" "--cluster run.yaml" \
    "--busy -8h,30%" "--collective-cpu 2s --framework ddp" "--tokens 1e30" "--stall 1%,1s,2s" \
    "batch.tokens_per_step=33" "--ranks-per-node 4096" "--pick 3"; do
    # shellcheck disable=SC2086
    refuses_like ".*(expected|unknown|there is no).*" "$weft" plan run.yaml "${facts[@]}" $word
done
refuses_like "launch is '30', expected .*" "$weft" plan run.yaml "${facts[@]}" --launch 30
refuses_like "jitter is '-5%', expected .*" "$weft" plan run.yaml "${facts[@]}" --jitter -5%
refuses_like "stall is '1%', expected .*" "$weft" plan run.yaml "${facts[@]}" --stall 1%
refuses_like ".*--measured says nothing of one node.*" \
    "$weft" plan run.yaml --measured "2 nodes: 1 s"
no_files none.yaml one.svg run/none

# -- units as people write them
expect 0 "$weft" plan run.yaml --link 100Mbps,1ms --node-flops 20GFLOPS --json
cp out a.json
for link in 100M,1ms 100m,1ms 100mbit,1ms 0.1gbit,1ms; do
    expect 0 "$weft" plan run.yaml --link $link --node-flops 20G --json
    same a.json out
done
refuses_like "memory-bandwidth is '20G', expected .*" "$weft" plan run.yaml "${facts[@]}" \
    --memory-bandwidth 20G

# -- one node: what would make it a question; a rival's sentence is a paragraph of its own
expect 0 "$weft" plan run.yaml --nodes 1 --node-flops 20G --same
grep -q "^There is one node: say --nodes and --link to compare it with more" out || fail "one node: $(sed -n 4p out)"
expect 0 "$weft" plan run.yaml --nodes 1 --node-flops 20G --memory-bandwidth 20GBps --wide
grep -q "^One node alone takes" out || fail "one node: $(grep 'One node alone' out)"

# -- what was measured, and other frameworks
expect 0 "$weft" plan run.yaml --link 1Gbit,1ms --measured "1 node: 100 ms" \
    --measured "2 nodes, ddp: 0.3 s" --framework fsdp --json
python3 - out <<'PY' || fail "anchored plan"
import json, sys
a = json.load(open(sys.argv[1]))
c = a["candidates"]
one = c[a["baseline"]]["prediction"]["mean_step_s"]
ddp = [x for x in c if x["framework"] == "ddp" and x["nodes"] == 2][0]
assert abs(one / 0.1 - 1) < 0.01, one
assert abs(ddp["prediction"]["mean_step_s"] / 0.3 - 1) < 0.01
assert any(x["framework"] == "fsdp" for x in c) and ddp["learning"]["same"]
assert all(0 < x["error"] < 1 for x in c)
m, found = a["measured"], a["inferred"]
assert [x["text"] for x in m] == ["1 node: 100 ms", "2 nodes, ddp: 0.3 s"] and m[1]["seconds"] == 0.3
assert all(abs(x["predicted_s"] / x["seconds"] - 1) < 0.01 for x in m)
assert abs(found["wire_Bps"] / a["wire"]["bandwidth_Bps"] - 1) < 1e-6 and "your wire carries" in found["text"]
PY
expect 0 "$weft" plan run.yaml --link 1Gbit,1ms --measured "1 node: 100 ms" \
    --measured "2 nodes, ddp: 0.3 s"
grep -q "^measured 1 node: 100 ms: predicted 100 ms" out || fail "measured: $(sed -n 3p out)"
grep -q "^so       a rank computes" out || fail "nothing is inferred"
# two nodes alone: computing behind the wire as given; a data sheet tells a wire that is not
expect 0 "$weft" plan run.yaml --link 1Gbit,1ms --nodes 3 --measured "2 nodes, ddp: 0.3 s"
tr -s "\n " " " <out | grep -q "with the wire as given a rank computes [0-9.e-]* TFLOP/s, and one node alone takes" ||
    fail "two nodes alone: $(sed -n 4,6p out)"
grep -qE "^ *[0-9]+\*? +ddp +2 +300 ms " out || fail "ddp on 2: $(grep ddp out)"
expect 0 "$weft" plan run.yaml --link 1Gbit,1ms --measured "2 nodes, ddp: 0.3 s" --accelerator A100
tr -s "\n " " " <out | grep -q "less than a twentieth of its peak of 312 TFLOP/s, .*; your wire carries " ||
    fail "two nodes and a data sheet: $(sed -n 4,7p out)"
# -- effort: a share of the data sheet's rate, and back from a step that takes as long
sheet=(--link 100Mbit,1ms --accelerator A100)
expect 0 "$weft" plan run.yaml "${sheet[@]}" --effort 31% --json
cp out said.json
expect 0 "$weft" plan run.yaml "${sheet[@]}" --effort 0.31 --json
same said.json out
one=$(python3 -c 'import json; a = json.load(open("said.json"))
print("%.12g" % a["candidates"][a["baseline"]]["prediction"]["mean_step_s"])')
expect 0 "$weft" plan run.yaml "${sheet[@]}" --measured "1 node: $one s" --json
cp out back.json
expect 0 "$weft" plan run.yaml "${sheet[@]}" --measured "1 node: $one s" --flop-per-token 6M --json
cp out other.json
expect 0 "$weft" plan run.yaml "${sheet[@]}" --effort 31% --measured "2 nodes, ddp: 0.3 s" --json
cp out both.json
expect 0 "$weft" plan run.yaml --link 100Mbit,1ms --measured "1 node: $one s" --json
python3 - "$one" <<'PY' || fail "effort"
import json, sys
read = lambda name: json.load(open(name))
back, both, none, other = map(read, ("back.json", "both.json", "out", "other.json"))
near = lambda x, y: abs(x / y - 1) < 1e-3
assert near(back["inferred"]["effort"], 0.31) and near(back["inferred"]["rank_flops"], 0.31 * 312e12)
assert "31 % of the 312 of its data sheet" in back["inferred"]["text"], back["inferred"]["text"]
step = back["measured"][0]["effort"] # of the whole step: 6 FLOP a parameter and token, at least
assert 0.5 * 0.31 < step <= 0.31, step
# the same step of a model with other FLOP is another effort, by what a token has
assert near(other["measured"][0]["effort"], 6e6 * 2048 / float(sys.argv[1]) / 312e12)
assert near(other["inferred"]["rank_flops"] / other["inferred"]["effort"], 312e12)
# an effort that was said stays, the wire follows from the step on two nodes
assert near(both["inferred"]["rank_flops"], 0.31 * 312e12) and both["inferred"]["wire_Bps"]
assert none["inferred"]["effort"] is None and none["measured"][0]["effort"] is None
PY
expect 0 "$weft" plan run.yaml "${sheet[@]}" --measured "1 node: $one s"
grep -qE "^measured 1 node: .*, effort [0-9.]+ %$" out || fail "effort of a step: $(sed -n 3p out)"
expect 0 "$weft" plan run.yaml "${sheet[@]}" --flop-per-token 1T --measured "1 node: 1 s"
tr -s "\n " " " <out | grep -q "of its data sheet, which cannot be: are the accelerator, " ||
    fail "more than the data sheet has: $(sed -n 4,6p out)"
refuses "--effort is a share of an accelerator's rate, but there is no --accelerator such as H100" \
    "$weft" plan run.yaml --link 1Gbit --effort 38%
for rate in "--node-flops 80T" "--node-flops here" "--node-flops-bf16 80T"; do
    # shellcheck disable=SC2086
    refuses "--effort and ${rate% *} both say how fast a node computes, expected one of them" \
        "$weft" plan run.yaml "${sheet[@]}" --effort 38% $rate
done
refuses "--effort and --measured '1 node: 1 s' both say how fast a node computes, expected one of them" \
    "$weft" plan run.yaml "${sheet[@]}" --effort 38% --measured "1 node: 1 s"
for bad in 101% 38 0 0% -5% nan inf "" 38%% 0x1p-2 "38 x"; do
    refuses "--effort is '$bad', expected a share of the data sheet's rate, above 0 and at most 100%, such as 38%" \
        "$weft" plan run.yaml "${sheet[@]}" --effort "$bad"
done

# -- the rate on a command line replaces what a file has measured of the same model
expect 0 "$weft" probe run.yaml -o probed.yaml --seconds 1 --quiet mesh.nodes=2 mesh.link=100Mbit,1ms
grep -q "^units:" probed.yaml || fail "no units were measured"
step_of_one() { python3 -c 'import json; a = json.load(open("out"))
print("%.6g" % a["candidates"][a["baseline"]]["prediction"]["compute_s"])'; }
expect 0 "$weft" plan run.yaml --cluster probed.yaml --node-flops 1G --json
slow=$(step_of_one)
expect 0 "$weft" plan run.yaml --cluster probed.yaml --node-flops 2G --json
python3 -c "assert $slow > 1.8 * $(step_of_one)" || fail "--node-flops over a probe's file: $slow, $(step_of_one)"

# -- one machine's rate is of the user's model, as the others' is
cat >alike.yaml <<'YAML'
nodes: 2
rank_flops: 20GFLOP/s
wire: {bandwidth: 100Mbit, latency: 1ms}
YAML
expect 0 "$weft" plan run.yaml --cluster alike.yaml --flop-per-token 60M --json
cp out alike.json
printf 'machines:\n  - {node: 1, rank_flops: 20GFLOP/s}\n' >>alike.yaml
expect 0 "$weft" plan run.yaml --cluster alike.yaml --flop-per-token 60M --json
same alike.json out
refuses_like ".*exchanging alone takes longer with the wire as given, expected .*" \
    "$weft" plan run.yaml --link 1Mbit,1ms --measured "2 nodes, ddp: 0.3 s"
expect 0 "$weft" plan run.yaml --link 1Gbit,1ms --accelerator A100 --framework ddp --precision mixed
expect 0 "$weft" plan run.yaml "${facts[@]}" --batch per-rank batch.micro=64 --json
python3 - out <<'PY' || fail "a batch per rank"
import json, sys
a = json.load(open(sys.argv[1]))
two = [x for x in a["candidates"] if x["nodes"] == 2][0]
p = two["prediction"]
assert abs(p["tokens_per_s"] * p["mean_step_s"] / 4096 - 1) < 1e-6
PY
expect 0 "$weft" plan run.yaml "${facts[@]}" batch.micro=64 --wide
grep -q "^Against one node alone" out || fail "batch.micro does not adapt to 2 nodes"
expect 0 "$weft" plan run.yaml "${facts[@]}" --failures 100h --restart 5min --save 30s

# -- eight people with machines (tests/unit/planner/test_personas.c): 20 lines each, of 80 columns
lines() {
    expect 0 "$weft" plan data.length=512 "$@"
    (($(wc -l <out) <= 20 && $(wc -L <out) <= 80)) || fail "$*: $(wc -l <out) lines: $(<out)"
    grep -qE "^(Take|Stay|Measure first)" out || fail "$*: no answer"
}
small=(--layers 4 run.steps=5000 batch.tokens_per_step=262144)
lines --parameters 1G "${small[@]}" --nodes 2 --accelerator RTX4090 --link 1Gbit,0.2ms
lines --parameters 350M "${small[@]}" --nodes 4 --ranks-per-node 8 --accelerator A100-80GB \
    --link 25Gbit,50us --node-link 300GBps,5us
lines --parameters 20M --layers 4 run.steps=2000 batch.tokens_per_step=65536 --nodes 10 --accelerator M4 \
    --node-memory 16GB --link 1Gbit,0.3ms
lines --parameters 120M "${small[@]}" --nodes 8 --accelerator RTX3060 --link 300Mbit,20ms --up 50Mbit
lines --parameters 120M "${small[@]}" --nodes 4 --sites 2 --accelerator RTX4090 --link 10Gbit,0.1ms \
    --site-link 1Gbit,20ms
grep -qxF "cluster  4 nodes x 1 rank, 2 sites 1 Gbit/s, 20 ms apart; facts: by hand" out || fail "sites: $(sed -n 2p out)"
lines --parameters 355M "${small[@]}" --nodes 16 --accelerator A10G --link 10Gbit,0.1ms --failures 1h \
    --price 0.5/h
lines --parameters 8G "${small[@]}" --lora 16 --weights 4bit --nodes 2 --accelerator RTX4090 --link 1Gbit,0.2ms
lines --parameters 70G --layers 40 run.steps=5000 batch.tokens_per_step=262144 --nodes 8 --ranks-per-node 8 --accelerator H100 --link 400Gbit,5us \
    --node-link 350GBps,5us

# -- a lag of short runs that is none in a long one
expect 0 "$weft" plan --wide --parameters 1M --layers 6 data.length=512 run.steps=20000 batch.tokens_per_step=65536 \
    --nodes 2 --accelerator RTX3080 --link 3Gbit,0.1ms
tr -s "\n " " " <out | grep -q \
    "Take choco aer int4 .* 20k steps, 1.00 times .* leads and lags shrink, and may change sides, in longer runs:" ||
    fail "a method that changes sides: $(<out)"

# -- of several frameworks the best row of each, of one all
expect 0 "$weft" plan run.yaml "${facts[@]}" --nodes 4 --ranks-per-node 2 --framework ddp,fsdp,zero1
for kind in ddp fsdp zero1; do (($(grep -cE "^ *[0-9]+[*=]? +$kind " out) == 1)) || fail "$kind: $(cat out)"; done
(($(wc -l <out) <= 20)) || fail "a long answer: $(cat out)"
expect 0 "$weft" plan run.yaml "${facts[@]}" --nodes 4 --framework ddp
(($(grep -cE "^ *[0-9]+[*=]? +ddp +[24] " out) == 2)) || fail "ddp on 2 and on 4: $(cat out)"

# -- facts as people have them
expect 0 "$weft" plan --parameters 1.2m --layers 2 --ranks-per-node 4,2 --link 1gbit,1ms \
    --accelerator "rtx 4090" --price 2.10/h --failures 1h batch.tokens_per_step=16384 \
    data.length=128 run.steps=400
tr -s "\n " " " <out | grep -q "x 4,2 ranks, .*failures a node every 60 min, 3 min .*a price of [^(]* (at 2.1 an hour for each node)" ||
    fail "ranks of each machine, price, energy and failures: $(<out)"
some=(plan --parameters 1.2m --layers 2 --ranks-per-node 4,2 --link 1gbit,1ms --accelerator "rtx 4090"
    batch.tokens_per_step=16384 data.length=128 run.steps=400)
for how in "" --wide --json "--html page.html"; do
    # shellcheck disable=SC2086
    expect 0 "$weft" "${some[@]}" $how
    [ "${how#--html}" = "$how" ] || cp page.html out
    tr -s "\n " " " <out | grep -q "on 2 nodes with 6 \(ranks\|whole copies\)" || fail "six ranks, $how: $(<out)"
    ! tr -s "\n " " " <out | grep -q "x 4 \(ranks\|whole copies\)" || fail "two more ranks, $how: $(<out)"
done
# whole copies need as much of each of the two ranks as of each of the four
expect 0 "$weft" plan --parameters 1.6G --layers 2 --ranks-per-node 4,2 --link 10gbit,1ms --accelerator rtx3090 \
    --precision bf16 batch.tokens_per_step=24576 data.length=1024 run.steps=400 --framework ddp --json
python3 -c 'import json, sys
ddp, = (c for c in json.load(open("out"))["candidates"] if c["name"] == "ddp")
sys.exit(not (ddp["usable"] and 12e9 < ddp["prediction"]["memory_bytes"] < 24e9))' || fail "ddp on 4 and 2 ranks of 24 GB"
expect 0 "$weft" "${some[@]}" --wide
grep -qE " 2 +2\.\.4 " out || fail "shards of two and of four: $(<out)"
expect 0 "$weft" "${some[@]}" --json
python3 - <<'PY' || fail "ranks, and the energy of six"
import json
a = json.load(open("out"))
assert a["ranks"] == [4, 2], a["ranks"]
kW = {c["nodes"]: c["kilowatt_hours"] / c["hours"] for c in a["candidates"]}
assert abs(kW[2] / kW[1] - 1.5) < 1e-6, kW
PY
expect 0 "$weft" plan run.yaml "${facts[@]}" --price "1.20 EUR/h" --json
python3 - <<'PY' || fail "money"
import json
a = json.load(open("out"))
assert a["money"] == "EUR" and " EUR" in a["answer"] and "an hour for each" not in a["answer"], a["answer"]
PY
# what nobody said of the run is an assumption
expect 0 "$weft" plan --parameters 1.2m --layers 2 --nodes 2 --link 1gbit,1ms --measured "1 node: 0.9 s"
tr -s "\n " " " <out | grep -q "Assumed: .*batch.tokens_per_step=[0-9]* and run.steps=1000" || fail "defaults: $(<out)"
# a batch that nobody gave: 16,384 tokens of each rank, and no more than a model of that size is trained with
while read -r tokens flags; do
    # shellcheck disable=SC2086
    expect 0 "$weft" plan --layers 1 $flags --link 1gbit,1ms --node-flops 1T --json
    [[ $(python3 -c 'import json; print(json.load(open("out"))["tokens_per_step"])') == "$tokens" ]] || fail "$flags: not $tokens"
done <<'END'
32768 --parameters 125M --nodes 2
131072 --parameters 1M --nodes 8 --ranks-per-node 2
16384 --parameters 1M --nodes 8 --ranks-per-node 2 --batch per-rank
4096 --parameters 1M --nodes 2 batch.tokens_per_step=4096
END
expect 0 "$weft" plan run.yaml "${facts[@]}"
if tr -s "\n " " " <out | grep -q "Assumed: .*run.steps=.* method "; then fail "what was given is no assumption: $(<out)"; fi
# a framework that nobody asked for leaves room for the next methods
expect 0 "$weft" plan --parameters 1.3G --layers 24 data.length=2048 batch.tokens_per_step=1048576 run.steps=10000 \
    --nodes 16 --accelerator A10G --link 10Gbit,0.1ms
(($(grep -cE "^ *[0-9]+[*=]? +fsdp " out) <= 2)) || fail "fsdp instead of alternatives: $(<out)"
expect 0 "$weft" plan run.yaml --nodes 3 --link 1gbit,1ms --measured "1 node: 4 it/s"
grep -q "predicted 250 ms" out || fail "it/s: $(grep measured out)"
tr -s "\n " " " <out | grep -q "All 3 nodes can share batch.tokens_per_step=2016, not 2048" ||
    fail "no batch for all nodes"
refuses_like "--ranks-per-node is '4,x', expected a number, or 2 to 64 numbers .*, such as 4,2" \
    "$weft" plan run.yaml "${facts[@]}" --ranks-per-node 4,x
refuses_like "--ranks-per-node is '4,2', of 2 nodes, but --nodes is 3" \
    "$weft" plan run.yaml "${facts[@]}" --ranks-per-node 4,2 --nodes 3
refuses_like "--ranks-per-node is '4,2', expected one number beside --measured" \
    "$weft" plan run.yaml --link 1gbit,1ms --ranks-per-node 4,2 --measured "1 node: 4 it/s"
refuses_like "--price is 'much', expected a price of an hour such as 2.10/h from 0.0001 to 1000000000" \
    "$weft" plan run.yaml "${facts[@]}" --price much

# -- one accelerator for each node: as machines of those rates in cluster.yaml
cat >mixed.yaml <<'YAML'
nodes: 3
rank_flops: 55.34T
memory: 24GB
memory_bandwidth: 360GB/s
wire: {bandwidth: 1Gbit, latency: 1ms}
machines: [{node: 1, rank_flops: 8.3853T, memory: 12GB}, {node: 2, rank_flops: 23.814T}]
YAML
each=(plan run.yaml --link "1gbit,1ms" --json)
expect 0 "$weft" "${each[@]}" --cluster mixed.yaml
cp out mixed.json
for names in "rtx4090,RTX3060,NVIDIA GeForce RTX 3090" "RTX3060,RTX3090,RTX4090"; do
    expect 0 "$weft" "${each[@]}" --accelerator "$names"
    python3 - <<'PY' || fail "$names"
import json
mixed, out = ({(c["settings"], c["framework"]): c for c in json.load(open(f))["candidates"]} for f in ("mixed.json", "out"))
assert mixed.keys() == out.keys() and max(c["nodes"] for c in out.values()) == 2
assert not [c["name"] for k, c in out.items() if abs(c["hours"] / mixed[k]["hours"] - 1) > 1e-3]
PY
done
expect 0 "$weft" plan run.yaml --link "1gbit,1ms" --accelerator M4,RTX4090 --node-memory 32GB
refuses_like "--accelerator names M4, of which there are several sizes of memory, expected --node-memory, .*" \
    "$weft" plan run.yaml --link "1gbit,1ms" --accelerator M4,RTX4090
for with in "--cluster mixed.yaml" "--node-flops 1T" "--nodes 3" "--ranks-per-node 4,2"; do
    # shellcheck disable=SC2086
    refuses_like "--accelerator is 'T4,L4', one for each of 2 nodes, expected none beside .*${with%% *}.*" \
        "$weft" plan run.yaml --link "1gbit,1ms" --accelerator T4,L4 $with
done

# -- "no" is the answer of all methods, not of the fastest; who stays on one node needs no shares
expect 0 "$weft" plan --parameters 22M --layers 6 data.length=1024 run.steps=200 --accelerator RTX3080,L4 \
    batch.tokens_per_step=32768 --link 490Mbit,5.7ms --precision mixed --json
[[ $(python3 -c 'import json; print(json.load(open("out"))["worth"])') == measure ]] || fail "no, and one may pay"
expect 0 "$weft" plan --parameters 23156349 --layers 12 data.length=512 run.steps=200 batch.tokens_per_step=3072 \
    --accelerator H100,L4,RTX4070 --link 66180910bit,52us --shares
if ! grep -q "^Stay on" out || grep -q "^Sequences" out || (($(wc -L <out) > 80)); then fail "stays: $(<out)"; fi

# -- an end beside 1 says on which side it is
for rate in 340 350 360 370; do
    expect 0 "$weft" plan run.yaml --link "${rate}Mbit,50us" --same --measured "1 node: 0.1 s"
    ! grep -qE "\(1 to|[^.]\b1\.\.1" out || fail "$rate Mbit/s: $(grep -E '\(1 to|[^.]\b1\.\.1' out)"
done

# -- 80 columns, whatever the numbers; why nothing has room
for word in "--node-memory 1kB" "--node-flops 1" "--node-flops 1G --price 2e6" "--nodes 4 --top 0"; do
    # shellcheck disable=SC2086
    expect 0 "$weft" plan run.yaml "${facts[@]}" $word
    (($(wc -L <out) <= 80)) || fail "$word: $(awk 'length > 80' out | head -1)"
    ! grep -qE "[0-9]e[+-][0-9]" out || fail "$word: $(grep -E '[0-9]e[+-][0-9]' out)"
done
expect 0 "$weft" plan run.yaml "${facts[@]}" --node-memory 1kB
grep -q "^  no room: the least of these, " out || fail "no word on memory: $(grep 'no room' out | tail -1)"
tr -s "\n " " " <out | grep -q "of memory per rank in bf16 with moments in 8 bits, 1.0 kB are there" ||
    fail "how much memory there is"
tr -s "\n " " " <out | grep -q "No rank has room for its part: .*tensor parallelism.*Megatron-LM" || fail "who does it: $(<out)"

# -- gloo's reduce-scatter sends as much as an all-reduce
for kind in ring gloo; do
    expect 0 "$weft" plan run.yaml "${facts[@]}" --framework fsdp --collective $kind --collective-cpu 0.002us --json
    cp out $kind.json
done
python3 - <<'PY' || fail "gloo"
import json
ring, gloo = (next(c["prediction"] for c in json.load(open(f))["candidates"]
                   if c["framework"] == "fsdp" and c["nodes"] == 2) for f in ("ring.json", "gloo.json"))
assert abs(gloo["wire_bytes"] / ring["wire_bytes"] - 4 / 3) < 1e-6
assert gloo["mean_step_s"] > ring["mean_step_s"]
PY

# -- any model
cat >config.json <<'JSON'
{"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 3,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
 "tie_word_embeddings": true}
JSON
expect 0 "$weft" plan run.yaml "${facts[@]}" --hf config.json --json
python3 -c 'import json; assert json.load(open("out"))["parameters"] == 512*64 + 3*(64*64*3 + 3*64*96 + 128) + 64' ||
    fail "parameters of config.json"
mkdir -p init && cp config.json init/
# keys that the file gave stay given: what was measured on one node is what the table says
expect 0 "$weft" plan run.yaml --link 100Mbit,1ms --hf config.json --measured "1 node: 0.9 s"
grep -qE "^ *[0-9]+= +one node +1 +900 ms " out || fail "one node: $(grep 'one node' out)"
expect 0 "$weft" plan run.yaml "${facts[@]}" --json --hf config.json
cp out a.json
expect 0 "$weft" plan run.yaml "${facts[@]}" --json model.init=init
same a.json out
expect 0 "$weft" plan run.yaml "${facts[@]}" --parameters 200k --layers 3 --json
python3 -c 'import json; assert abs(json.load(open("out"))["parameters"] / 2e5 - 1) < 0.02' ||
    fail "--parameters 200k"
expect 0 "$weft" plan --parameters 124M --nodes 2 --link 1Gbit,1ms --node-flops 1T data.length=1024 --top 1
grep -q "^run  *124M parameters" out || fail "the table of positions is counted on top: $(head -1 out)"
refuses "could not open nothing: No such file or directory" \
    "$weft" plan run.yaml "${facts[@]}" model.init=nothing
refuses "could not open gone.json: No such file or directory" \
    "$weft" plan run.yaml "${facts[@]}" --hf gone.json
refuses "--hf and --parameters both say the model, expected one" \
    "$weft" plan run.yaml "${facts[@]}" --hf config.json --parameters 1M
refuses "--parameters is 'many', expected a whole number such as 63M" \
    "$weft" plan run.yaml "${facts[@]}" --parameters many
refuses "--layers belongs to --parameters; of a run's model say model.layers=N" \
    "$weft" plan run.yaml "${facts[@]}" --layers 3
expect 2 "$weft" plan run.yaml "${facts[@]}" batch.tokens_per_step=7

# -- an all-reduce is what the wire carries: the range shrinks, and the label is not asked
answer_of() { expect 0 "$weft" plan run.yaml "${facts[@]}" --framework ddp --same "$@" --json; }
answer_of && cp out label.json
answer_of --allreduce "2 nodes: 5 MB/s" && cp out carried.json
answer_of --allreduce "iperf3 x 2: 80 Mbit/s" && cp out stream.json
python3 - <<'PY' || fail "an all-reduce"
import json
def of(name):
    a = json.load(open(name))
    c = next(c for c in a["candidates"] if c["framework"] == "ddp" and c["nodes"] == 2)
    return a["wire"]["bandwidth_Bps"], c["alone_range"]["high"] / c["alone_range"]["low"]
label, carried, stream = map(of, ("label.json", "carried.json", "stream.json"))
assert label[0] == 12.5e6 and carried[0] == 5e6 and abs(stream[0] / 6.5e6 - 1) < 1e-9
assert carried[1] < stream[1] and carried[1] < label[1]
PY
refuses "--wire and --allreduce both say what the wire carries, expected one of them" \
    "$weft" plan run.yaml "${facts[@]}" --wire tcp --allreduce "2 nodes: 5 MB/s"
refuses_like "--allreduce '2 nodes: 5 MB/s': of two exchanges one is not of one stream and the other of several, .*" \
    "$weft" plan run.yaml "${facts[@]}" --allreduce "2 nodes: 5 MB/s" --allreduce "2 nodes: 5 MB/s"
# one socket carries a tenth of eight: the plan says so, and full sync is faster with more of them
streams=(--allreduce "iperf3: 8 Mbit/s" --allreduce "iperf3 x 8: 80 Mbit/s" --same)
expect 0 "$weft" plan run.yaml "${facts[@]}" "${streams[@]}"
tr -s "\n " " " <out | grep -q "One socket carries 10 % of the wire: mesh.streams=11 fills it" || fail "$(<out)"
expect 0 "$weft" plan run.yaml "${facts[@]}" "${streams[@]}" --json
mv out few.json
expect 0 "$weft" plan run.yaml "${facts[@]}" "${streams[@]}" mesh.streams=11 --json
python3 - few.json out <<'PY' || fail "more sockets are not faster"
import json, sys
few, many = (max(c["speedup"] for c in json.load(open(f))["candidates"] if c["nodes"] > 1) for f in sys.argv[1:])
assert few < 0.8 * many, (few, many)
PY
for bad in "" "2 nodes" "1 node: 5 MB/s" "2 nodes: fast" "2 nodes: 80 ms"; do
    refuses_like "--allreduce '$bad': .*, expected such as .*" \
        "$weft" plan run.yaml "${facts[@]}" --allreduce "$bad"
done

# -- many nodes: an answer, also with a sanitizer on a busy machine
expect 0 timeout 400 "$weft" plan run.yaml "${facts[@]}" --nodes 4096 --jitter 5% \
    batch.tokens_per_step=131072
grep -qE "^ *[0-9]+\*? +full sync +4096 " out || fail "4096 nodes are not in the table"

# -- what cannot be is one sentence, and nothing else
bad() {
    expect 2 "$weft" plan run.yaml "$@"
    [[ ! -s out ]] || fail "$*: something on stdout"
    (($(wc -l <err) == 1)) || fail "$*: $(wc -l <err) lines: $(head -3 err)"
    grep -qE "^weft: .*('|not|unknown|expected|are there|there is no)" err || fail "$*: $(head -1 err)"
}
for value in 1Gbit,1ms,3 Gbit,1ms 1Gbit,-1ms nan,1ms 1Gbit,1kg 1e-300bit ""; do
    bad --node-flops 20G --link "$value"
done
for value in -3T inf 0 fast; do bad --link 100Mbit --node-flops "$value"; done
for value in 1e9 -2 two 99999999999999999999; do bad "${facts[@]}" --nodes "$value"; done
for word in "--ranks-per-node 0" "--jitter x" "--jitter 500%" "--stall 1%" "--stall 200%,1s" \
    "--drift -1%" "--memory-bandwidth 5" "--overhead lots" "--launch 3" \
    "--framework horovod" "--collective star" "--precision f8" "--batch mine" \
    "--failures 4000" "--restart 5min" "--roll-back" "--up 5" "--loss 91%" "--wire-jitter 5" \
    "--busy 8h" "--busy 25h,30%" "--busy 8,30%" "--busy 8h,0%" "--busy 8h,120%" "--shares" \
    "--critical-batch 0" "--accelerator Z80" "--parameters 0" \
    "--parameters 1e30" "--hf run.yaml" "--cluster /dev/null" "--nonsense" "nonsense=3" \
    "--site-link 1Gbit,1ms --sites 0" "--svg none/x.svg" "--write none/x.yaml" \
    "--nodes 70000 batch.tokens_per_step=2240000" "--collective ring" "--weights 4bit" "--lora 0" "--trainable 2" "--lora 4 --trainable 1%" \
    "--up 0Mbit" "--memory-bandwidth 0GBps" "--node-flops 0" "--parameters 63M --layers 1.5" \
    "--failures 0s" "--failures 5ms" "--save 30s"; do
    # shellcheck disable=SC2086
    bad "${facts[@]}" $word
done
for text in "" "1 node" "1 node: -3 s" "0 nodes: 3 s" "1 node, fsdp9: 3 s" "1 node: 1e-30 s" \
    "1 node: 1e30 s" "2 nodes, 2 nodes: 4 s" "2 nodes, ddp, fsdp: 4 s" "1 node, 3k tokens, 3k tokens: 4 s"; do
    bad "${facts[@]}" --measured "$text"
done
refuses "--site-link is the wire between sites, but there is no --sites" \
    "$weft" plan "${facts[@]}" --site-link 1Gbit,1ms

# -- what is no file is written to, not replaced: a pipe, a device
mkfifo pipe
timeout 60 cat pipe >drawn &
expect 0 "$weft" plan run.yaml "${facts[@]}" --svg pipe
wait $!
[[ -p pipe ]] || fail "the pipe has become a file"
grep -q "</svg>" drawn || fail "nothing came through the pipe"

# -- parameters that are asked for are those that are told, whatever the length of a sequence
for words in "124M 128" "124M 1024" "13G 64"; do
    read -r asked length <<<"$words"
    expect 0 "$weft" plan "${facts[@]}" --parameters "$asked" data.length="$length" \
        batch.tokens_per_step=$((4 * length)) run.steps=20 --same
    grep -q "^run      $asked parameters, " out || fail "$asked parameters: $(head -1 out)"
done

# -- an encoder and a decoder of their own lengths, a batch in rows: bytes are those that training sends
t5=(model.kind=t5 model.layers=2 model.decoder_layers=1 model.width=32 model.heads=2 model.vocab=300
    data.length=12 data.source_length=20 batch.rows_per_step=8 method=hsdp mesh.threads=1)
expect 0 "$weft" bench train "${t5[@]}" mesh.nodes=2 --steps 2 --warmup 1 --json
sent=$(python3 -c 'import json; print(json.load(open("out"))["wire_bytes"])')
expect 0 "$weft" plan "${t5[@]}" --nodes 2 --link 100Mbit,1ms --node-flops 20G --framework ddp,fsdp --json
python3 - "$sent" <<'PY' || fail "a plan of an encoder and a decoder"
import json, sys
plan = json.load(open("out"))
assert plan["tokens_per_step"] == 8 * (12 + 20)
full = next(c for c in plan["candidates"] if c["name"] == "full sync" and c["nodes"] == 2)
assert full["prediction"]["wire_bytes"] == int(sys.argv[1]), (full["prediction"]["wire_bytes"], sys.argv[1])
assert {"ddp", "fsdp"} <= {c["framework"] for c in plan["candidates"]}
PY
computing() { # SOURCE TARGET: seconds that one node computes in a step
    expect 0 "$weft" plan "${t5[@]}" data.source_length="$1" data.length="$2" model.vocab=8000 \
        --nodes 2 --link 1Gbit,1ms --node-flops 20G --same --json
    python3 -c 'import json; print([c for c in json.load(open("out"))["candidates"] if c["nodes"] == 1][0]["prediction"]["compute_s"])'
}
# only positions of the target pass through the head
python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert 1.2 * a < b < 4 * a, (a, b)' \
    "$(computing 96 32)" "$(computing 32 96)" || fail "lengths of the two parts count alike"

# -- machines that differ, and wires that are not what their label says
cat >machines.yaml <<'YAML'
nodes: 3
rank_flops: 20G
wire: {bandwidth: 100Mbit, latency: 1ms}
machines:
  - {node: 0, rank_flops: 5G, memory: 8GB}
  - {node: 2, bandwidth: 20Mbit, up: 5Mbit}
YAML
step() { # NODES: of full sync in out
    python3 - "$1" <<'PY'
import json, sys
for c in json.load(open("out"))["candidates"]:
    if c["name"] in ("full sync", "one node") and c["nodes"] == int(sys.argv[1]):
        print(round(c["prediction"]["mean_step_s"] * 1e6))
        break
PY
}
plan_machines() { expect 0 "$weft" plan run.yaml batch.tokens_per_step=3072 --cluster machines.yaml --same --json "$@"; }
plan_machines
one=$(step 1) three=$(step 3)
plan_machines --shares --busy 8h,30% --loss 0.1% --wire-jitter 2ms --critical-batch 3k --batch per-rank
(($(step 1) == one)) || fail "one node: $(step 1) us, $one us without a wire's troubles"
sed -i 's/5Mbit/100Mbit/; s/20Mbit/100Mbit/' machines.yaml
plan_machines
(($(step 3) < three)) || fail "a faster way out does not help: $(step 3) us, $three us"
equal=$(step 3)
plan_machines --busy 8h,30%
(($(step 3) > equal)) || fail "busy hours cost nothing: $(step 3) us, $equal us"
# What a slow machine adds, by its number: it is left at home, has fewer sequences, or is too near to say.
at_home() { # RATE BATCH WORDS FLAGS: the answer with one of four machines (NODES) of that rate
    printf 'nodes: %s\nranks_per_node: 1\nrank_flops: 12T\nmemory: 24GB\nwire: {bandwidth: 10Gbit, latency: 50us}
machines:\n  - {node: 1, rank_flops: %s}\n' "${nodes:-4}" "$1" >slow.yaml
    expect 0 "$weft" plan --cluster slow.yaml --parameters 20M --layers 4 data.length=512 \
        batch.tokens_per_step="$2" run.steps=10000 --top 1 "${@:4}"
    tr '\n' ' ' <out | grep -qE -- "$3" || fail "$*: $(cat out)"
}
at_home 0.1T 24576 "on 3 nodes: .*Node 1 makes it 0\.0[0-9]+ times as fast \([0-9. to]+\) with as many sequences as the others: leave it at home"
at_home 0.1T 24576 "on 3 nodes: .*Node 1 makes it [0-9.]+ times as fast \([0-9. to]+\): leave it at home" --shares
at_home 6T 65536 "on 4 nodes: .*by speed, in the order of the nodes: batch.shares=3[67],1[89],3[67],3[67], 1\.[0-9]+ times as fast as equal ones" --shares
at_home 4T 49152 "on 4 nodes.*batch.shares=29,9,29,29, [0-9.]+ times as fast as equal ones; with batch.shares=steps optimizer steps between two exchanges, 100,38,100,100\." \
    --shares --link 20Mbit,5ms
# One of little memory: what it does, what that costs, and whether it pays.
little() { # MEMORY RATE WORDS: the answer with one of three machines of that memory and rate
    printf 'nodes: 3\nrank_flops: 20G\nmemory: 2GB\nwire: {bandwidth: 1Gbit, latency: 1ms}
machines:\n  - {node: 2, memory: %s, rank_flops: %s}\n' "$1" "$2" >little.yaml
    expect 0 "$weft" plan --cluster little.yaml model.layers=8 model.width=128 model.heads=4 model.vocab=256 \
        data.length=128 batch.tokens_per_step=12288 run.steps=2000 --same --top 1
    tr '\n' ' ' <out | grep -qE -- "$3" || fail "$*: $(cat out)"
}
little 150MB 20G "Node 2 has 150 MB per rank, of 2[0-9]+ MB that others take: weft train computes activations twice there, which takes 1\.33 times as long"
little 90MB 20G "weft train makes smaller passes there\. It makes the run 1\.[2-5][0-9]* times as fast\."
little 150MB 12G "on 2 nodes: .*Node 2 makes it 0\.[0-9]+ times as fast .*: leave it at home"
little 2GB 20G "on 3 nodes"
grep -q "per rank, of" out && fail "with room for all: $(cat out)"
# Outer steps among neighbours: of two nodes they are DiLoCo's, of more a row beside it.
at_home 12T 49152 " noloco H=50 +4 " --link 1Gbit,5ms --top 0
nodes=2 at_home 12T 49152 " diloco H=50 +2 " --link 1Gbit,5ms --top 0
grep -q noloco out && fail "noloco on two nodes: $(cat out)"
nodes=2 at_home 0.1T 65536 "Stay on one node.*Node 1, the slowest, makes it 0\.[0-9]+ times as fast .*others: leave it at home"
nodes=2 at_home 0.4T 65536 "Measure first: .*: leave it at home unless a measurement shows more\. +Sequences of a step by speed" --shares
plan_machines --failures 1h --restart 10min
cp out going.json
plan_machines --failures 1h --restart 10min --roll-back
python3 - <<'PY' || fail "failures"
import json
going, back = (json.load(open(f))["candidates"] for f in ("going.json", "out"))
hours = lambda all: next(c["hours"] for c in all if c["name"] == "full sync" and c["nodes"] == 3)
assert any(c["goes_on"] for c in going) and not all(c["goes_on"] for c in going)
assert 0 < hours(going) < hours(back)
for all in going, back:  # the time that failures cost is in the speed-up as in the hours
    one = next(c["hours"] for c in all if c["nodes"] == 1)
    assert all[0]["speedup"] > 0 and all[0]["hours"] > 0
    assert not [c["name"] for c in all if abs(c["speedup"] * c["hours"] / one - 1) > 1e-6]
PY

finish
