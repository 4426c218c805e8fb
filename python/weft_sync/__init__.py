# SPDX-License-Identifier: MIT
"""weft: training across machines that are joined by slow links.

`weft_sync.torch` puts it under a PyTorch loop::

    import weft_sync.torch as weft

    optimizer = weft.Optimizer(model, method="flexdemo", lr=1e-3)

This module itself needs nothing but Python and libweft.
"""

from ._invite import Invitation, join, up
from ._library import Config, Context, Error, LeftBehind, Mesh, PeerError
from ._plan import Choice, Plan, plan
from ._sync import Report, Sync

__all__ = ["Choice", "Config", "Context", "Error", "Invitation", "LeftBehind", "Mesh", "PeerError", "Plan",
           "Report", "Sync", "join", "plan", "up"]
__version__ = "0.2.0"
