# SPDX-License-Identifier: MIT
"""Models and loops that are not as most are: each trains as torch alone would, or the optimizer
says in one sentence why not."""

import copy
import os
import pickle

import pytest
import torch
from models import DEVICE, OptimizerThere, batch, flat, loss_of, net
from ranks import run

import weft_sync.torch as weft
from weft_sync import _places

Parameter = torch.nn.Parameter


@pytest.fixture(autouse=True)
def mesh_of_each(monkeypatch):
    """A mesh of this process would be no use to its forks."""
    monkeypatch.setattr(weft._world, "_default", None)


def optimizer(model, inner=None, **named):
    return weft.Optimizer(model, inner, method="ddp", lr=None if inner else 0.1, **named)


def step(opt, loss):
    loss.backward()
    report = opt.step(loss)
    opt.zero_grad()
    return report


# --- it works ---

def beside_torch(make, loss_of, steps=3):
    """Largest difference between torch's SGD alone and inside weft."""
    torch.manual_seed(5)
    alone = make()
    inside = copy.deepcopy(alone)
    sgd = torch.optim.SGD(alone.parameters(), lr=1e-3)
    opt = optimizer(inside, torch.optim.SGD(inside.parameters(), lr=1e-3))
    for t in range(steps):
        sgd.zero_grad()
        loss_of(alone, t).backward()
        sgd.step()
        step(opt, loss_of(inside, t))
    return max((a - b).abs().max().item()
               for a, b in zip(alone.parameters(), inside.parameters(), strict=True))


def test_sparse_gradients_of_an_embedding():
    def loss(model, t):
        return model(torch.tensor([t, 2 * t, 3])).square().sum()
    assert beside_torch(lambda: torch.nn.Embedding(10, 4, sparse=True), loss) < 1e-6


def test_memory_formats_and_strides():
    torch.manual_seed(3)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    conv = beside_torch(lambda: torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last),
                        lambda model, t: model(x).square().sum())
    assert conv < 1e-6

    class Turned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = Parameter(torch.randn(3, 5).t())
            self.scalar = Parameter(torch.tensor(2.0))

    assert beside_torch(Turned, lambda model, t: (model.w * model.scalar).square().sum()) < 1e-6


def test_a_parameter_that_is_frozen_later_stays_as_it_is():
    for inner in (False, True):
        model = torch.nn.Linear(3, 3)
        opt = optimizer(model, torch.optim.AdamW(model.parameters(), lr=0.1) if inner else None)
        step(opt, model(torch.ones(2, 3)).sum())
        model.bias.requires_grad_(False)
        bias, weight = model.bias.clone(), model.weight.clone()
        step(opt, model(torch.ones(2, 3)).sum())
        assert torch.equal(model.bias, bias) and not torch.equal(model.weight, weight)
        model.bias.requires_grad_(True)
        step(opt, model(torch.ones(2, 3)).sum())
        assert not torch.equal(model.bias, bias)


@pytest.mark.parametrize("to_none", [True, False])
def test_what_the_module_drops_between_two_backward_passes_is_dropped(to_none):
    """It was exchanged with the rest."""
    def moved(drop, again):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 3)
        before = model.weight.detach().clone()
        opt = weft.Optimizer(model, method="ddp", lr=1e-3, weight_decay=0, optimizer_kind="sgd", optimizer_clip=0)
        if drop:
            with opt.no_sync():
                model(torch.ones(2, 3)).sum().backward()
            model.zero_grad(set_to_none=to_none)
        if again:
            model(torch.randn(2, 3, generator=torch.Generator().manual_seed(1))).sum().backward()
        opt.step()
        return model.weight.detach() - before
    assert torch.equal(moved(True, True), moved(False, True)) and not moved(True, False).any()


def test_a_gradient_of_a_gradient_counts_once():
    model, other = (torch.nn.Linear(3, 3) for _ in range(2))
    other.load_state_dict(model.state_dict())
    opt = weft.Optimizer(model, method="ddp", accumulate=2)
    for m in (model, other):
        for _ in range(2):
            m(torch.ones(2, 3)).square().sum().backward(create_graph=True)
    assert torch.equal(opt._places[0].grad, other.weight.grad)


