# SPDX-License-Identifier: MIT
"""Rows that differ by process and step: all learn what one process over all rows would."""

import os
import signal

import pytest
import torch
from models import MixThere, OptimizerThere, batch, flat, net
from ranks import answers, run, start

import weft_sync.torch as weft

STEPS, R = 6, 3
#: rows of each rank in each step; a rank without any, and all of them alike
COUNTS = [[1, 3, 10], [4, 0, 2], [7, 1, 0], [2, 2, 2], [1, 1, 12], [5, 4, 3]]


def part(rank, step, rows):
    tokens, wanted = batch(rank, step, 12)
    return tokens[:rows], wanted[:rows]


def loss_on(model, tokens, wanted):
    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())


def descend(there, method, keys, early=False):
    """Parameters, and the losses that were reported."""
    model, rank, losses = net(), weft.mesh().rank, []
    made = OptimizerThere if there else weft.Optimizer
    inner = [torch.optim.SGD(model.parameters(), lr=0.1)] if there and method != "flexdemo" else []
    named = {} if inner else {"lr": 1e-3 if method == "flexdemo" else 0.1}
    optimizer = made(model, *inner, method=method, uneven=True, keys=keys, **named)
    for t in range(STEPS):
        n = COUNTS[t][rank]
        loss = loss_on(model, *part(rank, t, n))  # of no rows it is not a number
        if early:
            optimizer.weigh(loss, rows=n)
        loss.backward()
        if early and method == "ddp" and not there:  # gradients have left already
            assert all(place.version is not None for place in optimizer._places)
        losses.append(optimizer.step(loss, **({} if early else {"rows": n})).loss)
        optimizer.zero_grad()
    return flat(model), losses


def one_process():
    """In double precision, over all rows."""
    model, losses = net().double(), []
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for t in range(STEPS):
        tokens, wanted = (torch.cat(x) for x in zip(*(part(r, t, COUNTS[t][r]) for r in range(R))))
        loss = loss_on(model, tokens, wanted)
        loss.backward()
        sgd.step()
        sgd.zero_grad()
        losses.append(loss.item())
    return flat(model), losses


SGD = {"optimizer.kind": "sgd", "optimizer.weight_decay": 0, "optimizer.clip": 0}


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("method", ["ddp", "hsdp"])
def test_all_rows_are_one_batch(method, there):
    """Six steps of 0.1 times a gradient below 1, in float32."""
    wanted, losses = one_process()
    found = run(descend, R, there, method, {} if there else SGD)
    for parameters, told in found:
        assert torch.equal(parameters, found[0][0])
        assert (parameters.double() - wanted).abs().max() < 2e-6
        assert told == pytest.approx(losses, abs=1e-6)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("method", ["ddp", "flexdemo"])
def test_rows_that_are_said_before_backward_have_the_same_bits(method, there):
    keys = {} if there and method == "ddp" else SGD if method == "ddp" else {"optimizer.clip": 0}
    late, soon = run(descend, R, there, method, keys), run(descend, R, there, method, keys, True)
    for (x, told), (y, said) in zip(late, soon):
        assert torch.equal(x, y) and told == said


EVERY = 3  # steps between two outer steps


def mixed(there, kind, stop=0):
    model, rank = net(), weft.mesh().rank
    keys = {"mixer.outer_every": EVERY, "mixer.outer_lr": 0.7, "mixer.outer_momentum": 0.5,
            "mixer.values": "f32"} if kind != "sparse_outer" else {"mixer.outer_every": EVERY}
    if kind == "streaming":
        keys |= {"mixer.fragments": 3, "mixer.delay": 2, "mesh.min_message": 1}
    method = {"outer": "diloco", "streaming": "streaming-diloco", "sparse_outer": "sparseloco"}[kind]
    for first, end in [(0, stop), (stop, STEPS)] if stop else [(0, STEPS)]:
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        mix = (MixThere if there else weft.Mix)(model, sgd, method=method, uneven=True, keys=keys)
        if first:
            mix.load_state_dict(state)
        for t in range(first, end):
            loss_on(model, *part(rank, t, COUNTS[t][rank])).backward()
            mix.step(rows=COUNTS[t][rank])
            sgd.zero_grad()
        state = mix.state_dict()
        mix.close()
    return flat(model)


