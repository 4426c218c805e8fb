# SPDX-License-Identifier: MIT
"""What torch's optimizers and modules can do and programs use: right beside weft, or refused in one sentence."""

import os

import pytest
import torch
from models import OptimizerThere, flat, loss_of, net
from ranks import run

import weft_sync.torch as weft


@pytest.fixture(autouse=True)
def mesh_of_each(monkeypatch):
    monkeypatch.setattr(weft._world, "_default", None)


class Above(torch.optim.AdamW):
    """As libraries write them."""

    def step(self, closure=None):
        return super().step(closure)


def stepped(of):
    rank, model = int(os.environ["RANK"]), net()
    torch.optim.AdamW(net().parameters())  # its step has hooks from now on
    inner = of(model.parameters(), lr=1e-2)
    mix = weft.Mix(model, inner, method="diloco", mixer_outer_every=3, between="ranks")
    for t in range(7):
        model.zero_grad()
        loss_of(model, rank, t).backward()
        inner.step()
    steps = mix.steps
    mix.close()
    return steps, flat(model)


def test_a_step_that_calls_the_one_of_its_base_is_one():
    for (steps, found), (_, wanted) in zip(run(stepped, 2, Above), run(stepped, 2, torch.optim.AdamW)):
        assert steps == 7 and torch.equal(found, wanted)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)


def kept(dtype):
    """Every other step reaches one of two layers; zeros stay where torch leaves them."""
    grads, models = [], [Two().to(dtype), Two().to(dtype)]
    inner = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
    mix = weft.Mix(models[1], inner[1], method="diloco", mixer_outer_every=2, mixer_outer_lr=1.0, mixer_outer_momentum=0.0)
    for t in range(6):
        for model, opt in zip(models, inner):
            opt.zero_grad(set_to_none=t == 0)
            x = torch.ones(2, 4, dtype=dtype) * t
            (model.a(x) if t % 2 else model.b(model.a(x))).square().mean().backward()
            opt.step()
            grads.append(torch.cat([p.grad.reshape(-1) for p in model.parameters()]))
    mix.close()
    alike = all((a - b).abs().max() <= 0.01 * b.abs().max() for a, b in zip(grads[::2], grads[1::2], strict=True))
    return alike, (flat(models[0]) - flat(models[1])).abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_stay_the_loops_own_around_a_step_that_mixes(dtype):
    for alike, apart in run(kept, 2, dtype):
        assert alike and apart < (1e-6 if dtype == torch.float32 else 0.02)


class Sharp(torch.optim.SGD):
    """Computes the loss again where the gradient led, as SAM does."""

    @torch.no_grad()
    def step(self, closure):
        params = [p for group in self.param_groups for p in group["params"]]
        moves = [0.05 * p.grad for p in params]
        torch._foreach_add_(params, moves)
        with torch.enable_grad():
            loss = closure()
        torch._foreach_sub_(params, moves)
        super().step()
        return loss


def sharpened(mixes):
    model = net()
    inner = Sharp(model.parameters(), lr=0.1)
    if mixes:
        weft.Mix(model, inner, method="diloco", mixer_outer_every=1, mixer_outer_lr=1.0, mixer_outer_momentum=0.0)
    for t in range(3):
        def closure(t=t):
            model.zero_grad()
            loss = loss_of(model, 0, t)
            loss.backward()
            return loss
        closure()
        inner.step(closure)
    return flat(model)


def test_losses_that_are_computed_twice_in_a_step():
    with pytest.raises(weft.Error, match="Sharp computes the loss several times in a step; expected an optimizer that"):
        model = net()
        weft.Optimizer(model, Sharp(model.parameters(), lr=0.1), method="ddp")
    (wanted,) = run(sharpened, 1, False)
    for found in run(sharpened, 2, True):
        assert (found - wanted).abs().max() < 1e-6