class Twice(torch.nn.Module):
    """One matrix is also used detached, before. Its gradient is complete when backward reaches that
    use, and its numbers are those of the next step if weft has stepped by then."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = Parameter(torch.randn(6, 6))
        self.matrix = Parameter(torch.randn(6, 6))

    def forward(self, x):
        return x @ self.first @ self.matrix.detach() @ self.matrix


def test_what_backward_reads_after_a_parameters_gradient_is_complete_is_of_this_step():
    def weft_sgd(model, **named):
        return weft.Optimizer(model, method="ddp", lr=1e-3, weight_decay=0, optimizer_kind="sgd", optimizer_clip=0, **named)

    x, model, alone = torch.ones(2, 6), Twice(), Twice()
    opt = weft_sgd(model)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        model(x).square().mean().backward()
    opt.close()
    model, sgd = Twice(), torch.optim.SGD(alone.parameters(), lr=1e-3)
    opt, first = weft_sgd(model, overlap=False), flat(model)
    for _ in range(3):
        sgd.zero_grad()
        alone(x).square().mean().backward()
        sgd.step()
        loss = model(x).square().mean()
        loss.backward(retain_graph=True)
        opt.step(loss)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()  # as with torch's optimizers
        opt.zero_grad()
    assert (flat(model) - flat(alone)).abs().max() < 1e-6 and (flat(model) - first).abs().max() > 1e-2


def test_a_parameter_that_is_trained_from_later_on_is_told():
    """Its gradients stayed each process's own."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[0].weight.requires_grad_(False)
    opt = weft.Optimizer(model, method="ddp", lr=1e-3)
    step(opt, model(torch.ones(2, 3)).sum())
    model[0].weight.requires_grad_(True)
    with pytest.raises(weft.Error, match="'0.weight' was frozen when the optimizer was created, and is not now"):
        step(opt, model(torch.ones(2, 3)).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_what_is_written_into_parameters_between_steps_counts(dtype):
    """Weights that are loaded after the optimizer is made, and an average that is tried on."""
    model = torch.nn.Linear(4, 4).to(dtype)
    opt = weft.Optimizer(model, method="ddp", lr=1e-4, weight_decay=0.0)
    x = torch.ones(2, 4, dtype=dtype)
    step(opt, model(x).sum())
    masters = [place.master.clone() for place in opt._places]
    kept = copy.deepcopy(model.state_dict())
    model.load_state_dict({name: torch.zeros_like(v) for name, v in kept.items()})
    model.load_state_dict(kept)
    step(opt, model(x).sum())  # lost no digit of the masters, which move by the rate alone
    for place, before in zip(opt._places, masters, strict=True):
        assert (place.master - before).abs().max() < 1.1e-4
    model.load_state_dict({name: torch.full_like(v, 0.5) for name, v in kept.items()})
    step(opt, model(x).sum())
    assert all((p - 0.5).abs().max() < 2e-3 for p in model.parameters())


def far(opt):
    """As if the parameters lay on another device: their digests say whether they were written to."""
    for place in opt._places:
        place.near = False
        place._see()
    return opt


WAYS = {"place": lambda m: weft.Optimizer(m, method="ddp", lr=1e-4),
        "far": lambda m: far(weft.Optimizer(m, method="ddp", lr=1e-4)),
        "inside": lambda m: optimizer(m, torch.optim.SGD(m.parameters(), lr=1e-4)),
        "device": lambda m: OptimizerThere(m, method="flexdemo", lr=1e-4)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_through_data_counts(way, dtype):
    """Weights of a critic that are clipped, and an average that stays: torch counts no version."""
    model = torch.nn.Linear(4, 4).to(dtype)
    torch.nn.init.constant_(model.weight, 0.25)
    opt = WAYS[way](model)
    x = torch.ones(2, 4, dtype=dtype)
    step(opt, model(x).sum())
    for p in model.parameters():
        p.data.clamp_(-0.125, 0.125)
    step(opt, model(x).sum())
    assert (model.weight - 0.125).abs().max() < 2e-3
    for p in model.parameters():
        p.data.copy_(torch.full_like(p, 0.5))
    if way != "device":
        assert all((floats == 0.5).all() for floats in
                   (opt.state_dict()["state"][i]["parameters"] for i in range(2)))
        with opt.averaged():
            assert all((p == 0.5).all() for p in model.parameters())
    model.weight.data.view(-1)[5] = 0.75  # one number of many
    step(opt, model(x).sum())
    wanted = torch.full((4, 4), 0.5).view(-1)
    wanted[5] = 0.75
    assert (model.weight.float().view(-1) - wanted).abs().max() < 4e-3


def test_a_digest_is_of_all_bits_and_their_places(monkeypatch):
    monkeypatch.setattr(_places, "_PART", 8)
    _places._weights.cache_clear()
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        x = torch.linspace(-1, 1, 30).to(dtype)
        said = {_places.digest(x).item()}
        for i in range(30):
            y = x.clone()
            y[i] = torch.nextafter(y[i], torch.tensor(2.0, dtype=dtype))
            said.add(_places.digest(y).item())
        for i in range(30):
            said.add(_places.digest(x.roll(i)).item())
        assert len(said) == 60 and _places.digest(x.clone()).item() in said
    _places._weights.cache_clear()


def test_copies_of_the_model_are_apart():
    model = torch.nn.Linear(3, 3)
    opt = optimizer(model)
    model(torch.ones(2, 3)).sum().backward()
    other, file = copy.deepcopy(model), pickle.dumps(model)
    opt.step(1.0)
    assert not torch.equal(other.weight, model.weight)
    other(torch.ones(2, 3)).sum().backward()
    assert model.weight.grad is None
    assert torch.equal(pickle.loads(file).weight, other.weight)


def test_two_optimizers_in_one_loop():
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    one, two = optimizer(first), weft.Optimizer(second, method="flexdemo", lr=0.1)
    for _ in range(3):
        loss = second(first(torch.ones(2, 3))).square().sum()
        loss.backward()
        assert one.step(loss).step == two.step(loss).step
        one.zero_grad(), two.zero_grad()


def long_names():
    model = torch.nn.Module()
    model.add_module("ü" * 60, torch.nn.Linear(2, 2))
    model.add_module("ü" * 61, torch.nn.Linear(2, 2))
    return model


def test_long_names_in_any_script():
    optimizer(long_names())


def spoilt(method):
    """In step 2 the gradient of rank 1 is not a number; where a lost process ends the run."""
    model, rank = net(0), int(os.environ["RANK"])
    opt = weft.Optimizer(model, method=method, lr=1e-3, between="ranks", mesh_on_loss="end")
    with pytest.raises(weft.Error, match="gradient is not finite at step 3 .*: bucket 0, .*bias|"
                       "rank 1 .*gradient is not finite at step 3"):
        for t in range(4):
            loss = loss_of(model, rank, t)
            (loss * (float("nan") if (rank, t) == (1, 2) else 1)).backward()
            opt.step(loss.detach())
            opt.zero_grad()
    return all(bool(torch.isfinite(p).all()) for p in model.parameters())


@pytest.mark.parametrize("method", ["ddp", "flexdemo", "random"])
def test_a_gradient_that_is_no_number_is_named_and_spoils_nobody(method):
    assert run(spoilt, 2, method) == [True, True]


# --- it is refused ---

def expanded():
    return [Parameter(torch.ones(1, 4).expand(3, 4))]


def overlapping():
    flat = torch.randn(6)
    return [Parameter(flat[:4]), Parameter(flat[2:])]


def twice():
    p = Parameter(torch.ones(2))
    return [{"params": [p]}, {"params": [Parameter(p.data)]}]


def without_tracking():
    with torch.inference_mode():
        return torch.nn.Linear(2, 2)


REFUSED = [(lambda: [Parameter(torch.ones(2, dtype=torch.complex64))], "expected real numbers"),
           (lambda: [Parameter(torch.ones(2, device="meta"))], "meta device"),
           (lambda: [Parameter(torch.ones(0, 3))], "without elements"),
           (expanded, "expanded"), (overlapping, "share memory"), (twice, "share memory"),
           (without_tracking, "inference"),
           (lambda: torch.nn.Linear(2, 2).requires_grad_(False), "no tensors")]


@pytest.mark.parametrize("make,words", REFUSED)
def test_what_can_not_be_exchanged_is_refused(make, words):
    with pytest.raises(weft.Error, match=words):
        optimizer(make())


def test_parameters_that_are_replaced_or_added_later_are_told():
    model = torch.nn.Linear(3, 3)
    opt = optimizer(model)
    model.double()
    with pytest.raises(weft.Error, match="'weight' was moved, converted or replaced"):
        model(torch.ones(2, 3).double()).sum().backward()
    model = torch.nn.Linear(3, 3)
    opt = optimizer(model)
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    model(torch.ones(2, 3)).sum().backward()
    with pytest.raises(weft.Error, match="other parameters than when"):
        opt.step(1.0)
    model = torch.nn.Linear(3, 3)
    opt = optimizer(model)
    optimizer(model)
    with pytest.raises(weft.Error, match="a second optimizer"):
        opt.step(1.0)
    with pytest.raises(weft.Error, match="added after"):
        opt.add_param_group({"params": [Parameter(torch.ones(2))]})
    inner = torch.optim.SGD(torch.nn.Linear(3, 3).parameters(), lr=0.1)
    opt = optimizer([p for g in inner.param_groups for p in g["params"]], inner)
    inner.add_param_group({"params": [Parameter(torch.ones(2))]})
    with pytest.raises(weft.Error, match="3 parameters, 2 when it was created"):
        opt.step(1.0)


def test_an_optimizer_is_not_copied():
    opt = optimizer(torch.nn.Linear(3, 3))
    for copier in (copy.deepcopy, pickle.dumps):
        with pytest.raises(weft.Error, match="can not be copied or pickled"):
            copier(opt)


def test_what_has_no_state_is_not_carried():
    with pytest.raises(weft.Error, match="int has no state to carry"):
        optimizer(torch.nn.Linear(3, 3)).carry(7)


# --- gradients that are not weft's memory: of 16 bits here, of a GPU elsewhere ---


def clipped(by):
    """The largest step that SGD makes with rate 1 of gradients whose norm is 1e-3."""
    model = net().to(torch.bfloat16)
    before = [p.detach().clone().float() for p in model.parameters()]
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    opt = weft.Optimizer(model, inner, method="ddp", overlap=by == "overlap")
    loss_of(model, 0, 0).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert norm > 0.1  # it is the gradients' own
    if by == "overlap":
        with pytest.raises(weft.Error, match="changed after its exchange had begun"):
            opt.step()
        return None
    norm = sum(p.grad.float().square().sum() for p in model.parameters()).sqrt()
    opt.step()
    assert all(p.grad is None for p in model.parameters()) and abs(norm - 1e-3) < 1e-4
    moved = sum((p.detach().float() - b).square().sum()
                for p, b in zip(model.parameters(), before)).sqrt()
    return moved.item()


def test_clipping_of_16_bit_gradients_counts_or_is_told():
    assert run(clipped, 1, "step")[0] < 1e-2
    run(clipped, 1, "overlap")


def logged(dtype):
    """Norms as a loop may log them after backward, with overlap, are not in the way."""
    model = net().to(dtype)
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, accumulate=2)
    norms = []
    for t in range(3):
        for k in range(2):
            loss_of(model, 0, 2 * t + k).backward()
        norms.append(max(p.grad.abs().max().item() for p in model.parameters()))
        opt.step()
    return norms, opt.report.step


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_may_be_looked_at(dtype):
    (norms, steps), = run(logged, 1, dtype)
    assert min(norms) > 0 and steps == 3


# --- what a program has set for all tensors that torch makes ---


def defaults(method, device, dtype, device_optimizer):
    rank, model = int(os.environ["RANK"]), net()
    model.spare = Parameter(torch.ones(40, 40))  # no loss reaches it: what is sent of it, step sends
    batches = [batch(rank, t) for t in range(3)]
    torch.set_default_device(device)
    torch.set_default_dtype(dtype)
    make = OptimizerThere if device_optimizer else weft.Optimizer
    opt = make(model, method=method, lr=1e-3, between="ranks")
    for tokens, wanted in batches:
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())
        loss.backward()
        opt.step(loss)
    state = opt.state_dict()
    assert all(a.device.type == "cpu" for s in state["state"].values() for a in s.values())
    torch.set_default_device("cpu")
    return flat(model)


