# SPDX-License-Identifier: MIT
"""A loop with all that a user has in it: AdamW in groups, a scaler, clipping, a schedule, accumulation, a compiled model, an
average of the weights; = DDP."""

import contextlib
import os

import pytest
import torch
from models import flat, loss_of, net, start_gloo
from ranks import run

import weft_sync.torch as weft

MICRO, STEPS, OVERFLOWS = 2, 10, 4


def groups(model):
    return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0, "lr": 3e-3}]


def loop(way, paused):
    """`paused`: with no_sync, else by accumulate=."""
    rank = start_gloo() if way == "ddp" else int(os.environ["RANK"])
    model = net(rank if way == "weft" else 0)
    inner = torch.optim.AdamW(groups(model), lr=2e-3)
    called, opt, kind = torch.compile(model, backend="eager"), inner, torch.amp.GradScaler
    if way == "ddp":
        called = torch.nn.parallel.DistributedDataParallel(called)
    else:
        opt = weft.Optimizer(model, inner, method="ddp", skips=True, accumulate=1 if paused else MICRO)
        kind = weft.GradScaler
    scaler = kind("cpu", init_scale=2.0**12, growth_interval=4)
    schedule = torch.optim.lr_scheduler.LambdaLR(inner if way == "ddp" else opt, lambda t: 1 / (1 + t))
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for t in range(STEPS):
        for k in range(MICRO):
            last = k == MICRO - 1 or (way == "weft" and not paused)
            with contextlib.nullcontext() if last else (called if way == "ddp" else opt).no_sync():
                loss = loss_of(called, rank, t * MICRO + k) / MICRO
                scaler.scale(loss * float("inf") if (rank, t, k) == (1, OVERFLOWS, 0) else loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        if scaler.get_scale() >= before:
            schedule.step()
        ema.update_parameters(model)
    return flat(model), flat(ema.module), schedule.get_last_lr(), scaler.get_scale()


@pytest.mark.parametrize("paused", [True, False], ids=["no_sync", "accumulate"])
def test_all_that_is_in_a_users_loop_is_as_under_ddp(paused):
    wanted, found = run(loop, 2, "ddp", True), run(loop, 2, "weft", paused)
    for (model, ema, rates, scale), (ours, averaged, own, its) in zip(wanted, found):
        assert torch.equal(ours, found[0][0]) and rates == own and scale == its
        assert (model - ours).abs().max() < 1e-4 and (ema - averaged).abs().max() < 1e-4


def mixed(clip, fused):
    """DiLoCo around a scaled optimizer; process 1 has an infinity in one step."""
    rank = int(os.environ["RANK"])
    model = net(0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    mix = weft.Mix(model, inner, method="diloco", mixer_outer_every=3, between="ranks",
                   **({"optimizer_clip": 1.0} if clip else {}))
    scaler, moved = weft.GradScaler("cpu", init_scale=2.0**10), []
    for t in range(6):
        before = flat(model)
        loss = loss_of(model, rank, t)
        scaler.scale(loss * float("inf") if (rank, t) == (1, 3) else loss).backward()
        scaler.step(inner)
        scaler.update()
        inner.zero_grad()
        moved.append(not torch.equal(before, flat(model)))
    return mix.steps, flat(model), moved, scaler.get_scale()


@pytest.mark.parametrize("clip,fused", [(False, False), (True, False), (True, True)])
def test_a_step_that_a_scaler_skips_in_one_process_is_one_of_all(clip, fused):
    (steps, params, moved, scale), (also, same, stood, lower) = run(mixed, 2, clip, fused)
    assert steps == also == 6 and torch.equal(params, same) and bool(params.isfinite().all())
    assert all(moved) and stood == [True] * 3 + [False] + [True] * 2 and (scale, lower) == (2.0**10, 2.0**9)
