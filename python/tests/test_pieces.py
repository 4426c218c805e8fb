# SPDX-License-Identifier: MIT
"""Processes that hold pieces of a model (process_group=, mesh=): weft exchanges among those that hold the same one."""

import pytest
import torch
import torch.distributed as dist
from models import OptimizerThere, loss_of, net, start_gloo
from ranks import answers, run, start
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

import weft_sync.torch as weft

INSIDE = {"adamw": lambda params: torch.optim.AdamW(params, lr=2e-3, weight_decay=0.1),
          "sgd": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9)}


class Sum(torch.autograd.Function):
    """Over the pieces: forward of what is cut along columns, or backward of what is cut along rows."""

    @staticmethod
    def forward(ctx, x, group, here):
        ctx.group, ctx.here = group, here
        if here:
            x = x.clone()
            dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        if not ctx.here:
            dist.all_reduce(grad, group=ctx.group)
        return grad, None, None


class Cut(torch.nn.Module):
    """Two matrices cut by hand, as Megatron does; a norm that all have; `seed` of who begins otherwise."""

    def __init__(self, mesh, seed):
        super().__init__()
        piece, of, self.group = mesh.get_local_rank(), mesh.size(), mesh.get_group()
        torch.manual_seed(seed)
        up, down = torch.randn(48, 24) / 5, torch.randn(24, 48) / 7
        self.norm = torch.nn.LayerNorm(24)
        self.up = torch.nn.Parameter(up.chunk(of)[piece].clone())
        self.down = torch.nn.Parameter(down.chunk(of, dim=1)[piece].clone())

    def forward(self, x):
        x = Sum.apply(self.norm(x), self.group, False)
        return Sum.apply(torch.tanh(x @ self.up.mT) @ self.down.mT, self.group, True)


def rows(copy, step):
    return torch.randn(8, 24, generator=torch.Generator().manual_seed(100 * step + copy))


def cut(by, inside, method, steps=12, keys=None, make=weft.Optimizer):
    """Two copies of two pieces; "ddp" is torch's own on the same groups."""
    start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    copy = mesh["dp"].get_local_rank()
    model = Cut(mesh["tp"], 0 if by == "ddp" else copy)
    if by == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=mesh["dp"].get_group())
    inner = INSIDE[inside](model.parameters()) if inside else None
    how = {"mesh": mesh["dp"]} if by == "mesh" else {"process_group": mesh["dp"].get_group()}
    opt = inner if by == "ddp" else make(model, inner, method=method, keys=keys, between="ranks", **how)
    for t in range(steps):
        loss = model(rows(copy, t)).square().mean()
        loss.backward()
        report = opt.step() if by == "ddp" else opt.step(loss)
        opt.zero_grad()
    return [p.detach().clone() for p in model.parameters()], None if by == "ddp" else report


@pytest.mark.parametrize("by,inside", [("mesh", "adamw"), ("process_group", "sgd")])
def test_pieces_cut_by_hand_are_ddp_in_the_same_groups(by, inside):
    found, wanted = run(cut, 4, by, inside, "ddp"), run(cut, 4, "ddp", inside, "ddp")
    for (here, report), (there, _) in zip(found, wanted):
        assert all(torch.equal(p, q) for p, q in zip(here, there))
        assert report.processes == 2
    assert not torch.equal(found[0][0][0], found[1][0][0])  # pieces differ


@pytest.mark.parametrize("make", [weft.Optimizer, OptimizerThere], ids=["host", "device"])
@pytest.mark.parametrize("method,inside", [("flexdemo", None), ("diloco", "adamw"), ("hsdp", None)])
def test_every_group_has_copies_of_its_own(method, inside, make):
    keys = {"mixer.outer_every": 4} if method == "diloco" else {}
    found = run(cut, 4, "mesh", inside, method, 12, keys, make)
    for a, b in ((0, 2), (1, 3)):
        assert all(torch.equal(p, q) for p, q in zip(found[a][0], found[b][0]))
        assert found[a][1].wire_bytes > 0
    assert not torch.equal(found[0][0][0], found[1][0][0])