@pytest.mark.parametrize("method,device_optimizer", [("flexdemo", False), ("flexdemo", True),
                                                     ("random", True), ("striding", True)])
def test_defaults_for_new_tensors_do_not_reach_wefts(method, device_optimizer):
    keys = (method, device_optimizer)
    plain = run(defaults, 2, keys[0], "cpu", torch.float32, keys[1])
    found = run(defaults, 2, keys[0], "meta", torch.float64, keys[1])
    assert all(torch.equal(a, b) for a, b in zip(plain, found))


def frozen(wide, adapter):
    """A layer that is not trained, with two thin factors beside it that are."""
    model = torch.nn.ModuleList([torch.nn.Linear(wide, wide), torch.nn.Linear(wide, adapter),
                                 torch.nn.Linear(adapter, wide)])
    return model, model[0].requires_grad_(False)


@pytest.mark.parametrize("make", [weft.Optimizer, OptimizerThere])
def test_rates_that_nobody_names_fall_with_the_width(make):
    def rate(model, **named):
        opt = make(model, method="flexdemo", between="ranks", **named)
        opt.close()
        return opt.param_groups[0]["lr"]

    def block(width):
        return torch.nn.Sequential(torch.nn.Embedding(1000, width),
                                   torch.nn.Linear(width, 4 * width),
                                   torch.nn.Linear(4 * width, width))

    assert rate(block(48)) == 4e-3 and rate(block(768)) == 6e-4
    assert rate(block(768).parameters()) == 6e-4
    assert rate(frozen(768, 8)[0]) == 6e-4
    assert rate(torch.nn.Conv2d(64, 256, 3)) == 8e-4
    assert rate([torch.nn.Parameter(torch.ones(5000))]) == 4e-3
    assert rate(block(768), lr=0.5) == 0.5
    assert rate(block(768), model_width=1536, model_heads=1) == 3e-4


