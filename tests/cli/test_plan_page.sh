#!/bin/bash
# SPDX-License-Identifier: MIT
# The page of weft plan --html in a real browser: what it computes for other wires, nodes and
# batches is what weft plan predicts there. plan_page.js has the claims.
. "$2/tests/cli/helpers.sh"
empty_here
need_browser

run=(data.path=none.txt data.length=32 model.layers=2 model.width=64 model.heads=2 run.steps=400
    schedule.warmup=2 mesh.threads=1)
plan() { # BATCH LINK NODES and more
    "$weft" plan "${run[@]}" batch.tokens_per_step="$1" --link "$2" --nodes "$3" --node-flops 20G \
        --memory-bandwidth 20GBps "${@:4}"
}
plan 2048 100Mbit,1ms 4 --html plan.html --json >shown.json || fail "no page"
expect 2 "$weft" plan "${run[@]}" --nodes 1 --node-flops 20G --html one.html
grep -q "there is nothing to draw in one.html" err || fail "one node: $(cat err)"
expect 2 "$weft" plan "${run[@]}" --link 1Gbit --node-flops 20G --same --html none/plan.html
! grep -qiE "https?://[^ ]*\.(js|css)|<link|src=" plan.html || fail "the page asks for something"
grep -q '"methods":\[{"name"' plan.html || fail "no model in the page"

# what the planner says at points of its own: off the page's grid
for point in "2048 30Mbit,20ms 4" "2048 333Mbit,0.3ms 4" "4096 40Mbit,1ms 4" "2048 3Mbit,2ms 4 --same" \
    "2048 7Gbit,50us 4 --same" "1024 40Mbit,1ms 4 --same" "8192 200Mbit,5ms 4 --same"; do
    # shellcheck disable=SC2086
    plan $point --json >plan.json || fail "$point: no plan"
    python3 - $point <<'PY'
import json, sys
batch, link, nodes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
plan = json.load(open("plan.json"))
for c in plan["candidates"]:
    print(json.dumps(dict(name=c["name"], nodes=c["nodes"], step=c["prediction"]["mean_step_s"],
                          rate=plan["wire"]["bandwidth_Bps"] * 8, latency=plan["wire"]["latency_s"],
                          batch=batch / 2048)))
PY
done >points.txt
python3 -c 'import json; print("const answer =", json.dumps(json.load(open("shown.json"))["answer"]))' >points.js
# on a slow wire one node with another optimizer is the choice
plan 2048 1Mbit,1ms 4 --html stay.html --json >stay.json || fail "no page of a slow wire"
python3 - >>points.js <<'PY' || fail "no choices"
import json
names = {}
for page, file in (("plan.html", "shown.json"), ("stay.html", "stay.json")):
    plan = json.load(open(file))
    names[page] = plan["candidates"][plan["choice"]]["name"]
assert names["stay.html"] == "one node, muon", names
print(f"const taken = {json.dumps(names)};")
PY
# with failures and a batch beyond which tokens teach less: speed-up and hours of the table
grieved=(--framework ddp --failures 40h --restart 5min --save 30s --critical-batch 3k --batch per-rank)
plan 2048 100Mbit,1ms 4 "${grieved[@]}" --html grieved.html --json >plan.json || fail "no page with failures"
python3 - >>points.js <<'PY' || fail "no hours"
import json
plan = json.load(open("plan.json"))
rows = [dict(name=c["name"], nodes=c["nodes"], speedup=c["speedup"], hours=c["hours"], goes_on=c["goes_on"],
             low=c["speedup_range"]["low"], high=c["speedup_range"]["high"])
        for c in plan["candidates"] if c["usable"]]
assert any(r["goes_on"] for r in rows) and any(not r["goes_on"] and r["nodes"] > 1 for r in rows)
print(f"const grieved = {json.dumps(rows)};")
PY
echo "const points = [$(paste -sd, points.txt)];" >>points.js
cat "$source_dir/tests/cli/plan_page.js" >>points.js
try_claims "$PWD/points.js"
finish