def tensor_parallel(by, clip=None, steps=8):
    """torch's own plan; gradients of what all pieces have are partial sums until somebody adds them up."""
    start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    copy = mesh["dp"].get_local_rank()
    torch.manual_seed(0 if by == "torch" else copy)
    model = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16))
    parallelize_module(model, mesh["tp"], {"0": SequenceParallel(sequence_dim=0), "1": ColwiseParallel(
        input_layouts=torch.distributed.tensor.Shard(0)), "3": RowwiseParallel()})
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    agree = "backward" if clip else "step"
    opt = weft.Optimizer(model, inner, method="ddp", mesh=mesh["dp"], agree=agree) if by == "weft" else inner
    for t in range(steps):
        loss = model(rows(copy, t)[:, :16].contiguous()).square().mean()
        loss.backward()
        if by == "torch":
            for p in model.parameters():
                p.grad = p.grad.redistribute(p.device_mesh, p.placements)
                dist.all_reduce(p.grad.to_local(), group=mesh["dp"].get_group())
                p.grad.to_local().div_(2)
        if clip:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            assert norm.full_tensor() > clip
        opt.step()
        opt.zero_grad()
    return [p.detach().to_local().clone() for p in model.parameters()]


@pytest.mark.parametrize("clip", [None, 0.01])
def test_torchs_tensor_parallel_is_its_own_mean(clip):
    """Clipped after backward by the norm of all pieces, as torchtitan does."""
    found, wanted = run(tensor_parallel, 4, "weft", clip), run(tensor_parallel, 4, "torch", clip)
    assert all(torch.equal(p, q) for here, there in zip(found, wanted) for p, q in zip(here, there))


def sharded(by, steps=8):
    rank = start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = net()
    within = mesh if by == "torch" else mesh["shard"]
    for part in (model.body, model):
        fully_shard(part, mesh=within)
    inner = torch.optim.AdamW(model.parameters(), lr=2e-3)
    opt = weft.Optimizer(model, inner, method="ddp", mesh=mesh["replicate"]) if by == "weft" else inner
    for t in range(steps):
        loss_of(model, rank, t).backward()
        opt.step()
        opt.zero_grad()
    return torch.cat([p.full_tensor().detach().reshape(-1) for p in model.parameters()])


def test_fsdp2_in_a_mesh_of_two_dimensions():
    found, wanted = run(sharded, 4, "weft"), run(sharded, 4, "torch")
    for here, there in zip(found, wanted):
        assert torch.equal(here, found[0]) and (here - there).abs().max() < 2e-6


def scaled(scale, bad_step, parallel):
    """A GradScaler; of process 1 alone, the second piece of the first copy, one gradient is infinite."""
    rank = start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    copy = mesh["dp"].get_local_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Linear(32, 24)) if parallel else Cut(mesh["tp"], 0)
    if parallel:
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, mesh=mesh["dp"], between="ranks", skips=scale > 0)
    scaler = weft.GradScaler("cpu", init_scale=max(scale, 1.0), enabled=scale > 0, growth_interval=1000)
    skipped, t = [], 0
    while t < 5:
        scaler.scale(model(rows(copy, t)).square().mean()).backward()
        if rank == 1 and t == bad_step and not skipped:
            grad = (model[0].weight if parallel else model.up).grad
            (grad.to_local() if parallel else grad).view(-1)[3] = float("inf")
        scaler.step(opt)
        scaler.update()
        skipped += [t] * opt.report.skipped
        t += not opt.report.skipped
    own = [p.detach().to_local() if parallel else p.detach() for p in model.parameters()]
    return own, skipped, scaler.get_scale()


