# SPDX-License-Identifier: MIT
"""What the processes of a run must have in common: whatever differs is named, with both values, by
all of them, before a parameter is touched."""

import os
import time
from types import SimpleNamespace

import pytest
import torch
from models import DEVICE, OptimizerThere, loss_of, net
from ranks import Rank, answers, fork, free_port, run
from test_lost import rank_of

import weft_sync.torch as weft
from weft_sync import _alike, _buffers, _places

SOON_S = 10


def unlike(make):
    """What rank 0 and the others are told, and that it is soon and changes nothing."""
    model = net(rank_of())
    if make in (dtype, wider) and rank_of() == 1:
        make(model, None)
    before = [p.detach().clone() for p in model.parameters()]
    begun = time.monotonic()
    with pytest.raises(weft.Error) as caught:
        make(model, rank_of())
    assert time.monotonic() - begun < SOON_S
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    return str(caught.value)


def every(model, rank):
    weft.Optimizer(model, method="diloco", mixer_outer_every=10 if rank == 0 else 7)


def method(model, rank):
    weft.Optimizer(model, method="flexdemo" if rank == 0 else "diloco")


def rate(model, rank):
    weft.Optimizer(model, lr=1e-3 if rank == 0 else 2e-3)


def auto(method):
    def make(model, rank):
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        weft.Optimizer(model, inner, **({} if rank == 0 else {"method": method}))
    return make


def goes_on(model, rank):
    weft.Optimizer(model, mesh_on_loss="go_on" if rank == 0 else "end")


def frozen(model, rank):
    model.body.weight.requires_grad_(False)  # its values are of the rank's own
    weft.Optimizer(model, method="ddp")


def projected(model, rank):
    """As a program does that seeds each process differently before it makes its model."""
    torch.manual_seed(rank)
    model.register_buffer("random", torch.randn(4))
    weft.Optimizer(model, method="ddp")


