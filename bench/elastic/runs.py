# SPDX-License-Identifier: MIT
"""Runs of several processes on this machine, over TCP, for trials of what the loss says."""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

ROWS, LENGTH = 24, 64  # of a step; divisible by 8, 4, 3, 2 and 1 nodes


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def write_run(folder, args, method, seed, warmup, save_every):
    lines = [
        f"data: {{path: [{os.path.abspath(args.text)}], length: {LENGTH}}}",
        "model: {kind: gpt2, layers: 2, width: 64, heads: 4}",
        f"batch: {{tokens_per_step: {ROWS * LENGTH}}}",
        f"run: {{steps: {args.steps}, eval_every: {args.steps}, save_every: {save_every}, "
        f"keep: 9, log_every: 1, tensorboard: false, seed: {seed}}}",
        f"schedule: {{warmup: {warmup}}}",
        "elastic: {batch: keep}",
        f"method: {method}",
    ]
    with open(os.path.join(folder, "run.yaml"), "w") as f:
        f.write("\n".join(lines) + "\n")


def entries(folder, name="metrics.jsonl"):
    try:
        with open(os.path.join(folder, "run", name)) as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def start(args, folder, words, variables=()):
    return subprocess.Popen([args.weft, "train", "run.yaml", "run.folder=run", "--quiet",
                             "mesh.threads=1", *words, *args.set], cwd=folder,
                            env={**os.environ, **dict(variables)},
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def start_all(args, folder, nodes, words=()):
    """A run of that many processes, which all begin now."""
    port = free_port()
    return [start(args, folder, [f"mesh.nodes={nodes}", *words],
                  {"WORLD_SIZE": str(nodes), "RANK": str(r), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": port}) for r in range(nodes)]


def alive(processes):
    """Ends with what one of them said that has ended in a fault."""
    for p in processes:
        if p.poll() not in (None, 0):
            sys.exit(f"a process ended: {p.stderr.read().decode()[-400:]}")


def finish(processes, killed=()):
    for p in processes:
        _, err = p.communicate(timeout=900)
        if p.returncode != 0 and p not in killed:
            sys.exit(f"a process ended with {p.returncode}: {err.decode()[-400:]}")


def last_loss(folder, args):
    found = [e["validation_loss"] for e in entries(folder)
             if e.get("step") == args.steps and "validation_loss" in e]
    if not found:
        sys.exit(f"{folder}/run/metrics.jsonl has no validation loss of step {args.steps}")
    return found[-1]


def options(about, method, steps):
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weft", default="build/release/weft", help="the program")
    p.add_argument("--text", required=True, help="what is learnt, a file")
    p.add_argument("--method", default=method, help="presets, with commas where several are tried")
    p.add_argument("--steps", type=int, default=steps)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all runs")
    return p


def within_a_folder(args, trials):
    """Calls trials(args, folder), with a folder for its runs."""
    args.weft = os.path.abspath(args.weft)
    base = tempfile.mkdtemp(prefix="elastic-")
    try:
        trials(args, base)
    finally:
        shutil.rmtree(base)
