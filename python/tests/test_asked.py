# SPDX-License-Identifier: MIT
"""What is asked for and would not be done, or not as one expects, is refused or told."""

import contextlib
import logging

import pytest
import torch
from models import MixThere, OptimizerThere

import weft_sync.torch as weft
from weft_sync import _asked
from weft_sync._library import config_keys


class Muon(torch.optim.SGD):
    """By its name."""


@pytest.fixture(autouse=True)
def mesh_of_each(monkeypatch):
    monkeypatch.setattr(weft._world, "_default", None)


@pytest.fixture
def said():
    """Lines of the log."""
    words, handler = [], logging.Handler()
    handler.emit = lambda record: words.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    yield words
    logging.getLogger("weft_sync").removeHandler(handler)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


@pytest.mark.parametrize("make", [weft.Mix, MixThere, weft.Optimizer])
def test_a_method_is_not_without_its_optimizer(make):
    model = torch.nn.Linear(40, 40)
    with pytest.raises(weft.Error, match="method muloco is one by its optimizer, muon, but AdamW would "
                       "step; expected method='diloco' around AdamW, or weft.Optimizer"):
        make(model, adamw(model), method="muloco")
    with pytest.raises(weft.Error, match="accum_adamw, but AdamW .* method='dadam' around AdamW"):
        make(model, adamw(model), method="accumadam")
    make(model, Muon(model.parameters(), lr=1e-3), method="muloco").close()


@pytest.mark.parametrize("method,inside", [("flexdemo", False), ("ddp", True), ("diloco", True), ("muloco", False)])
def test_a_precision_of_no_products_is_refused(method, inside):
    """A program that says model_precision="bf16" would think that its model computes so."""
    model = torch.nn.Linear(40, 40)
    inner = adamw(model) if inside else None
    if method == "muloco":
        return weft.Optimizer(model, inner, method=method, model_precision="bf16").close()
    with pytest.raises(weft.Error, match="model.precision is set, but no Muon of weft's steps, .* expected torch.autocast"):
        weft.Optimizer(model, inner, method=method, model_precision="bf16")
    weft.Optimizer(model, inner, method=method).close()


@pytest.mark.parametrize("keys", [{"momentum": 0.9}, {}])
def test_a_state_of_wefts_is_not_for_the_optimizer_inside(keys):
    """A program that resumes before it hands its optimizer over; torch's AdamW ends that with KeyError: 'step'."""
    model = torch.nn.Linear(40, 40)

    def kind(params, lr):
        return torch.optim.SGD(params, lr, **keys)
    with contextlib.closing(weft.Optimizer(model, kind(model.parameters(), lr=1e-3), method="ddp")) as optimizer:
        model(torch.ones(2, 40)).sum().backward()
        optimizer.step()
        state = optimizer.state_dict()
    again = kind(model.parameters(), lr=1e-3)
    again.load_state_dict(state)
    with pytest.raises(weft.Error, match="^SGD has loaded a state that weft.Optimizer saved"):
        weft.Optimizer(model, again, method="ddp")


@pytest.mark.parametrize("make", [weft.Optimizer, OptimizerThere])
def test_signs_for_an_optimizer_that_divides_by_their_size_are_told(make, said):
    model = torch.nn.Linear(40, 40)
    make(model, adamw(model), method="flexdemo").close()
    assert len(said) == 1 and "flexdemo hands signs to AdamW" in said[0] and \
        "expected torch.optim.SGD" in said[0]
    make(model, torch.optim.SGD(model.parameters(), lr=1e-3), method="flexdemo").close()
    make(model, adamw(model), method="flexdemo", replicator_sign=False).close()
    assert len(said) == 1


@pytest.mark.parametrize("make,method,lr,words", [
    (weft.Optimizer, "muloco", 1e-3, "lr is 0.001, 1/16 of the rate of method muloco for a model of this "
     "width: 0.016, which is taken where lr is left out"),
    (weft.Optimizer, "flexdemo", 0.1, "lr is 0.1, 25 times the rate of method flexdemo"),
    (OptimizerThere, "topk", 1e-4, "lr is 0.0001, 1/80 of the rate of method topk"),
    (weft.Optimizer, "flexdemo", 1e-3, None), (weft.Optimizer, "ddp", 2e-3, None),
    (weft.Optimizer, "muloco", None, None), (weft.Optimizer, "ddp", 0.0, None)])
def test_a_rate_far_from_the_methods_own_is_told(make, method, lr, words, said):
    make(torch.nn.Linear(40, 40), method=method, lr=lr).close()
    assert [line[:len(words or "")] for line in said] == ([words] if words else [])


# --- keys of weft's that have no effect in a loop of one's own ---

APART = ("data", "batch", "adapter", "schedule")


