# SPDX-License-Identifier: MIT
"""States that others saved: one rank's for all, torch's AdamW's, and frameworks' of an optimizer that
weft mixes around."""

import os

import pytest
import torch
from models import MixThere, OptimizerThere, flat, loss_of, net
from ranks import run

import weft_sync.torch as weft

BETAS = dict(betas=(0.9, 0.999), weight_decay=0.1)


def rank_of():
    return int(os.environ.get("RANK", "0"))


def adamw(model, **named):
    return torch.optim.AdamW(model.parameters(), lr=2e-3, **{**BETAS, **named})


def train(model, opt, first, end, mesh_rank=0):
    for t in range(first, end):
        loss_of(model, mesh_rank, t).backward()
        opt.step()
        opt.zero_grad()


# --- copies that are equal ---

def saved_by_one(inside, stop, folder):
    path, model = os.path.join(folder, "one.pt"), net(0 if stop == "load" else 1 + rank_of())

    def make():
        inner = adamw(model) if inside else None
        return weft.Optimizer(model, inner, method="ddp", lr=None if inside else 2e-3)

    opt = make()
    if stop == "load":
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        opt.load_state_dict(saved["opt"])
    train(model, opt, opt.steps, 6, 0)
    if stop == "save" and rank_of() == 0:
        torch.save({"opt": opt.state_dict(), "model": model.state_dict()}, path)
    train(model, opt, 6, 9, 0)
    return flat(model), opt.report.step


def loaded_by_one(keys):
    def made():
        model = net()
        return model, weft.Optimizer(model, **{"method": "ddp", "lr": 2e-3, "between": "ranks", **keys})
    first = made()
    train(*first, 0, 3, rank_of())
    saved = first[1].state_dict()
    first[1].close()
    weft._world._default = None
    model, opt = made()
    if rank_of() == 0:
        opt.load_state_dict(saved)
    with pytest.raises(weft.Error) as caught:
        train(model, opt, 0, 3, rank_of())
    return str(caught.value)


@pytest.mark.parametrize("keys", [{}, {"mesh_on_loss": "end"}, {"skips": True}, {"method": "diloco", "mesh_on_loss": "end"}])
def test_a_state_that_one_process_alone_loads_is_told(keys):
    """They waited for each other for ever."""
    for said in run(loaded_by_one, 2, keys):
        assert "rank 0 begins after step 3 and rank 1 after step 0; expected a state that all ranks load" in said


@pytest.mark.parametrize("inside", [False, True])
def test_where_copies_are_equal_one_rank_saves_for_all(inside, tmp_path):
    (wanted, _), _ = run(saved_by_one, 2, inside, "save", tmp_path)
    for size in (2, 3):  # rows are the same on all, so their number does not count
        for found, steps in run(saved_by_one, size, inside, "load", tmp_path):
            assert steps == 9 and (torch.equal(found, wanted) if size == 2 else
                                   (found - wanted).abs().max() < 1e-5)


def of_another(method):
    model = net()
    opt = weft.Optimizer(model, method=method, between="ranks")
    state = opt.state_dict()
    opt.load_state_dict(state)
    state["weft"]["rank"] = 1 - rank_of()
    with pytest.raises(weft.Error, match="this is rank . of 2 .*; each process saves and loads its own"):
        opt.load_state_dict(state)


@pytest.mark.parametrize("method", ["flexdemo", "dadam", "diloco", "sparseloco"])
def test_where_they_are_not_each_loads_its_own(method):
    run(of_another, 2, method)


# --- torch's own states ---

@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(weft._world, "_default", None)


def torchs(steps):
    """Of AdamW alone: model and optimizer."""
    model = net()
    opt = adamw(model)
    train(model, opt, 0, steps)
    return model, opt


@pytest.mark.parametrize("way", ["own", "inside", "mix", "device", "device mix"])
def test_a_state_of_torchs_adamw_is_taken_over(way, alone):
    wanted, _ = torchs(9)
    before, opt = torchs(5)
    model = net(3)
    model.load_state_dict(before.state_dict())
    inner, named = adamw(model, betas=(0.8, 0.9)), {"method": "diloco", "mixer_outer_every": 100}
    made = {"own": lambda: weft.Optimizer(model, method="ddp", lr=1e-4, optimizer_clip=0, **BETAS),
            "inside": lambda: weft.Optimizer(model, inner, method="ddp"),
            "device": lambda: OptimizerThere(model, inner, method="flexdemo", replicator_sign=False),
            "mix": lambda: weft.Mix(model, inner, **named),
            "device mix": lambda: MixThere(model, inner, **named)}[way]()
    made.load_state_dict(opt.state_dict())
    assert made.steps == 5
    if way == "device":
        return
    train(model, inner if "mix" in way else made, 5, 9)
    assert made.report.step == 9 and (flat(model) - flat(wanted)).abs().max() < 1e-6
    with pytest.raises(weft.Error, match="before the first step"):
        made.load_state_dict(opt.state_dict())