@pytest.mark.skipif(not hasattr(torch.optim.Optimizer, "register_state_dict_post_hook"), reason="torch before 2.3")
@pytest.mark.parametrize("inside", [False, True])
def test_hooks_of_states_are_called(inside):
    model, called = net(), []

    def saved(_, packed):
        called.append("saved")
        return {**packed, "note": 7}

    def loads(_, packed):
        called.append(packed["note"])
        return {key: value for key, value in packed.items() if key != "note"}

    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1) if inside else None, method="ddp")
    opt.register_state_dict_pre_hook(lambda _: called.append("saves"))
    opt.register_state_dict_post_hook(saved)
    opt.register_load_state_dict_pre_hook(loads)
    opt.register_load_state_dict_post_hook(lambda _: called.append("loaded"))
    opt.load_state_dict(opt.state_dict())
    assert called == ["saves", "saved", 7, "loaded"]


def scaled(inside, dtype, make=weft.Optimizer, method="ddp", **named):
    model = net().to(dtype)
    opt = make(model, torch.optim.SGD(model.parameters(), lr=0.1) if inside else None, method=method, **named)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    scaler.scale(loss_of(model, int(os.environ["RANK"]), 0)).backward()
    scaler.step(opt)
    return flat(model).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_a_scaled_loss_are_divided_or_refused(inside, dtype):
    """They were exchanged as they were, and stepped along."""
    with pytest.raises(AssertionError, match="multiplied the loss by 16, and gradients were exchanged in backward"):
        run(scaled, 2, inside, dtype)
    with pytest.raises(AssertionError, match="multiplied the loss by 16"):
        run(scaled, 2, inside, dtype, OptimizerThere, "flexdemo")
    a, b = run(scaled, 2, inside, dtype, overlap=False), run(scaled, 2, inside, dtype, skips=True)
    assert all(torch.equal(x, y) for x, y in zip(a, b))


def test_what_weft_has_once_is_not_set_by_group_later():
    model = net()
    opt = weft.Optimizer(model, method="ddp")
    opt.param_groups[0]["betas"] = (0.5, 0.9)
    with pytest.raises(weft.Error, match="parameter group 0 sets betas; of weft's own optimizer expected lr and weight_decay"):
        loss_of(model, 0, 0).backward()
        opt.step()


def test_a_group_whose_rate_or_decay_changes_between_steps_steps_by_the_new_ones():
    model, like = net(), net()
    like.load_state_dict(model.state_dict())
    two = [[{"params": list(m.parameters())[:2]}, {"params": list(m.parameters())[2:]}] for m in (model, like)]
    both = (weft.Optimizer(two[0], method="ddp", lr=1e-2, weight_decay=0.1, betas=(0.9, 0.95), optimizer_clip=0),
            torch.optim.AdamW(two[1], lr=1e-2, weight_decay=0.1, betas=(0.9, 0.95)))
    for t, (lr, decay) in enumerate([(1e-2, 0.1), (1e-2, 0.1), (1e-4, 0.1), (1e-4, 0.5), (1e-2, 0.1)]):
        for m, opt in zip((model, like), both):
            opt.param_groups[1].update(lr=lr, weight_decay=decay)
            opt.zero_grad()
            loss_of(m, 0, t).backward()
            opt.step()
        assert torch.allclose(flat(model), flat(like), atol=1e-5), t


def test_a_state_that_is_set_is_that_of_the_optimizer_inside():
    model = net()
    inner = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss_of(model, 0, 0).backward()
    inner.step()
    opt = weft.Optimizer(model, inner, method="ddp")
    assert len(inner.state) == len(list(model.parameters()))  # what it had
    opt.state = type(inner.state)(dict)
    assert not inner.state
    with pytest.raises(weft.Error, match="weft's own optimizer keeps its moments in libweft"):
        weft.Optimizer(net(), method="ddp").state = {}


@pytest.mark.parametrize("make", [weft.Optimizer, OptimizerThere])
def test_moments_that_are_wefts_are_not_cleared_in_silence(make):
    model = net()
    opt = make(model, method="ddp")
    for clears in (opt.state.clear, lambda: setattr(opt, "state", {})):
        with pytest.raises(weft.Error, match="weft's own optimizer keeps its moments in libweft"):
            clears()
    loss_of(model, 0, 0).backward()
    opt.step()
    assert opt.state[next(model.parameters())].keys() == ({"m", "v"} if make is OptimizerThere else set())


