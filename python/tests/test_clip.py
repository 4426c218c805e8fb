# SPDX-License-Identifier: MIT
"""Clipping what all processes agreed on, as DDP does, by torch's own functions and by weft."""

import contextlib
import logging
import os

import pytest
import torch
from models import flat, loss_of, net, start_gloo
from ranks import run

import weft_sync.torch as weft
from weft_sync import _decide

BOUND = 0.05  # of a norm that is ten times as large
ADAMW = dict(lr=2e-3, betas=(0.9, 0.999), weight_decay=0.1)
clip = torch.nn.utils.clip_grad_norm_


def trained(way, micro=1, dtype=torch.float32, steps=12):
    rank = start_gloo() if way == "ddp" else int(os.environ["RANK"])
    model = net(rank if way != "ddp" else 0).to(dtype)
    inner = torch.optim.AdamW(model.parameters(), **ADAMW)
    called, opt = model, inner
    if way == "ddp":
        called = torch.nn.parallel.DistributedDataParallel(model)
    else:
        opt = weft.Optimizer(model, inner, method="ddp", **{
            "backward": {"agree": "backward"}, "late": {"agree": "backward", "overlap": False},
            "agree()": {}, "key": {"optimizer_clip": BOUND}, "none": {}}[way])
    said, norms = [], []
    for t in range(steps):
        for k in range(micro):
            quiet = called if way == "ddp" else opt
            with quiet.no_sync() if k < micro - 1 else contextlib.nullcontext():
                loss = loss_of(called, rank, t * micro + k) / micro
                loss.backward()
        if way == "agree()":
            opt.agree(loss)
        if way not in ("key", "none"):
            norms.append(float(clip(model.parameters(), BOUND)))
        opt.step()
        opt.zero_grad()
        said.append(f"{loss.item():.7g}")
    return said, norms, flat(model)


@pytest.mark.parametrize("dtype,micro", [(torch.float32, 1), (torch.float32, 3), (torch.bfloat16, 1)])
def test_clipping_by_torch_is_that_under_ddp(dtype, micro):
    wanted = run(trained, 2, "ddp", micro, dtype)
    assert min(wanted[0][1]) > 2 * BOUND and wanted[0][1] == wanted[1][1]
    for way in ("backward", "agree()") + (("late",) if micro == 1 else ()):
        found = run(trained, 2, way, micro, dtype)
        assert torch.equal(found[0][2], found[1][2])
        for (losses, norms, _), (own, ours, _) in zip(wanted, found):
            assert losses == own and torch.allclose(torch.tensor(norms), torch.tensor(ours), rtol=1e-5)


def scaled(way, steps=8):
    """torch's recipe for 16 bits: unscale, clip, step; in one step process 1 has an infinity."""
    rank = start_gloo() if way == "ddp" else int(os.environ["RANK"])
    model = net(rank if way != "ddp" else 0)
    inner = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    called, opt, kind = model, inner, torch.amp.GradScaler
    if way == "ddp":
        called = torch.nn.parallel.DistributedDataParallel(model)
    else:
        opt, kind = weft.Optimizer(model, inner, method="ddp", skips=True), weft.GradScaler
    scaler, norms = kind("cpu", init_scale=2.0**12, growth_interval=1000), []
    for t in range(steps):
        loss = loss_of(called, rank, t)
        scaler.scale(loss * float("inf") if (rank, t) == (1, 3) else loss).backward()
        scaler.unscale_(opt)
        norms.append(0.0 if t == 3 else float(clip(model.parameters(), BOUND)))
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    return norms, scaler.get_scale(), flat(model)


def test_clipping_what_a_scaler_has_unscaled_is_that_under_ddp():
    wanted, found = run(scaled, 2, "ddp"), run(scaled, 2, "weft")
    assert torch.equal(found[0][2], found[1][2])
    for (norms, scale, params), (ours, own, also) in zip(wanted, found):
        assert torch.allclose(torch.tensor(norms), torch.tensor(ours), rtol=1e-5) and max(norms) > 2 * BOUND
        assert scale == own == 2.0**11 and (params - also).abs().max() < 1e-5


def agreed_scaled(scale):
    """Scaled gradients are agreed on in backward, and nobody unscales them before the step."""
    rank = int(os.environ["RANK"])
    model = net(rank)
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="ddp", agree="backward")
    scaler = torch.amp.GradScaler("cpu", init_scale=max(scale, 1.0), enabled=scale > 0)
    for t in range(4):
        scaler.scale(loss_of(model, rank, t)).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    return flat(model)


def test_what_was_agreed_on_is_unscaled_in_the_step():
    for plain, found in zip(run(agreed_scaled, 2, 0), run(agreed_scaled, 2, 2.0**12)):
        assert torch.equal(plain, found)


@pytest.mark.parametrize("method,named", [
    ("flexdemo", {}), ("topk", {}), ("signsgd", {}), ("flexdemo", {"replicator_sign": False}),
    ("ddp", {"replicator_values": "int8"}), ("ddp", {"auto": True})])
