# SPDX-License-Identifier: MIT
"""Batches that follow the speeds of the processes, and rows that are learned from once in an epoch."""

import collections
import math
import os
import signal
import types

import pytest
import torch
from models import flat, net
from ranks import Rank, answers, free_port, run
from test_uneven import SGD, loss_on

import weft_sync.torch as weft
from weft_sync._shares import MOST, WHOLE, Shares, divide
from weft_sync._sync import Sync

N, ROWS = 200, 14


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        tokens = torch.randint(0, 32, (9,), generator=torch.Generator().manual_seed(i))
        return i, tokens[:8], tokens[1:]


def told(speeds):
    """In place of what is measured: seconds for a row of each copy."""
    real = Sync.said

    def said(self):
        return [(was, rows, max(rows, 0) * speeds[i]) for i, (was, rows, _) in enumerate(real(self))]
    Sync.said = said


def made(method="ddp", ahead=0, log=None, least=1, **more):
    model = net()
    optimizer = weft.Optimizer(model, method=method, between="ranks", lr=0.1, uneven=True, keys=SGD, **more)
    sampler = weft.Sampler(optimizer, N, ROWS, seed=3, ahead=ahead, log=log, least=least)
    workers = {"num_workers": 1, "prefetch_factor": ahead} if ahead else {}
    return model, optimizer, sampler, torch.utils.data.DataLoader(Data(), batch_sampler=sampler, **workers)


def learn(model, optimizer, x, y):
    loss = loss_on(model, x, y)
    loss.backward()
    report = optimizer.step(loss, rows=len(x))
    optimizer.zero_grad()
    return report


def trained(speeds, ahead=0, stop=None, log=None, **more):
    """Two epochs: (epoch, step, rows) of each batch of this process, and what it ends with."""
    told(speeds)
    taken, (model, optimizer, sampler, loader) = [], made(ahead=ahead, log=log, **more)
    while sampler.epoch < 2:
        epoch = sampler.epoch
        for ids, x, y in loader:
            taken.append((epoch, optimizer.steps, ids.tolist()))
            learn(model, optimizer, x, y)
            if optimizer.steps == stop:
                saved = model.state_dict(), optimizer.state_dict(), sampler.state_dict()
                optimizer.close()
                model, optimizer, sampler, loader = made(ahead=ahead, log=log, **more)
                for to, state in zip((model, optimizer, sampler), saved, strict=True):
                    to.load_state_dict(state)
                break
    return taken, flat(model), sampler.log, optimizer.share(ROWS) if not more else optimizer.steps


def once(taken):
    for epoch in (0, 1):
        rows = collections.Counter(i for one in taken for e, _, ids in one if e == epoch for i in ids)
        assert rows == {i: 1 for i in range(N)}, epoch


@pytest.mark.parametrize("speeds,wanted,changes", [([3.0, 1.0], [3, 11], 1), ([1.0, 1.05], [7, 7], 0),
                                                   ([10.0, 3.0, 1.0], [1, 3, 10], 1)])
def test_rows_go_by_speed_and_each_is_taken_once(speeds, wanted, changes):
    found = run(trained, len(speeds), speeds)
    once([taken for taken, *_ in found])
    assert [share for *_, share in found] == wanted
    assert all(torch.equal(x, found[0][1]) and log == found[0][2] for _, x, log, _ in found)
    assert len(found[0][2]) == 1 + changes
    assert all(len(ids) > 0 for taken, *_ in found for _, _, ids in taken)


@pytest.mark.parametrize("stop", [5, 12])
def test_a_sampler_goes_on_in_the_middle(stop):
    whole, parts = (run(trained, 2, [3.0, 1.0], 0, at) for at in (None, stop))
    assert [taken for taken, *_ in parts] == [taken for taken, *_ in whole]
    assert torch.equal(parts[0][1], whole[0][1])


def test_loaders_that_draw_ahead_and_logs_take_the_same_rows():
    early = run(trained, 2, [3.0, 1.0], 2)
    once([taken for taken, *_ in early])
    log = early[0][2]
    assert [first for first, _ in log] == [0, 5]  # decided after step 3, of the steps that were not planned
    again = run(trained, 2, [1.0, 1.0], 0, None, log)
    assert [taken for taken, *_ in again] == [taken for taken, *_ in early]
    assert torch.equal(again[0][1], early[0][1])