@pytest.mark.parametrize("make", [weft.Optimizer, weft.Mix, OptimizerThere, MixThere])
def test_keys_of_wefts_own_program_are_refused(make):
    """Over all keys: those of rows, model, files, schedule and of the ranks of a program."""
    model = torch.nn.Linear(40, 40)
    names = [name for name in config_keys() if name.partition(".")[0] in APART or name.partition(".")[0]
             in ("run", "model", "mesh") and name not in _asked.LOOPS_KEYS]
    assert len(names) > 70
    inner = () if make in (weft.Optimizer, OptimizerThere) else (adamw(model),)
    for name in names:
        with pytest.raises(weft.Error, match=f"{name} (is set, but |would come too late)"):
            make(model, *inner, keys={name: "1"})
    with pytest.raises(weft.Error, match="run.audit is set, but weft audit cannot compute a program's own model"):
        make(model, *inner, run_audit=True)


@pytest.mark.parametrize("make,method", [(weft.Optimizer, "ddp"), (weft.Mix, "diloco"),
                                         (MixThere, "diloco"), (OptimizerThere, "topk")])
def test_keys_of_wefts_optimizer_are_refused_around_another_one(make, method):
    model = torch.nn.Linear(40, 40)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for name in config_keys():
        if name.startswith("optimizer.") and name != "optimizer.clip":
            with pytest.raises(weft.Error, match=f"{name} is set, but SGD steps, and not weft's optimizer"):
                make(model, sgd, method=method, keys={name: "1"})
    with pytest.raises(weft.Error, match="optimizer.lr is set, but SGD steps"):
        make(model, sgd, method=method, lr=0.1)


def test_an_optimizer_is_found_in_any_number_of_wrappers():
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    class Prepared(Wrapper, torch.optim.Optimizer):
        """As Accelerate's: an optimizer of torch's by its class alone."""

    sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert _asked.unwrapped(sgd) is sgd
    assert _asked.unwrapped(Prepared(Prepared(sgd))) is sgd


@pytest.mark.parametrize("named", [{"accumulate": 2}, {"skips": True}, {"agree": "backward"},
                                   {"overlap": True}])
def test_mix_refuses_what_is_of_gradients(named):
    model = torch.nn.Linear(4, 4)
    with pytest.raises(weft.Error, match=f"{next(iter(named))} is of exchanges of gradients"):
        weft.Mix(model, adamw(model), **named)


def test_accumulate_is_a_number_of_passes():
    with pytest.raises(weft.Error, match="accumulate is 0; expected 1 or more"):
        weft.Optimizer(torch.nn.Linear(4, 4), accumulate=0)


@pytest.mark.parametrize("make", [weft.Optimizer, OptimizerThere])
def test_a_key_is_said_once_and_counts(make):
    """A rate in `keys` was dropped for the argument that was left out."""
    model = torch.nn.Linear(40, 40)
    opt = make(model, method="flexdemo", keys={"optimizer.lr": 5e-4})
    assert opt.param_groups[0]["lr"] == 5e-4
    opt.close()
    with pytest.raises(weft.Error, match="optimizer.lr is said twice, as 0.0005 and as 0.001"):
        make(model, method="flexdemo", lr=1e-3, keys={"optimizer.lr": 5e-4})


def test_what_is_said_of_the_optimizer_inside_is_read_outside():
    """litgpt takes its rate from `defaults`, in which flexdemo's or AdamW's own rate stood."""
    model = torch.nn.Linear(40, 40)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.8, 0.9))
    opt = weft.Optimizer(model, inner, method="ddp")
    assert opt.defaults["lr"] == 1e-3 and opt.param_groups is inner.param_groups
    torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-3, total_steps=10)  # cycles betas by default
    assert inner.param_groups[0]["betas"][0] == 0.95
    opt.close()


def test_a_group_sets_what_is_applied_by_group():
    """Its betas were dropped."""
    model = torch.nn.Linear(40, 40)
    groups = [{"params": [model.weight], "lr": 1e-3, "name": "a"}, {"params": [model.bias], "betas": (0.5, 0.9)}]
    with pytest.raises(weft.Error, match="parameter group 1 sets betas; of weft's own optimizer expected lr and"):
        weft.Optimizer(groups, method="ddp")
    weft.Optimizer(groups, torch.optim.AdamW(groups), method="ddp").close()


def test_groups_of_wefts_are_not_beside_those_of_torch():
    """Rates of torch's parameter groups went over them."""
    model = torch.nn.Linear(40, 40)
    with pytest.raises(weft.Error, match="optimizer.groups is set, but rates and decays are those of torch"):
        weft.Optimizer(model, method="ddp", optimizer_groups="bias lr=0.5 decay=0")
    weft.Optimizer(model, method="ddp", optimizer_groups="bias optimizer=sgd").close()


def test_states_on_the_host_are_of_wefts():
    model = torch.nn.Linear(4, 4)
    with pytest.raises(weft.Error, match="state_device is 'cuda'; expected 'cpu'"):
        weft.Optimizer(model, method="ddp", state_device="cuda")
    with pytest.raises(weft.Error, match="method ddp keeps no state, and AdamW has its own"):
        weft.Optimizer(model, adamw(model), method="ddp", state_device="cpu")
    opt = OptimizerThere(model, method="ddp", lr=1e-3, state_device="cpu")
    assert opt._own is None
    opt.close()
    weft.Mix(model, adamw(model), method="diloco", state_device="cpu").close()
