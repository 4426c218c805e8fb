# SPDX-License-Identifier: MIT
"""weft under a PyTorch loop.

    import weft_sync.torch as weft

    optimizer = weft.Optimizer(model, method="flexdemo", lr=1e-3)
    for x, y in loader:
        loss = loss_function(model(x), y)
        loss.backward()            # gradients leave while backward goes on
        optimizer.step(loss)
        optimizer.zero_grad()

One process per machine or per GPU, started by torchrun or with RANK, WORLD_SIZE, MASTER_ADDR
and MASTER_PORT; without them the process is alone.
"""

from __future__ import annotations

try:
    import torch as _torch
except ImportError as error:  # pragma: no cover - needs an environment without torch
    raise ImportError("weft_sync.torch needs PyTorch 2.1 or later: "
                      "pip install 'weft-sync[torch]'") from error

from . import _world
from ._library import Error, LeftBehind, PeerError
from ._measure import StepTime, measure_step
from ._mix import GradScaler, Mix
from ._optimizer import Optimizer
from ._plan import plan
from ._saved import PerRank
from ._shares import Sampler
from ._sync import Report

device_mesh, mesh, node_group = _world.device_mesh, _world.mesh, _world.node_group

__all__ = ["Error", "GradScaler", "LeftBehind", "Mix", "Optimizer", "PeerError", "PerRank",
           "Report", "Sampler", "StepTime", "device_mesh", "measure_step", "mesh", "node_group", "plan"]