class Packed(torch.Tensor):
    """A class of quantized numbers: strided, and without a view of its bits."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.view:
            raise NotImplementedError("view")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_what_is_frozen_has_a_digest_where_it_has_bits():
    def lines(*values):
        return _places.frozen([(torch.nn.Parameter(v, requires_grad=False), f"p{i}") for i, v in enumerate(values)])
    number = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128)
    assert lines(number, number.conj().clone()).count("frozen") == 2
    assert lines(number.conj()) == lines(number.conj().resolve_conj()) != lines(number)
    assert lines(number.conj().imag) == lines(number.conj().imag.resolve_neg())
    assert lines(torch.ones(4, dtype=torch.float64)) != lines(-torch.ones(4, dtype=torch.float64))
    assert lines(torch.ones(3).as_subclass(Packed), torch.ones(3)) == lines(torch.ones(2), torch.ones(3))[-len(
        lines(torch.ones(2), torch.ones(3)).splitlines(True)[1]):]


def skips(model, rank):
    weft.Optimizer(model, between="ranks", skips=rank == 1)


def inside(kind):
    def make(model, rank):
        inner = kind(model.parameters(), lr=1e-2) if rank == 1 else \
            torch.optim.SGD(model.parameters(), lr=1e-3)
        weft.Optimizer(model, inner)
    return make


def dtype(model, rank):
    """Called twice by rank 1, without a number before it begins."""
    if rank is None:
        model.body.to(torch.bfloat16)
    else:
        weft.Optimizer(model)


def on_device(model, rank):
    OptimizerThere(model, method="flexdemo", replicator_compression_topk=4 if rank == 0 else 5)


def by_another(model, rank):
    torch.set_float32_matmul_precision("medium" if rank else "highest")
    OptimizerThere(model, method="flexdemo")


def wider(model, rank):
    if rank is None:
        model.body = torch.nn.Linear(48, 50).to(DEVICE)
    else:
        weft.Optimizer(model, lr=1e-3)


UNLIKE = [(every, "mixer.outer_every is 10 on rank 0 and 7 on rank 1"),
          (method, "method is flexdemo on rank 0 and diloco on rank 1"),
          (auto("ddp"), "method= is 'auto' on rank 0 and a name on rank 1"),
          (auto("hsdp"), "method= is 'auto' on rank 0 and a name on rank 1"),
          (rate, "optimizer.lr is 0.001 on rank 0 and 0.002 on rank 1"),
          (goes_on, "mesh.on_loss is go_on on rank 0 and end on rank 1"),
          (skips, "setup.skips is 0 on rank 0 and 1 on rank 1"),
          (inside(torch.optim.SGD), "group 0 lr is 0.001 on rank 0 and 0.01 on rank 1"),
          (inside(torch.optim.Adam), "optimizer is SGD on rank 0 and Adam on rank 1"),
          (dtype, "'dtype of body.weight: bfloat16' is in its place on rank 1"),
          (wider, "tensor body.weight is 48 x 48 on rank 0 and 50 x 48 on rank 1"),
          (by_another, ", medium on rank 1; all ranks must have the same"),
          (frozen, "frozen body.weight is "),
          (projected, "buffer random (make it alike, or say buffers='own') is "),
          (on_device, "replicator.compression_topk is 4 on rank 0 and 5 on rank 1")]


@pytest.mark.parametrize("make,sentence", UNLIKE, ids=[s.split(" is ")[0] for _, s in UNLIKE])
def test_what_differs_is_named_by_all(make, sentence):
    for told in run(unlike, 2, make):
        assert sentence in told


def own_buffers(buffers, method):
    model, rank = net(), rank_of()
    model.statistics = torch.nn.BatchNorm1d(48, affine=False)
    model.statistics.running_mean += rank
    model.register_buffer("cache", torch.full((4,), float(rank)), persistent=False)
    if buffers == "own" or method == "diloco":
        model.register_buffer("random", torch.full((4,), float(rank)))
    weft.Optimizer(model, method=method, lr=1e-3, buffers=buffers, between="ranks")


@pytest.mark.parametrize("buffers,method", [(None, "ddp"), ("own", "ddp"), (None, "diloco")])
def test_buffers_may_differ_that_training_changes(buffers, method):
    run(own_buffers, 2, buffers, method)


def compiled():
    model = net()
    opt = weft.Optimizer(torch.compile(model, backend="eager") if os.environ["RANK"] == "1" else model,
                         method="ddp", lr=1e-3)
    with torch.no_grad():
        return [place.name for place in opt._places]


def test_a_process_may_compile_its_model_alone():
    first, second = run(compiled, 2)
    assert first == second and not any("_orig_mod" in name for name in first)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    model.register_buffer("of_all", torch.zeros(1))
    names = list(_buffers.handed_over(None, model))
    assert len(names) == 4 and names == list(_buffers.handed_over(None, torch.compile(model, backend="eager")))


def test_the_one_that_differs_is_found_among_three():
    for told in run(unlike, 3, lambda model, rank: weft.Optimizer(
            model, lr=2e-3 if rank == 2 else 1e-3)):
        assert "optimizer.lr is 0.001 on rank 0 and 0.002 on rank 2" in told


def follows_its_own_loss():
    """Each process's schedule sees its own losses: rank 1's never fall, and its rate does."""
    rank = int(os.environ["RANK"])
    model = net()
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="ddp")
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
    try:
        for i in range(20):
            loss = loss_of(model, rank, i)
            loss.backward()
            opt.step(loss)
            opt.zero_grad()
            schedule.step(float(i if rank == 1 else -i))
        return "done"
    except weft.Error as error:
        return str(error)


def loads_later(make, inside, who, at, by):
    """The ranks `who` write other weights into their model before step `at`; the steps that were made, and the error."""
    rank, model = rank_of(), net()
    inner = torch.optim.SGD(model.parameters(), lr=1e-3) if inside else None
    opt = make(model, inner, method="ddp", between="ranks")
    try:
        for t in range(6):
            if t == at and rank in who:
                g = torch.Generator().manual_seed(1)
                model.load_state_dict({k: v + by * v.norm() / v.numel() ** 0.5 * torch.randn(v.shape, generator=g).to(v.device)
                                       for k, v in model.state_dict().items()})
            loss_of(model, rank, t).backward()
            opt.step()
            opt.zero_grad()
        return 6, ""
    except weft.Error as error:
        return opt.steps, str(error)


FOUND = [(weft.Optimizer, False, 2, 1, 1), (weft.Optimizer, True, 3, 0, 0), (OptimizerThere, False, 2, 1, 1),
         (OptimizerThere, True, 2, 0, 1)]


@pytest.mark.parametrize("make,inside,size,who,ends", FOUND)
def test_weights_that_one_process_alone_has_loaded_are_found(make, inside, size, who, ends):
    """Copies drifted apart without a word. As with rates those that are fewer end; of as many, those without the first."""
    found = run(loads_later, size, make, inside, (who,), 3, 0.5)
    steps, said = found.pop(ends)
    assert steps == 4 and "parameters when step 5 began were not those of rank" in said  # looks in 1, 2, 3 and 5
    assert all(one == (6, "") for one in found)


def test_what_one_comparison_does_not_see_another_does(monkeypatch):
    """All looked along one direction, and weights that differ little along it were never found. Of two numbers that change
    places half of the directions see nothing."""
    monkeypatch.setattr(_places, "_PART", 64)
    _places._weights.cache_clear()
    x = SimpleNamespace(p=torch.linspace(-3, 3, 64))
    for j in range(1, 64):
        y = x.p.clone()
        y[[0, j]] = x.p[[j, 0]]
        assert any(abs(_places.mark([x], turn) - _places.mark([SimpleNamespace(p=y)], turn)) > 1e-3 for turn in range(9))
    _places._weights.cache_clear()
    turns = []
    monkeypatch.setattr(_places, "mark", lambda _, turn: turns.append(turn))
    for done in range(1000):
        weft.Optimizer._mark(SimpleNamespace(_sync=SimpleNamespace(steps=lambda: done, mark=lambda _: None), _places=(),
                                             mesh=SimpleNamespace(size=2), _now=lambda _: "none"))
    assert len(set(turns)) == len(turns) == 15


def test_rounding_and_what_all_load_are_no_other_weights():
    for who, by in (((1,), 1e-5), ((0, 1), 0.5)):
        assert run(loads_later, 2, weft.Optimizer, True, who, 0, by) == [(6, "")] * 2


def test_a_schedule_that_follows_a_processs_own_loss_is_found():
    """Copies drifted apart without a word; who has the rate of fewer ends, and the other goes on."""
    first, second = run(follows_its_own_loss, 2)
    assert "the learning rate was 0.01 in step 3, that of rank 0 0.1" in second
    assert first == "done"


def test_the_rate_is_the_one_that_a_schedule_began_with():
    """Who comes later has not moved its own yet."""
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 1)
    sgd.step()
    schedule.step()
    assert "group 0 lr: 0.5\n" in _alike.text_of(sgd.param_groups, [], sgd)


def alike():
    """Where processes may differ: how they compute on their own device, and how often."""
    model = net(rank_of())
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=rank_of() == 0)
    opt = weft.Optimizer(model, inner, method="ddp", overlap=rank_of() == 0)
    loss = loss_of(model, rank_of(), 0)
    loss.backward()
    return opt.step(loss).processes


def test_what_is_a_processs_own_may_differ():
    assert run(alike, 2) == [2, 2]


def going(over):
    opt = weft.Optimizer(net(), method="ddp", between="ranks", lr=1e-3)
    while not over.is_set():
        time.sleep(0.02)
        opt.step()


def coming(make):
    return unlike(make)


@pytest.mark.parametrize("make,sentence", [
    (lambda model, _: weft.Optimizer(model, method="ddp", between="ranks", lr=2e-3),
     "optimizer.lr is 0.002 here and 0.001 in the run"),
    (lambda model, _: weft.Optimizer(model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                                     method="ddp", between="ranks"),
     "optimizer.lr is 0.0056 here and 0.001 in the run")], ids=["rate", "inside"])
def test_who_comes_is_told_what_differs(make, sentence):
    port, endpoint, over = free_port(), free_port(), fork.Event()
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    others = [Rank(going, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})},
                   (over,), {}) for r in range(2)]
    late = Rank(coming, 0, {"RANK": "0", "WEFT_JOIN": f"127.0.0.1:{endpoint}"}, (make,), {})
    fine, told = late.finish(60)
    over.set()
    assert all(ok for ok, _ in answers(others, 60))
    assert fine and sentence in told, told