@pytest.mark.parametrize("parallel", [False, True], ids=["by hand", "torch's plan"])
def test_an_infinity_in_one_piece_skips_the_step_of_all(parallel):
    plain, found = run(scaled, 4, 0, -1, parallel), run(scaled, 4, 2.0**16, 3, parallel)
    for (own, skipped, scale), (wanted, _, _) in zip(found, plain):
        assert skipped == [3] and scale == 2.0**15
        assert all(torch.equal(p, q) for p, q in zip(own, wanted))


def weighed(numbers, alone):
    """`numbers` of rows of the copies in each step, or one copy with all of them."""
    start_gloo()
    mesh = init_device_mesh("cpu", (1, 2) if alone else (2, 2), mesh_dim_names=("dp", "tp"))
    copy = mesh["dp"].get_local_rank()
    model = Cut(mesh["tp"], 0).double()
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    opt = inner if alone else weft.Optimizer(model, inner, method="ddp", mesh=mesh["dp"], between="ranks", uneven=True)
    for t, taken in enumerate(numbers):
        x = torch.cat([rows(c, t)[:n] for c, n in enumerate(taken) if alone or c == copy]).double()
        loss = model(x).square().sum() / max(x.numel(), 1)
        loss.backward()
        opt.step() if alone else opt.step(loss, rows=taken[copy])
        opt.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def test_rows_of_pieces_that_differ_are_those_of_one_copy_with_all():
    numbers = [(8, 3), (1, 8), (5, 0), (2, 2)]
    found, wanted = run(weighed, 4, numbers, False), run(weighed, 2, numbers, True)
    for piece in (0, 1):
        for here, there in ((found[piece], wanted[piece]), (found[piece + 2], wanted[piece])):
            assert all((p - q).abs().max() < 1e-6 for p, q in zip(here, there))


def otherwise():
    """The pieces of a copy say different rows."""
    rank = start_gloo()
    group = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    model = torch.nn.Linear(3, 3)
    opt = weft.Optimizer(model, method="ddp", process_group=group, lr=0.1, between="ranks", uneven=True)
    with pytest.raises(weft.Error, match="each group measures for itself"):
        opt.share(8)
    with pytest.raises(weft.Error, match="each group measures for itself"):
        weft.Sampler(opt, 100, rows=8)
    model(torch.ones(4, 3)).sum().backward()
    with pytest.raises(weft.Error, match=r"the copies of this piece have (7|8) rows in this step, those of others 7 to 8"):
        opt.step(rows=3 if rank == 1 else 4)


def test_rows_that_the_pieces_of_a_copy_do_not_share_are_told():
    run(otherwise, 4)


def crosswise():
    """The sums over the copies are equal, and the pieces of each copy differ."""
    rank = start_gloo()
    group = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    model = torch.nn.Linear(3, 3)
    opt = weft.Optimizer(model, method="ddp", process_group=group, lr=0.1, between="ranks", uneven=True)
    for rows in ((4, 4, 3, 3), (4, 3, 3, 4)):
        model(torch.ones(4, 3)).sum().backward()
        try:
            opt.step(rows=rows[rank])
        except weft.Error as error:
            return rows, str(error)


def test_rows_are_compared_copy_by_copy():
    for rank, (rows, told) in enumerate(run(crosswise, 4)):
        assert rows == (4, 3, 3, 4)
        assert f"this piece have {'4, 3' if rank % 2 == 0 else '3, 4'} rows in this step, those of another" in told


