# SPDX-License-Identifier: MIT
"""The late device (device.cpp): built once for each torch, and made known to it as "late"."""

import contextlib
import pathlib
import types
from typing import NamedTuple

import torch

HERE = pathlib.Path(__file__).resolve().parent
BUILT = HERE.parents[2] / "build"


class Counts(NamedTuple):
    """Since the process began."""

    down: int     #: bytes from the device to the host,
    up: int       #: and back
    waits: int    #: of the host for the device
    kernels: int  #: that were not waited for


def counts() -> Counts:
    return Counts(*torch.ops.late.counts())


@contextlib.contextmanager
def counted():
    """A list that has, after the block, what it cost."""
    found, before = [], counts()
    yield found
    found.append(Counts(*(b - a for a, b in zip(before, counts()))))


def register() -> None:
    """Once, before autograd has begun."""
    from torch.utils import cpp_extension
    folder = BUILT / f"late-{torch.__version__}"
    folder.mkdir(parents=True, exist_ok=True)
    cpp_extension.load("weft_late", [str(HERE / "device.cpp")], extra_cflags=["-O1", "-g0"],
                       build_directory=str(folder), is_python_module=False)
    torch.utils.rename_privateuse1_backend("late")
    torch.ops.late.register()
    module = types.ModuleType("torch.late")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.Stream, module.Event = torch.Stream, torch.Event
    module.stream = lambda stream: stream
    module.current_stream = lambda device=None: torch.accelerator.current_stream()
    module.synchronize = lambda device=None: torch.accelerator.synchronize()
    torch._register_device_module("late", module)