def test_a_slow_process_makes_fewer_inner_steps_of_as_many_rows():
    more = {"method": "diloco", "least": 4, "mixer_outer_every": 4}
    slow, fast = found = run(trained, 2, [8.0, 1.0], **more)
    once([taken for taken, *_ in found])
    assert slow[3] == fast[3] == len(fast[0])  # all have taken part in as many steps
    edges = set()
    for epoch in (0, 1):  # no process goes on into the next one by itself
        ends, theirs = ({f(s for e, s, _ in one[0] if e == epoch) for f in (min, max)} for one in found)
        assert ends == theirs
        edges |= ends
    rows = [len(ids) for _, step, ids in slow[0] if step > 9 and step not in edges]
    assert rows and min(rows) >= 4 and 3 * len(rows) < sum(step > 9 for _, step, _ in fast[0])
    again = run(trained, 2, [1.0, 1.0], 0, None, slow[2], **more)
    assert [x[0] for x in again] == [x[0] for x in found] and torch.equal(again[0][1], slow[1])
    stopped = run(trained, 2, [8.0, 1.0], 0, slow[0][len(slow[0]) // 2][1], **more)
    assert [x[0] for x in stopped] == [x[0] for x in found]


def averaging(method):
    """Asked after each step of an epoch, and behind it."""
    told([8.0, 1.0])
    model, optimizer, sampler, loader = made(method, least=4)
    asked = 0
    for _, x, y in loader:
        learn(model, optimizer, x, y)
        if sampler.epoch == 0:
            with pytest.raises(weft.Error, match=f"after step {optimizer.steps}, in the middle of an epoch with .*least=4"):
                optimizer.average()
            asked += 1
    with optimizer.averaged():
        return asked, optimizer.steps, flat(model)


def test_an_average_that_not_all_would_come_to_is_refused():
    (slow, steps, mean), (fast, *others) = run(averaging, 2, "diloco")
    assert 0 < slow < fast == steps - 1 and others[0] == steps and torch.equal(mean, others[1])


def test_behind_the_last_step_none_comes(tmp_path):
    (tmp_path / "run.yaml").write_text("run: {steps: 3}\n")
    for named in ({"config": tmp_path / "run.yaml"}, {"run_steps": 3}):
        _, optimizer, sampler, _ = made("diloco", least=2, **named)
        sampler._plan[0][1][0] = []  # a step without rows here
        idles, sampler._past = [], 0
        for sampler.steps in (2, 3):
            idles.append((sampler._idles(), sampler._apart()))
        assert idles == [(True, 2), (False, 0)]
        optimizer.close()


@pytest.mark.parametrize("joined", [False, True])
def test_who_goes_on_or_comes_knows_which_epoch_the_last_step_was_of(joined):
    """It averaged alone in the middle of an epoch, and waited for the others."""
    model, optimizer, sampler, loader = made("diloco", least=2)
    for _, (_, x, y) in zip(range(2), loader):
        learn(model, optimizer, x, y)
    state = sampler.state_dict()
    optimizer.close()
    _, optimizer, other, _ = made("diloco", least=2)
    optimizer._joined = lambda: joined
    other.load_state_dict(state)
    assert sampler._apart() == other._apart() == 2 and other.state_dict()["past"] == 0
    del state["past"]  # of a version before
    other.load_state_dict(state)
    assert other._apart() == 0
    optimizer.close()


def killed(comes, log):
    """Rank 1 of three is killed in step 4, before the others have heard of its rows."""
    told([2.0, 1.0, 2.0])
    rank = int(os.environ["RANK"])
    model, optimizer, sampler, loader = made()
    optimizer.carry(sampler)
    together = 0
    while together < 30:
        for ids, x, y in loader:
            if rank == 1 and not comes and optimizer.steps == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            step, rows = optimizer.steps, sampler._plan[0][1][sampler._copy]
            assert [sampler._row(at) for at in rows] == ids.tolist()
            report = learn(model, optimizer, x, y)
            with open(log, "a") as f:
                f.write(" ".join(map(str, rows)) + "\n")
            together += report.processes == 3 and step > 4
            if together == 30:
                break
    return flat(model), sampler.state_dict()


def test_rows_of_a_process_that_is_lost_and_comes_back_are_taken_once(tmp_path):
    port, endpoint = free_port(), free_port()
    env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    first = [Rank(killed, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})},
                  (False, str(tmp_path / str(r))), {}) for r in range(3)]
    assert not first[1].finish(120)[0]
    late = Rank(killed, 1, {"RANK": "1", "WEFT_JOIN": f"127.0.0.1:{endpoint}"}, (True, str(tmp_path / "late")), {})
    found = answers([first[0], first[2], late])
    assert all(fine for fine, _ in found), found
    x, state = found[0][1]
    assert all(torch.equal(theirs, x) and same == state for _, (theirs, same) in found)
    lines = [(tmp_path / name).read_text().splitlines() for name in ("0", "1", "2", "late")]
    assert len(lines[1]) == 4 and len(lines[3]) == 30
    open_still = [*state["left"], *(at for _, pieces in state["plan"] for piece in pieces for at in piece)]
    assert sorted([*(int(at) for one in lines for line in one for at in line.split()), *open_still]) == \
        list(range(state["at"])) and state["at"] > N


