#!/bin/bash
# SPDX-License-Identifier: MIT
# weft verify: a run that is whole, one flipped byte in each file in turn, what crashes leave.
. "$2/tests/cli/helpers.sh"
empty_here
some_text >text.txt
expect 0 "$weft" train data.path=text.txt "${tiny[@]}" run.folder=run run.save_every=4 \
    schedule.warmup=9
grep -q "schedule.warmup (9) is longer" err || fail "no warning: $(cat err)"
expect 0 "$weft" verify run
[[ ! -s err ]] || fail "what the run was warned of is repeated: $(cat err)"
grep -qE '^  ok       config.yaml ' out || fail "config: $(cat out)"
grep -qE '^  ok       metrics.jsonl +9 lines$' out || fail "metrics: $(cat out)"
grep -qE '^  ok       checkpoints/step-00000004 +every byte as it was written$' out || fail "checkpoint: $(cat out)"
grep -qE '^  ok       checkpoints/step-00000008 ' out || fail "checkpoint: $(cat out)"
grep -qE '^  ok       records +views, lines and checkpoints agree$' out || fail "records: $(cat out)"
! grep -q DAMAGED out || fail "damaged: $(cat out)"
expect 0 "$weft" verify run --json
python3 -c 'import json
a = json.load(open("out"))
assert a["run"] == "run" and a["damaged"] == 0 and all(p["whole"] for p in a["parts"])' || fail "--json: $(cat out)"
expect 0 "$weft" config run --json
python3 -c 'import json
a = json.load(open("out"))
assert a["run"]["save_every"] == 4 and a["data"]["path"] == ["text.txt"] and a["method"] == "none"
assert a["model"]["tied"] in ("auto", True) and a["run"]["tensorboard"] in (True, False)' || fail "--json: $(cat out)"
expect 0 "$weft" list methods --json
python3 -c 'import json
assert {"name", "meaning"} == set(json.load(open("out"))[0])' || fail "--json: $(cat out)"
expect 0 "$weft" list --json
python3 -c 'import json
assert {"models", "methods", "optimizers"} < set(json.load(open("out")))' || fail "--json: $(cat out)"

# one changed byte of each file of a checkpoint is found and its checkpoint named
files=0
while read -r file; do
    files=$((files + 1))
    middle=$(($(stat -c %s "$file") / 2))
    flip "$file" $middle
    expect 1 "$weft" verify run
    (($(grep -c DAMAGED out) == 1)) || fail "$file: $(cat out)"
    grep -q "DAMAGED  checkpoints/step-00000004" out || fail "$file: $(grep DAMAGED out)"
    flip "$file" $middle
done < <(find run/checkpoints/step-00000004 -type f)
((files >= 4)) || fail "only $files files in a checkpoint"
expect 0 "$weft" verify run

# what only reads changes no file: a kill at any moment of it leaves the run as it was
stamps() { find run text.txt -printf '%p %i %s %m %T@ %C@\n' | sort; }
stamps >before
expect 0 "$weft" eval run
expect 0 "$weft" sample run --prompt "the cat" --tokens 3
expect 0 "$weft" report run -o page.html
expect 0 "$weft" plan "${tiny[@]}" data.path=text.txt --nodes 2 --link 100Mbit,1ms --node-flops 1G --top 3
stamps >after
cmp -s before after || fail "reading changed the run: $(diff before after | head -4)"

cp -r run broken
echo 'nonsense' >>broken/metrics.jsonl
echo '{"step":9,"loss":1}' >>broken/metrics.jsonl
echo 'no_such: key' >>broken/config.yaml
truncate -s 10 broken/timeline.json
mv broken/checkpoints/step-00000004 broken/checkpoints/step-00000004.partial
rm "$(find broken/checkpoints/step-00000008 -name '*.safetensors' | head -1)"
cp -r broken/checkpoints/step-00000008 broken/checkpoints/step-00000006.damaged
expect 1 "$weft" verify run broken
(($(grep -c DAMAGED out) == 5)) || fail "not 5 damaged: $(cat out)"
grep -qE '^  ok       checkpoints/step-00000004.partial +a crash left it' out || fail "partial: $(cat out)"
grep -qE '^  DAMAGED  metrics.jsonl +line 10 is not a JSON object .*; 1 such lines$' out || fail "metrics: $(cat out)"

# two have written: lines that one had written are gone, its checkpoint is not
cp -r run cut
sed -i '3,$d' cut/metrics.jsonl
sed -i '2,$d' cut/nodes.jsonl
expect 1 "$weft" verify cut
grep -qE '^  DAMAGED  records +there is a checkpoint of step 8, and metrics.jsonl ends with step 4$' out ||
    fail "cut: $(cat out)"
grep -qE '^  ok       metrics.jsonl +2 lines$' out || fail "cut: $(cat out)"

expect 2 "$weft" verify none
mkdir empty
expect 2 "$weft" verify empty
grep -q 'empty is not a run folder' err || fail "empty: $(cat err)"
expect 2 "$weft" verify
finish