def cast(inside):
    """backward inside of autocast, as many loops have it."""
    rank, model = int(os.environ["RANK"]), net()
    opt = OptimizerThere(model, method="flexdemo", lr=1e-3, between="ranks")
    for t in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, rank, t)
            if inside:
                loss.backward()
                opt.step(loss)
        if not inside:
            loss.backward()
            opt.step(loss)
    return flat(model)


def test_backward_inside_of_autocast_has_the_same_bits():
    for a, b in zip(run(cast, 2, True), run(cast, 2, False)):
        assert torch.equal(a, b)


# --- loops of two models, and other people's steps ---


def adversaries():
    """The generator's loss goes through the critic, whose gradients of it are dropped."""
    rank = int(os.environ["RANK"])
    maker, critic = net(rank), net(rank + 5)
    of_maker = weft.Optimizer(maker, method="ddp", lr=1e-3, between="ranks")
    of_critic = weft.Optimizer(critic, torch.optim.Adam(critic.parameters(), lr=1e-3),
                               method="ddp", between="ranks")

    def made(t):
        x = maker.embed(torch.arange(8)[None] + t)
        return critic.head(torch.tanh(critic.body(critic.norm(x)))).square().mean()

    for t in range(3):
        loss_of(critic, rank, t).backward()
        of_critic.step()
        with of_critic.no_sync():
            made(t).backward()
        of_maker.step()
        of_critic.zero_grad()
    made(0).backward()
    with pytest.raises(weft.Error, match="goes into 'with optimizer.no_sync"):
        of_critic.zero_grad()
    with pytest.raises(weft.Error, match="as another optimizer's loss.*use_reentrant=False"):
        made(0).backward()
    of_critic.close()
    return flat(maker), flat(critic)


