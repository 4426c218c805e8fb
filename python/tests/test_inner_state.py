# SPDX-License-Identifier: MIT
"""What a program reads of a wrapped optimizer is what the optimizer inside has."""

import torch

import models
import ranks


def _read():
    import weft_sync.torch as weft
    model = models.net()
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2)
    optimizer = weft.Optimizer(model, inner, method="ddp")
    p = next(model.parameters())
    assert p not in optimizer.state
    models.loss_of(model, weft.mesh().rank, 0).backward()
    optimizer.step()
    assert optimizer.state[p]["exp_avg"].abs().sum() > 0
    assert optimizer.state is inner.state
    inner.load_state_dict(inner.state_dict())  # which makes another one
    assert optimizer.state is inner.state
    optimizer.close()


def test_state_is_that_of_the_optimizer_inside():
    ranks.run(_read, 2)
