# SPDX-License-Identifier: MIT
"""Copies that are sharded inside a node (FSDP2): weft in place of the replicate dimension."""


import pytest
import torch
from models import DEVICE, OptimizerThere, flat, loss_of, net, start_gloo
from ranks import run
from torch.distributed.device_mesh import init_device_mesh

import weft_sync.torch as weft
from weft_sync._library import log

fully_shard = pytest.importorskip("torch.distributed.fsdp").fully_shard
ADAMW = dict(lr=2e-3, betas=(0.9, 0.999), weight_decay=0.1)


def sharded(model, mesh):
    fully_shard(model.body, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def full(model):
    return torch.cat([p.full_tensor().detach().reshape(-1) for p in model.parameters()])


def train(steps, shards, method, inside, keys, make=weft.Optimizer):
    rank = start_gloo()
    torch.manual_seed(0)
    mesh = weft.device_mesh("cpu", shards)
    model = sharded(net(), mesh["shard"])
    inner = torch.optim.AdamW(model.parameters(), **ADAMW) if inside else None
    rates = {} if inside else (ADAMW if method == "hsdp" else {"lr": 1e-3})
    opt = make(model, inner, method=method, keys=keys, **rates)
    assert any(p.to_local().shape[0] == 0 for p in model.parameters()) == (shards == 5)
    losses = []
    for t in range(steps):
        loss = loss_of(model, rank, t)
        loss.backward()
        opt.step(loss)
        opt.zero_grad()
        losses.append(float(loss.detach()))
    return losses, full(model), opt.report


@pytest.mark.parametrize("inside", [False, True])
def test_two_nodes_of_two_shards_are_ddp(inside):
    keys = {} if inside else {"optimizer.eps": 1e-8, "optimizer.clip": 0}
    found = run(train, 4, 12, 2, "hsdp", inside, keys)
    wanted = run(reference, 4, 12)
    for r in range(4):
        assert torch.allclose(torch.tensor(found[r][0]), torch.tensor(wanted[r][0]), rtol=1e-6,
                              atol=1e-6)
        assert torch.equal(found[r][1], found[0][1])
        assert (found[r][1] - wanted[r][1]).abs().max() < 2e-5


def reference(steps):
    """torch's own: HSDP over a mesh of two dimensions, with AdamW."""
    rank = start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = sharded(net(), mesh)
    opt = torch.optim.AdamW(model.parameters(), **ADAMW)
    losses = []
    for t in range(steps):
        loss = loss_of(model, rank, t)
        loss.backward()
        opt.step()
        opt.zero_grad()
        losses.append(float(loss.detach()))
    return losses, full(model)


@pytest.mark.parametrize("method,keys", [
    ("flexdemo", {}), ("topk", {"optimizer.clip": 0.1}), ("diloco", {"mixer.outer_every": 3, "mixer.values": "int8"})])
def test_sharded_copies_are_the_same_on_a_device_and_equal(method, keys):
    """As where parameters lie on a device, which they do not."""
    keys = {**keys, "mesh.on_loss": "end"}
    here, there = (run(train, 4, 6, 2, method, False, keys, make) for make in (weft.Optimizer, OptimizerThere))
    for a, b in zip(here, there):
        assert torch.equal(a[1], here[0][1]) and torch.equal(b[1], there[0][1])
        assert ((a[1] - b[1]).abs() < 1e-5).float().mean() > 0.99
        assert a[2].wire_bytes == b[2].wire_bytes > 0
        assert b[0][-1] < b[0][0]


def refused():
    start_gloo()
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    with pytest.raises(weft.Error, match="weft takes the place of the replicate dimension"):
        weft.Optimizer(sharded(net(), mesh))
    model = net()
    fully_shard(model.body, mesh=mesh["shard"])
    with pytest.raises(weft.Error, match="expected fully_shard of the whole model"):
        weft.Optimizer(model)
    with pytest.raises(weft.Error, match="DDP already averages"):
        weft.Optimizer(torch.nn.parallel.DistributedDataParallel(net()))


def test_meshes_that_average_already_are_refused():
    run(refused, 2)


def wrapped_later(way, when):
    """A framework that sees torchrun's variables wraps the model when weft has it already, or a step later; or before."""
    rank, said = start_gloo(), []
    model, make = net(), {"mix": weft.Mix}.get(way, weft.Optimizer)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log.warning = lambda *line: said.append(line[0])
    called = [torch.nn.parallel.DistributedDataParallel(model)] if when == "before" else []
    opt = make(model, inner, **{"backward": {"method": "ddp", "agree": "backward"},
                                "mix": {"method": "diloco", "mixer_outer_every": 2},
                                "late": {"method": "ddp", "overlap": False}, "overlap": {"method": "ddp"}}[way])
    for step in range(4):
        if step == {"then": 0, "later": 2}.get(when):
            model.to("cpu:0" if DEVICE == "cpu" else DEVICE)  # which copies, as Accelerate does
            called.append(torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=step == 2))
        loss_of((called or [model])[0], rank, step).backward()
        (inner if way == "mix" else opt).step()
        (inner if way == "mix" else opt).zero_grad()
    own = [flat(model)]
    opt.close()
    if called:  # it averages again, after that
        loss_of(called[0], rank, 4).backward()
        own.append(torch.cat([p.grad.reshape(-1) for p in model.parameters()]))
        torch.distributed.all_gather(both := [torch.zeros_like(own[1]) for _ in range(2)], own[1])
        assert torch.equal(*both)
    return own[0], sum("weft exchanges in its place" in line for line in said)


