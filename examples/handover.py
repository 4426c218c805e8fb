#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hands runs of weft to Weights & Biases or to MLflow: configuration, every step, every evaluation.

    python examples/handover.py --to wandb runs/flexdemo            WANDB_MODE=offline needs no network
    python examples/handover.py --to mlflow runs/a runs/b           into MLFLOW_TRACKING_URI, or ./mlruns
    python examples/handover.py --to wandb --follow runs/flexdemo   goes on while the run does

Each run becomes one of theirs, called as its folder. What is read are config.yaml and metrics.jsonl
(docs/metrics.md); --follow ends when the last step of run.steps is there, or with Ctrl-C.
"""
import argparse
import json
import os
import sys
import time


def settings(folder):
    """config.yaml as weft writes it, one `key: value` in each line, as {"section.key": value}."""
    out, section = {}, ""
    with open(os.path.join(folder, "config.yaml"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            key, _, value = line.strip().partition(":")
            value = value.strip()
            if not line.startswith(" "):
                section = key + "."
            if not value:
                continue
            name = (section if line.startswith(" ") else "") + key
            try:
                out[name] = json.loads(value)
            except ValueError:
                out[name] = value
    return out


def whole_lines(path, begin):
    """Objects of the lines behind byte `begin` that are complete, and where they end."""
    with open(path, "rb") as file:
        file.seek(begin)
        text = file.read()
    text = text[:text.rfind(b"\n") + 1]
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            print(f"{path}: a line is no JSON: {line[:60]!r}", file=sys.stderr)
    return [row for row in rows if isinstance(row, dict)], begin + len(text)


def numbers(row):
    """What of a line is a measurement: all its numbers but the step. null is left out. An evaluation
    has the step of a line before it, whose time it must not replace."""
    out = {key: float(value) for key, value in row.items()
           if key != "step" and isinstance(value, (int, float)) and not isinstance(value, bool)}
    if "validation_loss" in row:
        out.pop("elapsed_s", None)
    return out


class Wandb:
    def __init__(self, folder, name, config, project):
        import wandb
        self.run = wandb.init(project=project, name=name, config=config, reinit="create_new")

    def log(self, rows):
        for row in rows:
            self.run.log(numbers(row), step=int(row["step"]))

    def finish(self):
        self.run.finish()


class MLflow:
    LEAST = 1000  # metrics that one call takes

    def __init__(self, folder, name, config, project):
        import mlflow
        from mlflow.entities import Metric, Param
        self.metric, self.client = Metric, mlflow.MlflowClient()
        known = self.client.get_experiment_by_name(project)
        experiment = known.experiment_id if known else self.client.create_experiment(project)
        self.id = self.client.create_run(experiment, run_name=name).info.run_id
        params = [Param(key, str(value)[:500]) for key, value in config.items()]
        for i in range(0, len(params), 100):
            self.client.log_batch(self.id, params=params[i:i + 100])
        self.begun = os.path.getmtime(os.path.join(folder, "config.yaml"))

    def log(self, rows):
        batch = [self.metric(key, value, int(1000 * (self.begun + row.get("elapsed_s", 0))), int(row["step"]))
                 for row in rows for key, value in numbers(row).items()]
        for i in range(0, len(batch), self.LEAST):
            self.client.log_batch(self.id, metrics=batch[i:i + self.LEAST])

    def finish(self):
        self.client.set_terminated(self.id)


def hand_over(folder, kind, project, follow):
    config = settings(folder)
    name = os.path.basename(os.path.abspath(folder))
    target = kind(folder, name, config, project)
    path, begin, last, seen = os.path.join(folder, "metrics.jsonl"), 0, 0, 0
    try:
        while True:
            rows, begin = whole_lines(path, begin)
            rows = [row for row in rows if isinstance(row.get("step"), int)]
            target.log(rows)
            seen += len(rows)
            last = max([last] + [row["step"] for row in rows if "loss" in row])
            if not follow or last >= config.get("run.steps", 0):
                break
            time.sleep(2)
    except KeyboardInterrupt:
        pass
    target.finish()
    print(f"{folder}: {seen} lines, {last} steps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--to", choices=("wandb", "mlflow"), required=True)
    parser.add_argument("--project", default="weft")
    parser.add_argument("--follow", action="store_true", help="of one run: go on while it does")
    args = parser.parse_args()
    if args.follow and len(args.runs) > 1:
        parser.error("--follow is of one run")
    kind = {"wandb": Wandb, "mlflow": MLflow}[args.to]
    for folder in args.runs:
        if not os.path.isfile(os.path.join(folder, "metrics.jsonl")):
            sys.exit(f"{folder} has no metrics.jsonl, expected the folder of a run")
        hand_over(folder, kind, args.project, args.follow)


if __name__ == "__main__":
    main()