def test_an_epoch_ends_with_rows_for_all():
    rows = types.SimpleNamespace(on=True, listeners=[])
    of_two = types.SimpleNamespace(_rows=rows, placed=1, place=lambda: (0, 2), _group=None, _left=None, _joined=lambda: False)
    sampler, sizes = weft.Sampler(of_two, 9, 4), []
    for _ in range(4):
        sizes.append(sum(map(len, sampler._plan[0][1])))
        sampler._heard([(0, 2, 1.0), (1, 2, 1.0)], [WHOLE // 2] * 2)
    assert sizes == [4, 5, 4, 5]  # not a step of one row, of which one process would have none


def test_shares_follow_speed_as_in_the_library():
    def after(seconds, steps, shares):
        for _ in range(steps):
            shares.heard([(i, 10, 10 * s) for i, s in enumerate(seconds)])
        return shares.parts
    half = [WHOLE // 2] * 2
    assert after([1.0, 1.1], 90, Shares(2)) == half  # less than a twentieth is gained
    assert after([1.0, 1.2], 8, Shares(2)) == half and divide(11, after([1.0, 1.2], 9, Shares(2))) == [6, 5]
    assert after([1.0, 3.0], 2, Shares(2)) == half and divide(4, after([1.0, 3.0], 3, Shares(2))) == [3, 1]
    known = Shares(2)
    after([1.0, 1.0], 9, known)
    known.heard([(0, 10, 10.0), (1, 10, 1e5)])  # once, as after an evaluation
    known.heard([(0, 10, 10.0), (1, -1, -1.0)])  # not heard
    assert after([1.0, 1.0], 8, known) == half
    again = Shares(2)
    again.take(known.state())
    assert again.state() == known.state()
    for shares in (known, again):
        assert divide(4, after([1.0, 3.0], 2, shares)) == [3, 1]
    again.take({"parts": known.parts, "row_s": [1.0, 3.0], "n": 4})  # of a version before
    assert again.parts == known.parts and again.numbers[:] == Shares(2, known.parts).numbers[:]
    for numbers in ([math.nan] * len(known.numbers), [2e9 if x == WHOLE // 2 else x for x in Shares(2).numbers]):
        again.take({"parts": half, "numbers": numbers})
        assert after([1.0, 3.0], 20, again) == half
    known.parts = [750_000, 250_000]
    known.heard([(0, 10, 10.0), (1, 10, 10.0), (-1, 10, 10.0)])  # who comes begins with the least
    assert known.parts == [600_000, 200_000, 200_000]


def test_rows_are_divided_as_in_the_library():
    assert divide(14, [1, 3, 10]) == [1, 3, 10] and divide(7, [1, 1]) == [4, 3]
    assert divide(40, [1, 3, 10, 10]) == [1, 5, 17, 17]  # a second row of the first would take longest
    assert divide(3, [1, 1, WHOLE]) == [1, 1, 1] and divide(2, [1, 1, 5]) == [0, 0, 2]
    assert divide(4, [1000, 1000, 1]) == [1, 2, 1]  # of the largest the first one gives a row away
    for n, shares in ((-1, [1]), (MOST + 1, [1]), (2, [0, 0]), (2, [1, -1]), (2, [1, WHOLE + 1])):
        with pytest.raises(weft.Error, match="rows by shares"):
            divide(n, shares)


def test_what_a_sampler_can_not_do_is_refused():
    optimizer = made()[1]
    for rows, n in ((0, 5), (6, 5)):
        with pytest.raises(weft.Error, match="a step has"):
            weft.Sampler(optimizer, n, rows)
    for least, ahead in ((4, 0), (0, 0), (2, 2)):
        with pytest.raises(weft.Error, match=f"least is {least} with ahead={ahead}, expected 1 to 3"):
            weft.Sampler(optimizer, 9, 3, least=least, ahead=ahead)
    with pytest.raises(weft.Error, match="uneven=True"):
        weft.Sampler(weft.Optimizer(net(), method="ddp"), 9, 3)
    with pytest.raises(weft.Error, match="share.. without uneven"):
        weft.Optimizer(net(), method="ddp").share()
    sampler = weft.Sampler(optimizer, 9, 3)
    with pytest.raises(weft.Error, match="the state is of rows"):
        weft.Sampler(optimizer, 9, 4).load_state_dict(sampler.state_dict())
    batches = iter(sampler)
    next(batches)
    with pytest.raises(weft.Error, match="draws 1 batches before they are used, expected at most ahead=0"):
        next(batches)
    with pytest.raises(weft.Error, match="log has shares of 2 processes"):
        weft.Sampler(optimizer, 9, 3, log=[(0, [1, 1])])
