# SPDX-License-Identifier: MIT
"""What is asked for and would not be done, or not as one expects, is refused or told."""

import logging

import pytest
import torch

import weft_sync.torch as weft
from weft_sync.device import DeviceMix, DeviceOptimizer


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


@pytest.mark.parametrize("make", [weft.Mix, DeviceMix, weft.Optimizer])
def test_a_method_is_not_without_its_optimizer(make):
    model = torch.nn.Linear(40, 40)
    with pytest.raises(weft.Error, match="method muloco is one by its optimizer, muon, but AdamW would "
                       "step; expected method='diloco' around AdamW, or weft.Optimizer"):
        make(model, adamw(model), method="muloco")
    with pytest.raises(weft.Error, match="accum_adamw, but AdamW .* method='dadam' around AdamW"):
        make(model, adamw(model), method="accumadam")
    make(model, Muon(model.parameters(), lr=1e-3), method="muloco").close()


@pytest.mark.parametrize("make", [weft.Optimizer, DeviceOptimizer])
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
    (weft.Optimizer, "flexdemo", 0.1, "lr is 0.1, 50 times the rate of method flexdemo"),
    (DeviceOptimizer, "topk", 1e-4, "lr is 0.0001, 1/80 of the rate of method topk"),
    (weft.Optimizer, "flexdemo", 1e-3, None), (weft.Optimizer, "ddp", 1e-3, None),
    (weft.Optimizer, "muloco", None, None), (weft.Optimizer, "ddp", 0.0, None)])
def test_a_rate_far_from_the_methods_own_is_told(make, method, lr, words, said):
    make(torch.nn.Linear(40, 40), method=method, lr=lr).close()
    assert [line[:len(words or "")] for line in said] == ([words] if words else [])
