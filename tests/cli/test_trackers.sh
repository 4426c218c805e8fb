#!/bin/bash
# SPDX-License-Identifier: MIT
# examples/handover.py gives trackers every key of a run and every number of every line, once, also
# while the run goes on. The trackers are stood in for by modules that write down what they are
# given.
. "$2/tests/cli/helpers.sh"
need_python
empty_here
some_text >text.txt
expect 0 "$weft" train text.txt model.layers=1 model.width=16 model.heads=2 data.length=16 \
    batch.tokens_per_step=64 run.steps=6 schedule.warmup=1 run.eval_every=3 run.eval_tokens=64 \
    optimizer.lr=6e-4 run.tensorboard=false mesh.threads=1 run.folder=run --quiet

mkdir -p stubs/mlflow
cat >stubs/wandb.py <<'PY'
"""What was given, in given.jsonl: settings first, then numbers by step."""
import json
class Run:
    def __init__(self, **facts):
        self.file = open("given.jsonl", "w")
        print(json.dumps(facts), file=self.file)
    def log(self, values, step):
        print(json.dumps([step, values]), file=self.file, flush=True)
    def finish(self):
        self.file.close()
def init(**facts):
    return Run(**facts)
PY
cat >stubs/mlflow/__init__.py <<'PY'
"""The same by the calls that MLflow has: parameters and metrics in lots of limited size."""
import json
from types import SimpleNamespace as Some
class MlflowClient:
    given = {"params": {}, "rows": {}}
    def get_experiment_by_name(self, name):
        return None
    def create_experiment(self, name):
        self.given["experiment"] = name
        return "7"
    def create_run(self, experiment, run_name):
        self.given["name"] = run_name
        return Some(info=Some(run_id="r"))
    def log_batch(self, run, metrics=(), params=()):
        assert len(params) <= 100 and len(metrics) <= 1000 and run == "r"
        self.given["params"].update((p.key, p.value) for p in params)
        for m in metrics:
            row = self.given["rows"].setdefault(str(m.step), {})
            assert m.key not in row, "twice: " + m.key
            row[m.key] = m.value
    def set_terminated(self, run):
        json.dump(self.given, open("given.json", "w"))
PY
cat >stubs/mlflow/entities.py <<'PY'
from collections import namedtuple
Metric = namedtuple("Metric", "key value timestamp step")
Param = namedtuple("Param", "key value")
PY
cat >judge.py <<'PY'
"""What a tracker was given, against the run's own files."""
import json, sys
rows = [json.loads(line) for line in open("run/metrics.jsonl")]
wanted = {}
for row in rows:
    of_step = wanted.setdefault(row["step"], {})
    numbers = {k: v for k, v in row.items() if k != "step" and type(v) in (int, float)}
    if "validation_loss" in row:  # its time is not that of the step
        del numbers["elapsed_s"]
    assert not set(numbers) & set(of_step), row
    of_step.update(numbers)
if sys.argv[1] == "wandb":
    lines = [json.loads(line) for line in open("given.jsonl")]
    config, given = lines[0]["config"], {}
    assert lines[0]["name"] == "run" and lines[0]["project"] == "weft", lines[0]
    for step, values in lines[1:]:
        assert not set(values) & set(given.setdefault(step, {})), f"step {step} twice"
        given[step].update(values)
else:
    all = json.load(open("given.json"))
    assert all["name"] == "run" and all["experiment"] == "weft"
    config = all["params"]
    given = {int(step): values for step, values in all["rows"].items()}
assert given == wanted, (given, wanted)
assert len(wanted) == 6 and "validation_loss" in wanted[3] and "loss" in wanted[6]
assert str(config["run.steps"]) == "6" and config["model.kind"] == "gpt2", config
assert str(config["optimizer.lr"]) == "0.0006" and len(config) > 80, len(config)
PY
hand() { # hand KIND ARGUMENTS..
    expect 0 env PYTHONPATH="$PWD/stubs" python3 "$source_dir/examples/handover.py" --to "$@"
    grep -qx "run: 8 lines, 6 steps" out || fail "$1 said: $(cat out err)"
    run python3 judge.py "$1"
    [[ $code == 0 ]] || fail "$1 was given: $(tail -1 err)"
}
hand wandb run
hand mlflow run
hand wandb --follow run # the run has ended: so does it

# A run that goes on: half of its lines and half of a line are there at first.
mv run/metrics.jsonl whole
lines=$(head -4 whole | wc -c)
head -c $((lines + 20)) whole >run/metrics.jsonl
PYTHONPATH="$PWD/stubs" python3 "$source_dir/examples/handover.py" --to wandb --follow run \
    >out 2>err &
follower=$!
until [[ $(wc -l <given.jsonl) == 5 ]]; do
    kill -0 $follower 2>/dev/null || { fail "does not follow: $(cat err)"; break; }
done
tail -c +$((lines + 21)) whole >>run/metrics.jsonl
wait $follower || fail "following: $(cat err)"
grep -qx "run: 8 lines, 6 steps" out || fail "following said: $(cat out err)"
run python3 judge.py wandb
[[ $code == 0 ]] || fail "following gave: $(tail -1 err)"

run python3 "$source_dir/examples/handover.py" --to wandb nowhere
[[ $code == 1 ]] || fail "a folder that is not there: exit code $code"
grep -qx "nowhere has no metrics.jsonl, expected the folder of a run" err || fail "said: $(cat err)"
finish
