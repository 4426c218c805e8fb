# SPDX-License-Identifier: MIT
"""Ranks are forks of this process, so it must have no threads of OpenMP's: one is enough."""
import os
import pathlib
import sys

os.environ["OMP_NUM_THREADS"] = "1"

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

try:
    import torch
    torch.set_num_threads(1)
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)  # imports a great deal, once
    import torch.nn.parallel.distributed  # noqa: F401
    SAID = f"torch {torch.__version__}"
except ImportError:
    torch = None
    SAID = "torch is not installed: what needs it is left out (make test-torch installs it)"


def pytest_ignore_collect(collection_path, config):
    if torch is None and collection_path.name.startswith("test_"):
        return collection_path.name != "test_core.py"
    return None


def pytest_report_header(config):
    return SAID