def test_what_a_scale_can_not_be_taken_out_of_is_refused(method, named, monkeypatch):
    """Signs were divided by the scale; momenta and what coding lost were of several scales."""
    monkeypatch.setattr(weft._world, "_default", None)
    model, keys = net(), dict(named)
    changes = keys.pop("auto", False)
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=1e-3), method=method, agree="backward", **keys)
    if changes:  # it may be coded later
        opt.decision = _decide.Decision(method, {}, "", "nodes: 2\n")
    for scale in (0, 1.0, 2.0**12):
        scaler = torch.amp.GradScaler("cpu", init_scale=max(scale, 1.0), enabled=scale > 0)
        scaler.scale(loss_of(model, 0, 0)).backward()
        if scale > 1:
            with pytest.raises(weft.Error, match=f"method {method} agreed on gradients that a scaler .* skips=True with"):
                scaler.step(opt)
        else:
            scaler.step(opt)
    opt.close()


def test_a_bound_of_wefts_own_is_not_one_of_scaled_gradients(monkeypatch):
    """The scaled norm was bounded, and the step divided by the scale afterwards."""
    monkeypatch.setattr(weft._world, "_default", None)
    model = net()
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=1e-3), method="ddp", agree="backward", optimizer_clip=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    scaler.scale(loss_of(model, 0, 0)).backward()
    with pytest.raises(weft.Error, match="optimizer.clip bounds the norm of gradients that a scaler has multiplied"):
        scaler.step(opt)
    opt.close()


def test_wefts_own_clipping_around_torchs_optimizer_is_that_under_ddp():
    wanted, found = run(trained, 2, "ddp"), run(trained, 2, "key")
    for (losses, _, params), (own, _, ours) in zip(wanted, found):
        assert [f"{float(a):.4g}" for a in losses] == [f"{float(b):.4g}" for b in own]
        assert (params - ours).abs().max() < 1e-4
    assert (run(trained, 2, "none")[0][2] - found[0][2]).abs().max() > 1e-3  # it is not clipped by default


def closed():
    """As Lightning calls it: zero_grad, backward and clipping in the closure, step around it."""
    model = net(int(os.environ["RANK"]))
    opt = weft.Optimizer(model, torch.optim.AdamW(model.parameters(), **ADAMW), method="ddp",
                         agree="backward")
    norms, losses = [], []

    def closure():
        opt.zero_grad()
        loss = loss_of(model, opt.mesh.rank, len(norms))
        loss.backward()
        norms.append(float(clip(model.parameters(), BOUND)))
        return loss

    for _ in range(12):
        losses.append(f"{opt.step(closure=closure).item():.7g}")
    return losses, norms


def test_clipping_in_a_closure_is_that_under_ddp():
    for (losses, norms, _), (own, ours) in zip(run(trained, 2, "ddp"), run(closed, 2)):
        assert losses == own and torch.allclose(torch.tensor(norms), torch.tensor(ours), rtol=1e-5)


def reported():
    """A loss that agree() is given is in the report; one that comes later is not known."""
    rank, model = int(os.environ["RANK"]), net()
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="ddp")
    loss_of(model, rank, 0).backward()
    opt.agree(float(rank))
    with pytest.raises(weft.Error, match="zero_grad after gradients are exchanged"):
        opt.zero_grad()
    with pytest.raises(weft.Error, match="a backward reached '.*' after the gradients were agreed"):
        loss_of(model, 0, 0).backward()  # autograd has added a part of it: of rows that all have, or copies would differ
    told = opt.step(7.0)
    loss_of(model, rank, 0).backward()
    opt.agree()
    return told.loss, opt.step(7.0).loss, opt.report.step


def test_the_loss_is_the_one_that_was_agreed_on():
    assert run(reported, 2) == [(0.5, None, 2)] * 2


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Linear(8, 4)

    def forward(self, x):
        return {"loss": torch.nn.functional.cross_entropy(self.net(x), x[:, :4].argmax(1))}


def rows_of(rank):
    return torch.randn(24, 8, generator=torch.Generator().manual_seed(rank))


def inside(model):
    return weft.Optimizer(model, torch.optim.AdamW(model.parameters(), **ADAMW), method="ddp",
                          agree="backward", accumulate=2)


def by_ddp(_folder):
    rank = start_gloo()
    model = Rows()
    ddp, opt = torch.nn.parallel.DistributedDataParallel(model), torch.optim.AdamW(
        model.parameters(), **ADAMW)
    for pair in rows_of(rank).view(3, 2, 4, 8):
        for x in pair:
            (ddp(x)["loss"] / 2).backward()
        clip(model.parameters(), BOUND)
        opt.step()
        opt.zero_grad()
    return flat(model)


def by_lightning(folder):
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.rows = Rows()

        def training_step(self, x):
            return self.rows(x)["loss"]

        def configure_optimizers(self):
            return inside(self)

    model, rank = Net(), int(os.environ["RANK"])
    lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=1, accumulate_grad_batches=2, logger=False,
        gradient_clip_val=BOUND, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=folder).fit(
            model, torch.utils.data.DataLoader(rows_of(rank), batch_size=4))
    return flat(model)