def critic_alone():
    critic = net(5)
    adam = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for t in range(3):
        adam.zero_grad()
        (sum(loss_of(critic, rank, t) for rank in range(2)) / 2).backward()
        adam.step()
    return flat(critic)


def test_a_loss_through_another_optimizers_model():
    (maker, critic), (same_maker, same_critic) = run(adversaries, 2)
    assert torch.equal(maker, same_maker) and torch.equal(critic, same_critic)
    assert (critic - critic_alone()).abs().max() < 1e-4


def checkpointed(reentrant):
    """None: activations are kept. Every parameter is reached once."""
    from torch.utils.checkpoint import checkpoint
    torch.manual_seed(3)
    layers = torch.nn.ModuleList(torch.nn.Linear(12, 12) for _ in range(3))
    opt = weft.Optimizer(layers, method="ddp", lr=1e-2, between="ranks")
    for t in range(3):
        x = torch.linspace(-1, 1, 24).view(2, 12).requires_grad_() * (t + 1 + opt.mesh.rank)
        for layer in layers:
            x = torch.tanh(layer(x) if reentrant is None else
                           checkpoint(layer, x, use_reentrant=reentrant))
        step(opt, x.square().sum())
    return flat(layers)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_activations_have_the_same_bits(reentrant):
    for a, b in zip(run(checkpointed, 2, None), run(checkpointed, 2, reentrant)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["foreach", "fused"])