@pytest.mark.parametrize("named", [{}, {"inside": True}, {"inside": True, "agree": "backward"}])
def test_a_second_step_after_one_backward_is_not_one_along_zero(named):
    """torch's optimizers step along the same gradients again."""
    model = net()
    inner = torch.optim.SGD(model.parameters(), lr=0.1) if named.pop("inside", False) else None
    opt = weft.Optimizer(model, inner, method="ddp", **named)
    loss_of(model, 0, 0).backward()
    opt.step()
    with pytest.raises(weft.Error, match="a second step.. after one backward"):
        opt.step()
    opt.zero_grad()  # and a step without rows is one
    opt.step()
    opt.step()
    loss_of(model, 0, 1).backward()
    assert opt.step().step == 4


class Fails(torch.optim.SGD):
    made = 0

    def step(self, closure=None):
        self.made += 1
        if self.made == 2:
            raise RuntimeError("no memory")
        return super().step(closure)


def failing(fails, retries):
    rank, model = int(os.environ["RANK"]), net()
    inner = (Fails if fails else torch.optim.SGD)(model.parameters(), lr=0.1)
    with weft.Mix(model, inner, method="diloco", mixer_outer_every=2, between="ranks") as mix:
        for t in range(5):
            model.zero_grad()
            loss_of(model, rank, t).backward()
            try:
                inner.step()
            except RuntimeError:
                if not retries:  # the next batch, then
                    model.zero_grad()
                    loss_of(model, rank, t).backward()
                inner.step()
        return mix.steps, flat(model)


@pytest.mark.parametrize("retries", [True, False])
def test_a_step_that_failed_inside_mix_is_made_again(retries):
    for (steps, found), (_, wanted) in zip(run(failing, 2, True, retries), run(failing, 2, False, retries)):
        assert steps == 5 and torch.equal(found, wanted)


@pytest.mark.parametrize("inside", [False, True])
def test_parameters_without_a_shape_are_refused(inside):
    model = torch.nn.Sequential(torch.nn.LazyLinear(4))
    inner = torch.optim.SGD(model.parameters(), lr=0.1) if inside else None
    with pytest.raises(weft.Error, match="'0.weight' has no shape yet: run a batch through the model"):
        weft.Optimizer(model, inner, method="ddp")


@pytest.mark.parametrize("inside", [False, True])
def test_memory_that_is_shared_later_is_told(inside):
    """libweft went on stepping what nobody reads; shared before, it trains."""
    model = net().share_memory()
    first = flat(model)
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1) if inside else None, method="ddp")
    loss_of(model, 0, 0).backward()
    opt.step()
    assert (flat(model) - first).abs().max() > 1e-4
    model.share_memory()
    with pytest.raises(weft.Error, match="was moved, converted or replaced .*share_memory"):
        loss_of(model, 0, 1).backward()
        opt.step()


def by_names(kind):
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    model = net()
    inner = None if kind == "own" else torch.optim.AdamW(model.parameters(), lr=1e-2)
    mix = weft.Mix(model, inner, method="diloco") if kind == "mix" else None
    opt = inner if mix is not None else weft.Optimizer(model, inner, method="ddp")
    loss_of(model, 0, 0).backward()
    opt.step()
    for saves in (True,) if kind == "mix" else (True, False):  # around Mix's a state of torch's own may be loaded
        with pytest.raises(weft.Error, match="drop what weft keeps of an optimizer; expected weft.PerRank"):
            if saves:
                get_state_dict(model, opt)
            else:
                set_state_dict(model, opt, model_state_dict=model.state_dict(), optim_state_dict={"state": {}, "param_groups": []})


@pytest.mark.parametrize("kind", ["own", "inside", "mix"])
def test_states_by_names_that_would_lose_wefts_are_refused(kind):
    run(by_names, 1, kind)