def sizes():
    """Stages of 2 copies and of 1: which belongs to which is not known."""
    rank = start_gloo()
    group = [dist.new_group([0, 1]), dist.new_group([2])][rank // 2]
    model = torch.nn.Linear(3, 3)
    opt = weft.Optimizer(model, method="ddp", process_group=group, lr=0.1, uneven=True)
    model(torch.ones(4, 3)).sum().backward()
    return opt.step(rows=(4, 3, 7)[rank]).step


def test_of_groups_of_several_sizes_sums_are_compared():
    assert run(sizes, 3) == [1, 1, 1]


def unlike():
    """Stages of 2 and of 1 processes; a second optimizer of a group, and a mesh of all beside."""
    rank = start_gloo()
    groups = [dist.new_group([0, 1]), dist.new_group([2])]
    own = groups[rank // 2]
    torch.manual_seed(rank)
    models = [torch.nn.Linear(5 + rank // 2, 3) for _ in range(2)]
    opts = [weft.Optimizer(m, method="ddp", lr=0.1, process_group=own) for m in models]
    everywhere = weft.Optimizer(torch.nn.Linear(4, 4), method="ddp", process_group=dist.group.WORLD)
    for opt, m in zip(opts, models):
        m(torch.ones(2, 5 + rank // 2)).sum().backward()
        opt.step()
    return [opt.report.processes for opt in opts], everywhere.mesh.size, [m.weight.detach() for m in models]


def test_groups_of_unlike_size():
    found = run(unlike, 3)
    assert [f[0] for f in found] == [[2, 2], [2, 2], [1, 1]] and all(f[1] == 3 for f in found)
    assert all(torch.equal(p, q) for p, q in zip(found[0][2], found[1][2]))


def crossed():
    rank = start_gloo()
    made = {tuple(n): dist.new_group(n) for n in ([0, 1], [1, 2])}
    try:
        weft.Optimizer(torch.nn.Linear(3, 3), method="ddp", process_group=made[(0, 1) if rank == 0 else (1, 2)])
    finally:
        dist.barrier()  # with process 0 the store ends in which the others still meet


def test_a_group_that_others_do_not_name_is_told_at_once():
    found = answers(start(crossed, 3))
    assert [fine for fine, _ in found] == [False, True, True]
    assert "process 1 says [1, 2]; expected each process in one group" in found[0][1]


def keyed():
    rank = start_gloo()
    group = [dist.new_group([0, 2]), dist.new_group([1])][rank % 2]
    weft.Optimizer(torch.nn.Linear(3, 3), method="ddp", process_group=group, lr=0.1 * (1 + rank))


def test_what_a_group_has_in_common_is_compared():
    found = answers(start(keyed, 3))
    assert [fine for fine, _ in found] == [False, True, False]
    assert all("0.1" in said and "0.3" in said for fine, said in found if not fine)


def refused():
    rank = start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 16))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    group = mesh["dp"].get_group()
    other = [dist.new_group([0, 3]), dist.new_group([1, 2])][rank in (1, 2)]
    cases = [({"mesh": mesh}, "has 2 dimensions"), ({"mesh": mesh["tp"]}, "is spread by torch over processes"),
             ({"mesh": mesh["dp"], "process_group": group}, "both said"), ({"mesh": "dp"}, "mesh is a str"),
             ({"process_group": dist.GroupMember.NON_GROUP_MEMBER}, "not in the process group"),
             ({"returns": 3}, "returns with"), ({"method": "auto"}, "each group would decide"),
             ({"optimizer_clip": 1.0}, "the norm is of all pieces"), ({"mesh_on_loss": "go_on"}, "without the lost"),
             ({"method": "muloco"}, "turns whole matrices"), ({"process_group": other}, "piece of 0.weight")]
    for named, words in cases:
        with pytest.raises(weft.Error, match=words):
            weft.Optimizer(model, **{"method": "ddp", **({} if "mesh" in named else {"process_group": group}), **named})


def test_what_pieces_can_not_do_is_refused():
    run(refused, 4)


def saved():
    rank = start_gloo()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    opt = weft.Optimizer(torch.nn.Linear(4, 4), method="ddp", lr=0.1, mesh=mesh["dp"])
    states = [None] * 4
    dist.all_gather_object(states, opt.state_dict())
    opt.load_state_dict(states[(rank + 2) % 4])  # copies are equal
    with pytest.raises(weft.Error, match="of the piece that processes"):
        opt.load_state_dict(states[rank ^ 1])


def test_a_state_is_of_its_piece():
    run(saved, 4)