@pytest.mark.parametrize("way", ["backward", "late", "overlap", "mix"])
def test_weft_exchanges_in_place_of_a_ddp_around_the_model(way):
    """It averaged beside weft, or was refused in the first backward; one that came after the first step was not seen."""
    wanted = run(wrapped_later, 2, way, "never")
    for when in ("before", "then", "later"):
        for (found, said), (one, none) in zip(run(wrapped_later, 2, way, when), wanted):
            assert torch.equal(found, one) and said == 1 and none == 0, when


def other_ddp():
    rank, model = start_gloo(), net()
    ddp, opt = torch.nn.parallel.DistributedDataParallel, weft.Optimizer(model, method="ddp")
    ddp(model, process_group=[torch.distributed.new_group([r]) for r in range(3)][rank])  # which averages nothing
    two = torch.distributed.new_group([0, 1])
    if rank < 2:
        with pytest.raises(weft.Error, match="over 2 processes, and weft exchanges among 3"):
            ddp(model, process_group=two)
    ddp(net(1))  # another model
    wrapped = ddp(model, static_graph=True)
    with pytest.raises(weft.Error, match="static_graph"):
        loss_of(wrapped, rank, 0)
    opt.close()


def test_a_ddp_that_weft_is_not_in_place_of_is_refused_where_it_is_made():
    run(other_ddp, 3)


def first_fsdp(original):
    start_gloo()
    model = torch.distributed.fsdp.FullyShardedDataParallel(net(), use_orig_params=original,
                                                            device_id=torch.device("cpu"))
    before = [p.detach().clone() for p in model.parameters()]
    for make in (lambda: weft.Optimizer(model), lambda: weft.Optimizer(model.parameters()),
                 lambda: weft.Mix(model, torch.optim.SGD(model.parameters(), lr=0.1))):
        with pytest.raises(weft.Error, match="expected fully_shard"):
            make()
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))


@pytest.mark.parametrize("original", [False, True])
def test_the_first_fsdp_is_refused_before_anything_is_touched(original):
    run(first_fsdp, 2, original)


# --- DDP inside the node ---


def in_node_ddp(steps, per_node, method, keys, inside):
    rank = start_gloo()
    node = weft.node_group(per_node)
    model = net(rank)
    ddp = torch.nn.parallel.DistributedDataParallel(model, process_group=node)
    inner = torch.optim.AdamW(model.parameters(), **ADAMW) if inside else None
    opt = weft.Optimizer(ddp, inner, method=method, keys=keys, **({} if inside else ADAMW))
    losses = []
    for t in range(steps):
        loss = loss_of(ddp, rank, t)
        loss.backward()
        opt.step(loss)
        opt.zero_grad()
        losses.append(float(loss.detach()))
    params = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return losses, params, opt.report


def test_ddp_in_nodes_and_weft_between_them():
    wanted = run(reference, 4, 12)
    for inside in (False, True):
        keys = {} if inside else {"optimizer.eps": 1e-8, "optimizer.clip": 0}
        found = run(in_node_ddp, 4, 12, 2, "hsdp", keys, inside)
        for r in range(4):
            assert torch.equal(found[r][1], found[0][1])
            assert torch.allclose(torch.tensor(found[r][0]), torch.tensor(wanted[r][0]),
                                  rtol=1e-5, atol=1e-6)
            assert found[r][2].step == 12