def by_trainer(folder):
    from transformers import Trainer, TrainingArguments
    model, rank = Rows(), int(os.environ["RANK"])
    opt = inside(model)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name)  # else it would wrap the model in DDP
    Trainer(model=model, train_dataset=[{"x": x} for x in rows_of(rank)],
            optimizers=(opt, torch.optim.lr_scheduler.LambdaLR(opt, lambda _t: 1.0)),
            args=TrainingArguments(
                output_dir=folder, max_steps=3, per_device_train_batch_size=4, use_cpu=True,
                gradient_accumulation_steps=2, max_grad_norm=BOUND, save_strategy="no",
                train_sampling_strategy="sequential", report_to=[], disable_tqdm=True,
                log_level="error")).train()
    return flat(model)


@pytest.mark.parametrize("way,wants", [(by_lightning, "lightning"), (by_trainer, "transformers")])
def test_frameworks_clip_what_is_agreed_on(way, wants, tmp_path):
    """gradient_clip_val and max_grad_norm."""
    pytest.importorskip(wants)
    wanted, found = run(by_ddp, 2, None), run(way, 2, str(tmp_path))
    assert torch.equal(found[0], found[1]) and (wanted[0] - found[0]).abs().max() < 1e-6
    assert (wanted[0] - flat(Rows())).abs().max() > 1e-3


def changed(skips, seen):
    """Each process's own gradients, between backward and step."""
    model = net()
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, overlap=False, skips=skips)
    words = []
    handler = logging.Handler()
    handler.emit = lambda record: words.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    for t in range(3):
        loss_of(model, opt.mesh.rank, t).backward()
        if not seen:
            clip(model.parameters(), BOUND)
        opt.step()
    return words


def scaled_changes(kind, clips, every=1):
    """The same by a scaler, around nothing: weft's own optimizer agrees as it steps."""
    model = net()
    opt, scaler = weft.Optimizer(model, method="ddp", lr=1e-3, skips=True), kind("cpu")
    words = []
    handler = logging.Handler()
    handler.emit = lambda record: words.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    for t in range(3):
        scaler.scale(loss_of(model, opt.mesh.rank, t)).backward()
        if t % every == 0:
            scaler.unscale_(opt)
        if clips and (every == 1 or t % every):
            clip(model.parameters(), BOUND)
        scaler.step(opt)
        scaler.update()
    return words


def test_clipping_after_a_scaler_that_does_not_agree_is_told():
    for words in run(scaled_changes, 2, weft.GradScaler, True):
        assert len(words) == 1 and "optimizer_clip=1.0" in words[0]
    for words in run(scaled_changes, 2, torch.amp.GradScaler, True):
        assert len(words) == 1 and "expected weft.GradScaler" in words[0]
    assert run(scaled_changes, 2, weft.GradScaler, False) == [[], []]
    assert run(scaled_changes, 2, weft.GradScaler, True, 2) == [[], []]  # where it has not unscaled
    assert run(scaled_changes, 1, torch.amp.GradScaler, True) == [[]]


def test_clipping_each_processes_own_gradients_is_told():
    for words in run(changed, 2, False, False):
        assert len(words) == 1 and "agree='backward'" in words[0] and "optimizer_clip=1.0" in words[0]
    assert run(changed, 2, False, True) == run(changed, 2, True, False) == [[], []]
    assert run(changed, 1, False, False) == [[]]


@pytest.mark.parametrize("named,words", [
    ({"agree": "backward"}, "weft's own optimizer steps as gradients arrive"),
    ({"agree": "always"}, "agree is 'always', expected 'step' or 'backward'"),
    ({"agree": "backward", "skips": True, "inside": True}, "agree='backward' with skips=True"),
])
def test_what_can_not_be_agreed_on_is_refused(named, words, monkeypatch):
    monkeypatch.setattr(weft._world, "_default", None)
    model, named = net(), dict(named)
    inner = torch.optim.SGD(model.parameters(), lr=0.1) if named.pop("inside", False) else None
    with pytest.raises(weft.Error, match=words):
        weft.Optimizer(model, inner, **{"method": "ddp", **named})


def signs(inside):
    rank = int(os.environ["RANK"])
    model = net()
    inner = torch.optim.SGD(model.parameters(), lr=1e-3, weight_decay=0.1) if inside else None
    opt = weft.Optimizer(model, inner, method="flexdemo", between="ranks", optimizer_clip=0.05,
                         **({} if inside else {"lr": 1e-3, "weight_decay": 0.1}))
    for t in range(5):
        loss_of(model, rank, t).backward()
        opt.step()
    return flat(model)


def test_own_gradients_are_clipped_before_a_momentum_around_torchs_optimizer_too():
    for ours, theirs in zip(run(signs, 2, True), run(signs, 2, False)):
        assert (ours - theirs).abs().max() < 1e-6
