# SPDX-License-Identifier: MIT
"""Parameters that come back bucket by bucket, forks of a process that trains, checkpoints of
torch.distributed.checkpoint, and what is hidden behind backward."""

import os
import socket
import threading

import pytest
import torch
from models import flat, loss_of, net, start_gloo
from ranks import fork, run, start, answers

import weft_sync.torch as weft
from weft_sync._library import Context, Mesh
from weft_sync._saved import check_mixed


def rank_of():
    return int(os.environ["RANK"])


# --- bucket by bucket ---


def in_halves(steps, whole):
    """bf16 parameters, whose masters are weft's: copied as they are done, or at the end."""
    model = net().to(torch.bfloat16)
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, between="ranks", mesh_min_message=1)
    seen, arrivals = [], opt._sync.arrivals

    def noted():
        for part in arrivals():
            seen.append((part.first, part.n))
            yield part
    opt._sync.arrivals = noted
    if whole:
        opt._copies_early = lambda: False
    for t in range(steps):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        opt.step(loss)
    return flat(model), seen, len(opt._places)


def test_parameters_come_back_bucket_by_bucket():
    early, late = run(in_halves, 2, 3, False), run(in_halves, 2, 3, True)
    for (a, seen, n), (b, none, _) in zip(early, late):
        assert torch.equal(a, b) and none == []
        assert len(seen) > 3 * 2  # several in each step, from the last tensor to the first
        step = seen[:len(seen) // 3]
        assert step == sorted(step, reverse=True)
        assert sorted(i for first, k in step for i in range(first, first + k)) == list(range(n))


# --- forks ---


class Rows(torch.utils.data.Dataset):
    """Its workers are forks of the rank, made while the mesh is open."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.tensor([(i * k) % 32 for k in range(12)]), os.getpid()


def with_workers():
    model = net()
    opt = weft.Optimizer(model, method="flexdemo", lr=1e-3, between="ranks")
    workers = set()
    for _ in range(2):
        for tokens, who in torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2,
                                                       multiprocessing_context="fork"):
            workers.update(who.tolist())
            torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1),
                                              (tokens * 5 + 3).flatten() % 32).backward()
            opt.step()
    assert os.getpid() not in workers and len(workers) == 4
    return flat(model), opt.report.step


def test_workers_of_a_loader_are_safe():
    (a, steps), (b, _) = run(with_workers, 2)
    assert steps == 12 and torch.equal(a, b)


def forked():
    model = net()
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, between="ranks")
    loss_of(model, rank_of(), 0).backward()
    ours, theirs = fork.Pipe()

    def child():
        try:
            opt.step()
        except weft.Error as error:
            theirs.send((str(error), bool(opt.mesh.pointer)))
        opt.close()
        opt.mesh.close()

    worker = fork.Process(target=child)
    worker.start()
    said = ours.recv()
    worker.join()
    opt.step()
    return said, worker.exitcode, opt.report.step


def test_a_fork_is_refused_in_one_sentence():
    for (words, has_mesh), code, steps in run(forked, 2):
        assert "a fork of it (a worker that loads data?)" in words and "\n" not in words
        assert not has_mesh and code == 0 and steps == 1


# --- checkpoints ---


def checkpointed(path, stop, inside):
    import torch.distributed.checkpoint as dcp
    rank = start_gloo()

    def make():
        model = net(rank)
        inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
        return model, weft.Optimizer(model, inner, method="flexdemo",
                                     lr=None if inside else 1e-3, between="ranks")

    def train(model, opt, first, end):
        for t in range(first, end):
            loss = loss_of(model, rank, t)
            loss.backward()
            opt.step(loss)

    model, opt = make()
    train(model, opt, 0, stop)
    if stop < 6:
        dcp.save({"model": model.state_dict(), "opt": weft.PerRank(opt)}, checkpoint_id=path)
        momentum = opt.state_dict()["state"][0]["replicator.momentum"]
        opt.close()
        model, opt = make()
        parameters = model.state_dict()
        dcp.load({"model": parameters, "opt": weft.PerRank(opt)}, checkpoint_id=path)
        model.load_state_dict(parameters)
        assert torch.equal(opt.state_dict()["state"][0]["replicator.momentum"], momentum)
        train(model, opt, stop, 6)
    return flat(model), opt.report.step, opt.state_dict()["state"][0]["replicator.momentum"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_distributed_checkpoint_has_every_ranks_state(inside, tmp_path):
    wanted = run(checkpointed, 2, str(tmp_path / "a"), 6, inside)
    found = run(checkpointed, 2, str(tmp_path / "b"), 3, inside)
    for (a, steps, _), (b, again, _) in zip(wanted, found):
        assert torch.equal(a, b) and steps == again == 6
    assert not torch.equal(wanted[0][2], wanted[1][2])  # momenta differ by rank


KINDS = {"flexdemo": (False, {}), "ddp": (True, {}), "dadam": (False, {}),
         "diloco": (True, {"mixer_outer_every": 2}),
         "choco": (False, {"mixer_kind": "choco", "mixer_values": "sign", "mixer_gamma": 0.3})}


def made(kind, rank, share=1):
    inside, keys = KINDS[kind]
    model = net(rank)
    if share > 1:
        from test_fsdp import sharded
        sharded(model, weft.device_mesh("cpu", share)["shard"])
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
    return model, weft.Optimizer(model, inner, method="dadam" if kind == "choco" else kind,
                                 lr=None if inside else 1e-3,
                                 between="nodes" if share > 1 else "ranks", **keys)


def arrays_of(opt):
    """All arrays of the state, and moments of torch's, by name."""
    packed = opt.state_dict()
    state = {f"{i}.{name}": tensor for i, part in packed["state"].items()
             for name, tensor in part.items()}
    inner = packed.get("inner", {"state": {}})["state"]
    return {**state, **{f"{i}.{name}": part[name].float() for i, part in inner.items()
                        for name in ("exp_avg", "exp_avg_sq")}}


def saved_by_some(path, kind, share=1):
    import torch.distributed.checkpoint as dcp
    rank = start_gloo()
    model, opt = made(kind, rank, share)
    for t in range(3):
        loss = loss_of(model, rank, t)
        loss.backward()
        opt.step(loss)
    dcp.save({"model": model.state_dict(), "opt": weft.PerRank(opt)}, checkpoint_id=path)
    torch.save(arrays_of(opt), f"{path}/rank{rank}")


def loaded_by_others(path, kind, saved_by, share=1):
    """The state is the mean of those that had the same rows, and training goes on."""
    import torch.distributed.checkpoint as dcp
    rank = start_gloo()
    model, opt = made(kind, rank + 7, share)
    parameters = model.state_dict()
    state = {"model": parameters, "opt": weft.PerRank(opt, path)}
    if kind == "choco":
        with pytest.raises(weft.Error, match="what the mixer keeps is by the number"):
            dcp.load(state, checkpoint_id=path)
        return None
    dcp.load(state, checkpoint_id=path)
    model.load_state_dict(parameters)
    theirs = [torch.load(f"{path}/rank{r}") for r in range(rank % share, saved_by, share)]
    found = arrays_of(opt)
    assert found.keys() == theirs[0].keys()
    for name, tensor in found.items():
        assert (tensor - sum(t[name] for t in theirs) / len(theirs)).abs().max() < 1e-6, name
    loss = loss_of(model, rank, 3)
    loss.backward()
    report = opt.step(loss)
    own = model.state_dict()["body.weight"]
    return (own.full_tensor() if share > 1 else own).sum().item(), report.step


@pytest.mark.parametrize("kind,size", [("ddp", 1), ("flexdemo", 3), ("dadam", 3), ("diloco", 3),
                                       ("choco", 3)])
def test_another_number_of_processes_loads_the_mean(kind, size, tmp_path):
    run(saved_by_some, 2, str(tmp_path), kind)
    found = run(loaded_by_others, size, str(tmp_path), kind, 2)
    if kind != "choco":
        assert [step for _, step in found] == [4] * size
        assert len({total for total, _ in found}) == (size if kind == "dadam" else 1)


def test_another_number_of_nodes_loads_the_rows_of_a_shard(tmp_path):
    run(saved_by_some, 4, str(tmp_path), "flexdemo", 2)
    found = run(loaded_by_others, 2, str(tmp_path), "flexdemo", 4, 2)
    assert found[0] == found[1] and found[0][1] == 4


def test_what_a_mixer_keeps_of_others_has_no_mean():
    one, other = torch.ones(3), torch.zeros(3)
    check_mixed([{"0.mixer.outer": one, "0.parameters": one},
                 {"0.mixer.outer": one, "0.parameters": other}], {"numbers": [1]}, {"numbers": [2]})
    for parts, numbers in (([{"0.mixer.x": one}, {"0.mixer.x": other}], []), ([{}, {}], [1.0])):
        with pytest.raises(weft.Error, match="what the mixer keeps is by the number"):
            check_mixed(parts, {"numbers": numbers}, {"numbers": []})


def unlike_checkpoints(path):
    import torch.distributed.checkpoint as dcp
    start_gloo()
    model, opt = made("flexdemo", 0)
    with pytest.raises(weft.Error, match="is no checkpoint of torch"):
        weft.PerRank(opt, path).state_dict()
    dcp.save({"model": model.state_dict()}, checkpoint_id=path)
    with pytest.raises(weft.Error, match="has the state of no ranks"):
        weft.PerRank(opt, path).state_dict()
    dcp.save({"opt": weft.PerRank(opt)}, checkpoint_id=path)
    opt.placed = 2
    dist = torch.distributed
    dist.destroy_process_group()
    opt.mesh.size = 2
    with pytest.raises(weft.Error, match="the state of 1 ranks, but 2 ranks share a copy"):
        weft.PerRank(opt, path).state_dict()


def test_a_checkpoint_without_such_state_is_refused(tmp_path):
    run(unlike_checkpoints, 1, str(tmp_path / "a"))


# --- hidden behind backward ---


class Wire:
    """Between two ranks: a process's connection goes through here, at `rate` bytes a second each
    way, and bytes are counted. Rank 1 is told this port in place of rank 0's."""

    def __init__(self, rate):
        self.rate, self.told = rate, fork.Queue()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.bytes = fork.Value("q", 0)  # of rank 1 to rank 0

    def set(self, _key, text):
        self.told.put(int(text.split()[1]))

    def get(self, _key):
        return f"127.0.0.1 {self.listener.getsockname()[1]}"

    def carry(self):
        """In the test's process, until both ends have closed."""
        there = socket.create_connection(("127.0.0.1", self.told.get(timeout=60)))
        self.listener.settimeout(60)
        here, _ = self.listener.accept()
        pumps = [threading.Thread(target=self._pump, args=(here, there, self.bytes)),
                 threading.Thread(target=self._pump, args=(there, here, None))]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        here.close()
        there.close()

    def _pump(self, one, other, count):
        pause = threading.Event()  # never set: a wait that is a sleep
        try:
            while data := one.recv(4096):
                pause.wait(len(data) / self.rate)
                other.sendall(data)
                if count is not None:
                    with count.get_lock():
                        count.value += len(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other end has closed first


class Gate(torch.autograd.Function):
    """In front of the first layer: its backward, the last one, goes on when what is behind it
    has crossed the wire; the patience is there for the test to fail, not to pass."""

    @staticmethod
    def forward(_ctx, x, _wait):
        _ctx.wait = _wait
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.wait()
        return grad, None


def behind_backward(wire, overlap, layers):
    rank = rank_of()
    mesh = Mesh(Context(), rank, 2, "127.0.0.1", wire, "weft/wire")
    torch.manual_seed(0)
    blocks = [torch.nn.Linear(64, 64, bias=False) for _ in range(layers)]
    opt = weft.Optimizer(torch.nn.ModuleList(blocks), method="ddp", lr=1e-3, mesh=mesh,
                         between="ranks", overlap=overlap, mesh_min_message=1)
    pause, seen, share = threading.Event(), 0, []
    begun = wire.bytes.value  # and then what the steps say: some of it may still be on its way

    def wait(until, begun):
        for _ in range(300 if overlap else 3):
            if wire.bytes.value - begun >= until:
                return
            pause.wait(0.1)

    for t in range(3):
        until = 0.9 * seen if rank == 1 else 0
        x = blocks[0](torch.randn(8, 64))
        x = Gate.apply(x, lambda: wait(until, begun))
        for block in blocks[1:]:
            x = torch.tanh(block(x))
        x.square().mean().backward()
        share.append((wire.bytes.value - begun) / seen if seen else None)
        seen = opt.step().wire_bytes
        begun += seen
    opt.close()
    mesh.close()
    return share[1:], opt.report.wire_bytes


@pytest.mark.parametrize("overlap", [True, False])
def test_nine_tenths_of_the_exchange_are_behind_backward(overlap):
    wire, layers = Wire(2e6), 24
    ranks = start(behind_backward, 2, wire, overlap, layers)
    wire.carry()
    found = answers(ranks)
    assert [fine for fine, _ in found] == [True, True], found
    shares, sent = found[1][1]
    assert sent > layers * 64 * 64 * 2
    if overlap:
        assert min(shares) >= 0.9, shares
    else:
        assert max(shares) < 0.1, shares


# --- a compiled model ---


def compiled(backend):
    plain = net(rank_of())
    model = torch.compile(plain, backend=backend) if backend else plain
    opt = weft.Optimizer(model, method="flexdemo", lr=1e-3, between="ranks")
    for t in range(3):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        opt.step(loss)
    return flat(plain)


def test_a_compiled_model_has_the_same_bits():
    for a, b in zip(run(compiled, 2, None), run(compiled, 2, "aot_eager")):
        assert torch.equal(a, b)
