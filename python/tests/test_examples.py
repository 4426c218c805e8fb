# SPDX-License-Identifier: MIT
"""The programs of examples/torch, as their own words say to run them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from ranks import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_example(name, size, *args):
    port, env = free_port(), {**os.environ, "PYTHONPATH": str(ROOT / "python"),
                              "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size),
         "--master-port", str(port), str(ROOT / "examples" / "torch" / name), *args],
        env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("args", [[], ["--method", "diloco", "--key", "mixer.outer_every=20"]])
def test_gpt_learns(args, tmp_path):
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    said = run_example("gpt.py", 2, "--steps", "60", "--text", str(text), "--batch", "2", *args)
    loss = float(re.search(r"loss on held-out text ([0-9.]+)", said)[1])
    kilobytes = float(re.search(r": ([0-9.]+) kB a step", said)[1])
    assert loss < 4.5 and kilobytes > 1, said


def test_trainer_of_transformers():
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    said = run_example("hf_trainer.py", 2, "--steps", "30")
    assert float(re.search(r"mean loss of the run ([0-9.]+)", said)[1]) < 4.0, said
