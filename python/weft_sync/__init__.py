# SPDX-License-Identifier: MIT
"""weft: training across machines that are joined by slow links.

`weft_sync.torch` puts it under a PyTorch loop::

    import weft_sync.torch as weft

    optimizer = weft.Optimizer(model, method="flexdemo", lr=1e-3)

This module itself needs nothing but Python and libweft.
"""

from ._library import Config, Context, Error, Mesh, PeerError
from ._sync import Report, Sync

__all__ = ["Config", "Context", "Error", "Mesh", "PeerError", "Report", "Sync"]
__version__ = "0.1.0"