def outer_steps():
    """DiLoCo's rule in double precision: changes weigh what the rows behind them are."""
    models = [net().double() for _ in range(R)]
    start = flat(models[0])
    velocity = torch.zeros_like(start)
    for first in range(0, STEPS, EVERY):
        changes, behind = 0, 0
        for r, model in enumerate(models):
            torch.nn.utils.vector_to_parameters(start.clone(), model.parameters())
            for t in range(first, first + EVERY):
                n = COUNTS[t][r]
                model.zero_grad()
                if n > 0:
                    loss_on(model, *part(r, t, n)).backward()
                    with torch.no_grad():
                        for p in model.parameters():
                            p -= 0.1 * p.grad
            n = sum(COUNTS[t][r] for t in range(first, first + EVERY))
            changes, behind = changes + n * (start - flat(model)), behind + n
        velocity = 0.5 * velocity + changes / behind
        start = start - 0.7 * (changes / behind + 0.5 * velocity)
    return start


@pytest.mark.parametrize("there", [False, True])
def test_outer_changes_weigh_their_rows(there):
    wanted = outer_steps()
    found = run(mixed, R, there, "outer")
    assert all(torch.equal(x, found[0]) for x in found)
    assert (found[0].double() - wanted).abs().max() < 2e-6


def rested(how):
    """Whether parameters move in a step, of rank 1 without rows after one with momentum."""
    model, rank, moved = net(), weft.mesh().rank, []
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    keys = {"mixer.outer_every": 5}
    optimizer = weft.Mix(model, adamw, method="diloco", uneven=True, keys=keys) if how == "mix" else weft.Optimizer(
        model, *([adamw] if how == "torch" else []), method="diloco", uneven=True, keys=keys)
    for t in range(4):
        before, n = flat(model), 0 if t % 2 and rank == 1 else 2
        loss = loss_on(model, *part(rank, t, n))
        loss.backward()
        optimizer.step(**({} if how == "mix" else {"loss": loss}), rows=n)
        adamw.zero_grad() if how == "mix" else optimizer.zero_grad()
        moved.append(not torch.equal(flat(model), before))
    return moved


@pytest.mark.parametrize("how", ["weft", "torch", "mix"])
def test_without_rows_an_inner_optimizer_makes_no_step(how):
    assert run(rested, 2, how) == [[True] * 4, [True, False] * 2]


@pytest.mark.parametrize("kind", ["outer", "streaming", "sparse_outer"])
def test_between_two_outer_steps_rows_are_saved(kind):
    whole, host = run(mixed, R, True, kind), run(mixed, R, False, kind)
    assert torch.equal(run(mixed, R, True, kind, 4)[1], whole[1])
    assert torch.equal(run(mixed, R, False, kind, 4)[1], host[1])
    assert (host[0] - whole[0]).abs().max() < 1e-5  # where it is computed does not matter


MEETINGS, KEPT = 12, 8  # steps, and of how many of them rows count


def gossiped(there, stop=0):
    model, rank = net(), weft.mesh().rank
    for first, end in [(0, stop), (stop, MEETINGS)] if stop else [(0, MEETINGS)]:
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        mix = (MixThere if there else weft.Mix)(model, sgd, method="dadam", uneven=True,
                                                keys={"mixer.topology": "complete"})
        if first:
            mix.load_state_dict(state)
        for t in range(first, end):
            n = COUNTS[t % STEPS][rank]
            loss_on(model, *part(rank, t, n)).backward()
            mix.step(rows=n)
            sgd.zero_grad()
        state = mix.state_dict()
        mix.close()
    return flat(model)


def behind_of(t, steps):
    """Of each rank: its rows of so many steps, up to step t."""
    return [sum(COUNTS[s % STEPS][r] for s in range(max(0, t + 1 - steps), t + 1)) for r in range(R)]


def meetings():
    """In double precision: those who meet weigh their rows of the last steps."""
    models = [net().double() for _ in range(R)]
    for t in range(MEETINGS):
        behind = behind_of(t, KEPT)
        mean = sum(m * flat(model) for m, model in zip(behind, models)) / sum(behind)
        for r, model in enumerate(models):
            model.zero_grad()
            n = COUNTS[t % STEPS][r]
            if n > 0:
                loss_on(model, *part(r, t, n)).backward()
            torch.nn.utils.vector_to_parameters(mean.clone(), model.parameters())
            with torch.no_grad():
                for p in model.parameters():
                    if p.grad is not None:
                        p -= 0.1 * p.grad
    return [flat(model) for model in models]


@pytest.mark.parametrize("there", [False, True])
def test_who_meets_weighs_its_rows(there):
    found = run(gossiped, R, there)
    for x, wanted in zip(found, meetings()):
        assert (x.double() - wanted).abs().max() < 2e-6
    assert all(torch.equal(x, y) for x, y in zip(found, run(gossiped, R, there, 9)))