@pytest.mark.parametrize("named,words", [
    ({"method": "flexdemo", "betas": None}, "method flexdemo steps by weft's sgd; expected that torch optimizer as sec"),
    ({"betas": (0.9, 0.95)}, "betas=.0.9, 0.999., this optimizer has .*; create it with betas=.0.9, 0.999"),
    ({"optimizer_eps": 1e-6}, "an AdamW with eps=1e-08, .* has 1e-06; create it with optimizer_eps=1e-08"),
])
def test_a_state_that_would_go_on_otherwise_is_refused(named, words, alone):
    _, opt = torchs(2)
    made = weft.Optimizer(net(), **{"method": "ddp", **BETAS, **named})
    with pytest.raises(weft.Error, match=words):
        made.load_state_dict(opt.state_dict())


def test_what_is_no_state_is_refused(alone):
    _, opt = torchs(2)
    made = weft.Optimizer(net(), method="ddp", **BETAS)
    packed = opt.state_dict()
    packed["state"][1]["step"] += 1
    for state, words in (({"model": 1}, "the state has model; expected that of"), (
            {**packed, "state": {0: {"step": 1, "momentum": 0}}}, "parameter 0 has step, momentum after"), (
            packed, "after step 2.0 of 3; expected AdamW's moments after the same")):
        with pytest.raises(weft.Error, match=words):
            made.load_state_dict(state)
    two = torch.optim.AdamW([{"params": list(net().parameters())[:2]},
                             {"params": list(net().parameters())[2:]}], **BETAS)
    with pytest.raises(weft.Error, match="the state is of 2 parameter groups, this optimizer has 1"):
        made.load_state_dict(two.state_dict())


# --- frameworks save the optimizer alone ---

def mixed(make, method, stop, folder):
    """What Mix keeps is in the optimizer's state_dict; stopped between two outer steps."""
    path, model = os.path.join(folder, f"{rank_of()}.pt"), net()
    keys = {"mixer_outer_every": 4} if method == "diloco" else {}
    opt = adamw(model)
    mix = make(model, opt, method=method, between="ranks", **keys)
    train(model, opt, 0, stop, rank_of())
    if stop:
        torch.save((model.state_dict(), opt.state_dict()), path)
        assert "weft_mix" not in mix.state_dict()["inner"]
        mix.close()
        assert "weft_mix" not in opt.state_dict()
        model = net(5)
        opt = adamw(model, betas=(0.5, 0.5))
        mix = make(model, opt, method=method, between="ranks", **keys)
        weights, state = torch.load(path, weights_only=True)
        model.load_state_dict(weights)
        opt.load_state_dict(state)
        assert mix.steps == stop
    train(model, opt, stop, 11, rank_of())
    return flat(model), mix.report.step


@pytest.mark.parametrize("make", [weft.Mix, MixThere])
@pytest.mark.parametrize("method", ["diloco", "dadam"])
def test_an_optimizers_own_state_has_the_mixing(make, method, tmp_path):
    wanted, found = run(mixed, 2, make, method, 0, tmp_path), run(mixed, 2, make, method, 6, tmp_path)
    for (a, steps), (b, again) in zip(wanted, found):
        assert torch.equal(a, b) and steps == again == 11


def by_trainer(folder, resumes):
    from transformers import Trainer, TrainingArguments
    rank = rank_of()

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Linear(8, 4)

        def forward(self, x):
            return {"loss": torch.nn.functional.cross_entropy(self.net(x), x[:, :4].argmax(1))}

    model = Rows()
    opt = adamw(model)
    mix = weft.Mix(model, opt, method="diloco", mixer_outer_every=4, between="ranks")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name)
    rows = torch.randn(48, 8, generator=torch.Generator().manual_seed(rank))
    at = os.path.join(folder, str(rank))
    Trainer(model=model, train_dataset=[{"x": x} for x in rows],
            optimizers=(opt, torch.optim.lr_scheduler.LambdaLR(opt, lambda _t: 1.0)),
            args=TrainingArguments(output_dir=at, max_steps=10, per_device_train_batch_size=4,
                                   use_cpu=True, save_steps=6, train_sampling_strategy="sequential",
                                   report_to=[], disable_tqdm=True, log_level="error")
            ).train(resume_from_checkpoint=os.path.join(at, "checkpoint-6") if resumes else None)
    return flat(model), mix.report.step


def test_trainer_resumes_what_mix_keeps(tmp_path):
    pytest.importorskip("transformers")
    wanted, found = run(by_trainer, 2, tmp_path, False), run(by_trainer, 2, tmp_path, True)
    for (a, steps), (b, again) in zip(wanted, found):
        assert torch.equal(a, b) and steps == again == 10


def test_numbers_of_another_mixer_are_refused_before_anything_is_taken(monkeypatch):
    monkeypatch.setattr(weft._world, "_default", None)
    model = net()
    opt = weft.Optimizer(model, adamw(model), method="diloco", mixer_outer_every=2)
    train(model, opt, 0, 3)
    state, before = opt.state_dict(), flat(model)
    state["weft"]["numbers"] = [*state["weft"]["numbers"], 0.0]
    n = len(state["weft"]["numbers"])
    state["state"][0]["parameters"] += 1
    with pytest.raises(weft.Error, match=f"the state has {n} numbers beside its arrays, method diloco has {n - 1} here"):
        opt.load_state_dict(state)
    assert torch.equal(flat(model), before) and not torch.equal(opt.state_dict()["state"][0]["parameters"],
                                                                state["state"][0]["parameters"])
    opt.close()
