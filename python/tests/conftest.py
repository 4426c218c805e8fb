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
    from models import DEVICE
    if DEVICE == "late":  # before autograd has begun
        import late
        late.register()
    SAID = f"torch {torch.__version__}, parameters on {DEVICE}"
except ImportError:
    torch = None
    SAID = "torch is not installed: what needs it is left out (make test-torch installs it)"


def pytest_ignore_collect(collection_path, config):
    if torch is None and collection_path.name.startswith("test_"):
        return collection_path.name != "test_core.py"
    return None


def pytest_report_header(config):
    return SAID


def pytest_pyfunc_call(pyfuncitem):
    """With a device, autograd has threads, which a fork loses: a test has a process of its own then,
    so that what it runs before its ranks are made is no matter for others."""
    if torch is None or DEVICE == "cpu":
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    from ranks import Rank
    fine, said = Rank(pyfuncitem.obj, -1, {}, (), wanted).finish(300)
    if not fine and "Skipped" in said.splitlines()[-1]:
        import pytest
        pytest.skip(said.splitlines()[-1])
    assert fine, said
    return True


def pytest_collection_modifyitems(items):
    """The longest first: of several processes none runs it alone at the end."""
    items.sort(key=lambda item: item.name != "test_the_package_on_a_late_device")