def test_other_ways_of_torchs_step(kind):
    """Groups with rates and decays of their own, in one kernel or in few."""
    def make(model, way):
        groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                  {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0,
                   "lr": 5e-4}]
        return torch.optim.AdamW(groups, lr=1e-3, **{way: True})
    alone, inside = net(), net()
    adam = make(alone, kind)
    opt = weft.Optimizer(inside, make(inside, kind), method="ddp")
    for t in range(3):
        adam.zero_grad()
        loss_of(alone, 0, t).backward()
        adam.step()
        step(opt, loss_of(inside, 0, t))
    assert (flat(alone) - flat(inside)).abs().max() < 1e-6


@pytest.mark.parametrize("around", ["Mix", "Optimizer"])
def test_what_a_loss_has_not_reached_is_left_alone_where_gradients_are_ones_own(around):
    """AdamW decayed it, and moved it on by its moments, as if its gradient were zero."""
    alone, inside = net(), net()
    adam, inner = (torch.optim.AdamW(model.parameters(), lr=1e-2) for model in (alone, inside))
    weft_of = weft.Mix(inside, inner, method="diloco") if around == "Mix" else \
        weft.Optimizer(inside, inner, method="diloco")
    for t in range(4):
        for model, opt in ((alone, adam), (inside, inner if around == "Mix" else weft_of)):
            opt.zero_grad()
            (loss_of(model, 0, t) if t % 2 == 0 else model.head(torch.ones(2, 48, device=DEVICE)).sum()).backward()
            opt.step()
    weft_of.close()
    assert torch.equal(flat(alone), flat(inside))


def test_an_optimizer_that_computes_the_loss_itself_is_refused():
    model = net()
    with pytest.raises(weft.Error, match="LBFGS computes the loss several times"):
        optimizer(model, torch.optim.LBFGS(model.parameters()))
    with pytest.raises(weft.Error, match="SparseAdam takes sparse gradients"):
        optimizer(model, torch.optim.SparseAdam(list(model.parameters())))


@pytest.mark.parametrize("make", [weft.Optimizer, OptimizerThere])
def test_closures_are_called_and_their_loss_returned(make):
    """By place, as torch.optim's loops do, and by name, as Lightning does."""
    found = []
    for way in ("loss", "place", "name"):
        model = net()
        opt = make(model, method="flexdemo", lr=1e-2)

        def closure(model=model, opt=opt):
            assert torch.is_grad_enabled()
            opt.zero_grad()
            loss = loss_of(model, 0, len(losses))
            loss.backward()
            return loss

        losses = []
        for _ in range(3):
            said = {"loss": lambda: opt.step(closure()), "place": lambda: opt.step(closure),
                    "name": lambda: opt.step(closure=closure)}[way]()
            losses.append(said.loss if way == "loss" else said.item())
            assert opt.report.loss == losses[-1]
        found.append((losses, flat(model)))
        opt.close()
    for losses, values in found[1:]:
        assert losses == found[0][0] and torch.equal(values, found[0][1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loop_with_mix_is_not_changed(dtype):
    """Micro-batches, gradients that are dropped, set to zero and clipped: as torch alone."""
    alone = net().to(dtype)
    inside = copy.deepcopy(alone)
    both = [(m, torch.optim.AdamW(m.parameters(), lr=1e-2)) for m in (alone, inside)]
    with weft.Mix(inside, both[1][1], method="diloco", mixer_outer_every=100) as mix:
        for t in range(6):
            for model, inner in both:
                loss_of(model, 5, t).backward()
                inner.zero_grad(set_to_none=t % 2 == 0)
                for part in range(3):
                    loss_of(model, part, t).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                inner.step()
                if t % 3:
                    inner.zero_grad()
                else:
                    model.zero_grad()
            assert torch.equal(flat(alone), flat(inside)) and mix.steps == t + 1


def averaging():
    """A copy of the weights' averages is the program's own, and in the way of nothing."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    model = net()
    opt = weft.Optimizer(model, method="ddp", lr=1e-2)
    averages = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    by_hand = None
    for t in range(3):
        step(opt, loss_of(model, 0, t))
        averages.update_parameters(model)
        by_hand = flat(model) if by_hand is None else 0.5 * by_hand + 0.5 * flat(model)
    return (flat(averages.module) - by_hand).abs().max().item()


def test_averages_of_weights():
    assert run(averaging, 1)[0] < 1e-6