def streamed():
    """By what a change is multiplied, in each step."""
    model, rank, weights = net(), weft.mesh().rank, []
    mix = weft.Mix(model, torch.optim.SGD(model.parameters(), lr=0.1), method="streaming-diloco", uneven=True,
                   keys={"mixer.outer_every": EVERY, "mixer.fragments": 3, "mixer.delay": 2, "mesh.min_message": 1})
    for t in range(2 * STEPS):
        n = COUNTS[t % STEPS][rank]
        loss_on(model, *part(rank, t, n)).backward()
        mix.step(rows=n)
        weights.append(mix.weft._rows.weight)
    return weights


def test_each_fragment_weighs_the_rows_since_it_was_sent():
    behind = [behind_of(t, EVERY) for t in range(2 * STEPS)]
    for r, weights in enumerate(run(streamed, R)):
        assert weights == pytest.approx([R * m[r] / sum(m) for m in behind])


def test_what_is_chosen_weighs_its_rows_wherever_it_is_chosen():
    keys = {"replicator.sign": False, "optimizer.weight_decay": 0, "optimizer.kind": "sgd"}
    here, there = run(descend, R, False, "flexdemo", keys), run(descend, R, True, "flexdemo", keys)
    assert all(torch.equal(x, here[0][0]) for x, _ in here)
    assert (here[0][0] - there[0][0]).abs().max() < 1e-5
    assert here[0][1] == pytest.approx(there[0][1], abs=1e-5)


def killed():
    """Rank 1 of three, who has most rows, is killed when it has told them."""
    model, rank, losses = net(), int(os.environ["RANK"]), []
    optimizer = weft.Optimizer(model, method="ddp", lr=0.1, between="ranks", uneven=True, keys=SGD)
    for t in range(8):
        n = [1, 9, 0][rank] if t != 6 else 2
        loss = loss_on(model, *part(rank, t, n))
        loss.backward()
        if rank == 1 and t == 4:
            optimizer._open()
            optimizer._sync.weigh(float(loss), n)
            os.kill(os.getpid(), signal.SIGKILL)
        losses.append(optimizer.step(loss, rows=n).loss)
        optimizer.zero_grad()
    return flat(model), losses, optimizer.report.processes


def test_the_others_go_on_without_the_rows_of_one_that_is_killed():
    found = answers(start(killed, R))
    assert [fine for fine, _ in found] == [True, False, True], found
    (a, losses, n), (b, theirs, _) = found[0][1], found[2][1]
    assert torch.equal(a, b) and torch.isfinite(a).all() and n == 2 and losses == theirs


def refused(make, step, words):
    with pytest.raises(weft.Error, match=words):
        model = net()
        optimizer = make(model)
        loss_on(model, *part(0, 0, 2)).backward()
        step(optimizer)


def test_what_is_said_of_rows_is_applied_or_refused():
    def uneven(model):
        return weft.Optimizer(model, method="ddp", uneven=True)
    refused(lambda m: weft.Optimizer(m, method="ddp"), lambda o: o.step(1.0, rows=3), "create the optimizer with uneven")
    refused(lambda m: weft.Optimizer(m, method="ddp"), lambda o: o.weigh(1.0, rows=None), "without uneven=True")
    refused(uneven, lambda o: o.step(1.0), "rows is left out")
    refused(uneven, lambda o: o.step(1.0, rows=2.5), "rows is 2.5, expected a whole number")
    refused(uneven, lambda o: o.step(1.0, rows=-1), "rows is -1, expected a whole number")
    refused(lambda m: weft.Optimizer(m, torch.optim.SGD(m.parameters(), lr=0.1), method="ddp", uneven=True,
                                     agree="backward"), lambda o: None, "nobody has said the rows yet")

    def plain_step(model):
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        weft.Mix(model, sgd, method="diloco", uneven=True)
        return sgd
    refused(plain_step, lambda sgd: sgd.step(), "rows is left out")


def test_rows_that_could_not_be_told_may_be_told_again():
    model = net()
    optimizer = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="ddp", uneven=True)
    loss = loss_on(model, *part(0, 0, 2))
    with pytest.raises((RuntimeError, ValueError)):
        optimizer.weigh(torch.ones(2), rows=2)  # a loss that is no number
    optimizer.weigh(loss, rows=2)
    loss.backward()
    assert optimizer.step(loss).step == 1


def test_rows_are_told_before_gradients_are_clipped():
    model = net()
    optimizer = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="ddp", uneven=True)
    loss = loss_on(model, *part(0, 0, 2))
    loss.backward()
    optimizer.agree(loss, rows=2)
    with pytest.raises(weft.Error, match="said for this step already: 2"):
        optimizer.step(loss, rows=2)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert optimizer.step(loss).loss == pytest.approx(loss.item())
