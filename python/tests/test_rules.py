# SPDX-License-Identifier: MIT
"""Small rules of the package, each by itself and mostly in one process: who is who, what is told and
what is refused."""

import ctypes
import os
import socket
import threading
import types
import warnings

import pytest
import torch
from ranks import run

import weft_sync.torch as weft
from weft_sync import _abi, _back, _copies, _library, _node, _places, _sync, _uneven, _world

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "WEFT_NODES",
             "WEFT_NODE", "WEFT_MASTER", "WEFT_PORT", "WEFT_JOIN", "TORCHELASTIC_RUN_ID",
             "LOCAL_WORLD_SIZE")


@pytest.fixture
def env(monkeypatch):
    """Sets variables where none of a launcher's are."""
    for name in [*VARIABLES, *(name for name in os.environ if name.startswith("SLURM_"))]:
        monkeypatch.setenv(name, "")  # so that what the package sets is gone afterwards, too
        monkeypatch.delenv(name)
    return lambda **names: [monkeypatch.setenv(*item) for item in names.items()]


# --- DDP inside a machine ---

class Group(list):
    """Ranks of a process group, and its backend."""

    backend = "gloo"


@pytest.fixture
def node(monkeypatch, env):
    """A Node of a group's ranks in a world, seen by one of them, without processes."""
    def make(ranks, world, own, backend="gloo"):
        group = Group(ranks)
        for name, value in (("get_process_group_ranks", list), ("get_world_size", lambda: world),
                            ("get_rank", lambda: own), ("get_backend", lambda _: backend)):
            monkeypatch.setattr(torch.distributed, name, value)
        monkeypatch.setattr(_node._world, "founded", lambda _number, leaders: f"of {leaders}")
        return _node.Node(group, torch.device("cuda:3"))
    return make


def test_a_node_is_neighbours_from_a_multiple_on(node):
    for ranks, world in (([1, 2], 4), ([0, 2], 4), ([0, 1], 3), ([2, 3, 4], 9)):
        with pytest.raises(weft.Error, match="expected neighbours"):
            node(ranks, world, ranks[0])
    leader, other = node([2, 3], 4, 2), node([2, 3], 4, 3)
    assert leader.leads and not other.leads and leader.leader == other.leader == 2
    assert leader.mesh == "of 2" and other.mesh.size == 1 and leader.size == 2


def test_what_ddp_averages_over_all_is_refused_but_on_machines_apart(node, env):
    with pytest.raises(weft.Error, match="DDP already averages"):
        node([0, 1], 2, 0)
    for variables in ({"WEFT_NODES": "2"}, {"WEFT_JOIN": "a:1"}):
        env(**variables)
        assert node([0, 1], 2, 0).leads


def test_nccl_gets_tensors_of_the_models_gpu(node):
    assert node([0, 1], 4, 0, "nccl").device == torch.device("cuda:3")
    for backend in ("gloo", "cpu:gloo,cuda:nccl", "undefined"):
        assert node([0, 1], 4, 0, backend).device == torch.device("cpu")


def told_in_a_node():
    torch.distributed.init_process_group("gloo")
    ours = int(os.environ["RANK"])
    group = torch.distributed.new_subgroups(2)[0]
    os.environ.update(WEFT_NODES="1", WEFT_NODE="0", WEFT_MASTER="127.0.0.1:1")
    told = _node.Node(group, torch.device("cpu"))
    report = _sync.Report(7, 0.5, None, 6, 10, 20, 1.5, 0.25, True, 3)
    tensors = [torch.full((2, 3), 1.0 + ours), torch.full((4,), 5.0 + ours)]
    first = told.tell(tensors, _node.Told(report if ours == 0 else None, 7 - ours, b""))
    second = told.tell(tensors, _node.Told(None, 9 - ours, b"abc" if ours == 0 else b""))
    return tuple(first), tuple(second), [t.tolist() for t in tensors]


def test_a_leader_tells_report_steps_and_what_was_brought():
    (first, second, tensors), other = run(told_in_a_node, 2)
    assert other == (first, second, tensors) and second == (None, 9, b"abc")
    assert first == ((7, 0.5, None, 6, 10, 20, 1.5, 0.25, True, 3), 7, b"")
    assert tensors == [[[1.0] * 3] * 2, [5.0] * 4]


# --- processes that share a copy ---

def in_turns(fault):
    torch.distributed.init_process_group("gloo")
    together, place = _back.of_machine(3), int(os.environ["RANK"])
    assert together.agreed(None) is None
    said = weft.LeftBehind("peer", "it is out", "a:1,b:2") if place == 1 else None
    left = together.agreed(said)
    assert (str(left), left.endpoints) == ("it is out", "a:1,b:2")

    def enter():
        if place == 1 and fault is not None:
            raise fault
        return types.SimpleNamespace(joins=True, rank=3 + place)

    def come():
        try:
            return together.in_turn(enter).rank
        except (weft.Error, KeyboardInterrupt) as error:
            return str(error)
    first = come()
    together.check(types.SimpleNamespace(joins=True, rank=3 + together.place))
    together.check(types.SimpleNamespace(joins=False, rank=4 + together.place))
    with pytest.raises(weft.Error, match=f"has part {together.place} of 3.*as part "):
        together.check(types.SimpleNamespace(joins=True, rank=4 + together.place))
    return first


@pytest.mark.parametrize("fault", [None, weft.Error("peer", "nobody answers"),
                                   KeyboardInterrupt("stopped")])
def test_who_shares_a_copy_comes_in_by_turns_or_says_why_not(fault):
    last = "another process of this machine could not come into the run"
    assert run(in_turns, 3, fault) == ([3, 4, 5] if fault is None else [3, str(fault), last])


def test_turns_are_of_a_machines_processes_by_gloo(monkeypatch):
    asked = []
    for name, value in (("new_subgroups", lambda n, backend: asked.append((n, backend)) or [[4, 5]]),
                        ("get_process_group_ranks", list), ("get_rank", lambda: 5)):
        monkeypatch.setattr(torch.distributed, name, value)
    together = _back.of_machine(2)
    assert asked == [(2, "gloo")] and (together.place, together.ranks) == (1, [4, 5])


# --- coming back ---

def test_ten_minutes_begin_with_the_last_return(monkeypatch):
    clock, waits = [0.0], []
    monkeypatch.setattr(_back, "now", lambda: clock[0])
    returns, error = _back.Returns(3, waits.append), weft.LeftBehind("peer", "it is out", "a:1")
    for clock[0] in (10.0, 611.0, 700.0, 1300.0, 1900.5):  # of which 601 and 600.5 are new beginnings
        returns.wait(error)
    assert waits == [1, 1, 2, 4, 1]


def test_the_report_of_a_return_is_of_no_step():
    sync = types.SimpleNamespace(steps=lambda: 12, place=lambda: (1, 5))
    report = _back.report_of(sync)
    assert (report.step, report.skipped, report.processes, report.loss) == (12, True, 5, None)


# --- losses ---

def test_a_loss_is_a_number_without_a_warning():
    x = torch.ones((), requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _uneven.number(2 * x) == 2.0 and _uneven.number(3) == 3.0 and _uneven.number(None) is None
    with torch.no_grad():
        returned, loss = _uneven.called(lambda: 2 * x)
    assert returned is loss and loss.requires_grad and _uneven.called(x) == (None, x)


# --- copies ---

def test_an_arrival_is_here_when_its_event_says_so():
    said = []
    event = types.SimpleNamespace(query=lambda: bool(said), synchronize=lambda: said.append("waits"))
    arrival = _copies.Arrival(torch.zeros(1), event)
    assert not arrival.here()
    said.append("done")
    assert arrival.here()
    arrival.host()
    arrival.host()
    assert said == ["done", "waits"] and arrival.here()


def test_devices_share_their_copies_and_the_host_copies_nothing():
    host = _copies.copies_for(torch.device("cpu"))
    assert host is _copies.copies_for(torch.device("cpu"))
    across, straight = torch.arange(6.0).view(2, 3).t(), torch.arange(3.0)
    assert host.down(across).host().is_contiguous() and host.down(across).here()
    assert host.down(straight).host() is straight and host.up(straight) is straight
    with pytest.raises(NotImplementedError, match="tensors on meta; expected cpu, or what"):
        _copies.copies_for(torch.device("meta"))


# --- libweft's words ---

def test_blame_is_left_out_of_what_a_process_hears_of_itself():
    sync = types.SimpleNamespace(goes_on=True, mesh=types.SimpleNamespace(way_back=lambda: "a:1", taken=True))
    found = _sync.Sync._told_apart(sync, weft.PeerError("peer", "rank 2 failed: it is out"))
    assert isinstance(found, weft.LeftBehind) and (str(found), found.endpoints) == ("it is out", "a:1")
    error = weft.Error("config", "rank 2 failed: it is out")
    assert _sync.Sync._told_apart(sync, error) is error
    sync.goes_on = False
    error = weft.PeerError("peer", "rank 2 failed: it is out")
    assert _sync.Sync._told_apart(sync, error) is error


def test_the_mean_loss_is_known_if_one_was_given():
    report = _abi.Report(step=3, loss=1.5, loss_step=2, wire_bytes_out=4, local_bytes_out=5)
    assert _sync.Sync._told(report, 1.0)[:6] == (3, 0.0, 1.5, 2, 4, 5)
    assert _sync.Sync._told(report, None).loss is None
    report.loss = float("nan")
    assert _sync.Sync._told(report, 1.0).loss is None


def test_as_many_numbers_as_there_are():
    numbers = (ctypes.c_double * 2)(1, 2)

    def get(_pointer, n):
        n._obj.value = 2
        return numbers
    sync = types.SimpleNamespace(lib=types.SimpleNamespace(weft_sync_numbers=get), pointer=None)
    assert _sync.Sync.numbers(sync) == [1.0, 2.0]
    _sync.Sync.set_numbers(sync, [3.0, 4.0])
    assert _sync.Sync.numbers(sync) == [3.0, 4.0]
    for wrong in ([], [1.0], [1.0] * 3):
        with pytest.raises(ValueError):
            _sync.Sync.set_numbers(sync, wrong)


class Interrupted(_library._Job):
    """Ctrl-C at the first look at a call of libweft: `late`, as it returns, when its waiter has been
    told already."""

    late = False

    def __init__(self, call):
        super().__init__(call)
        self.lock, self.done, self.asked = self.done, self, 0

    def acquire(self, timeout):
        assert 0 < timeout <= 1  # so that one which comes just before the wait is heard, too
        self.asked += 1
        assert self.asked == 1 or not self.late, "it has returned: nothing is left to wait for"
        if self.asked == 1 and self.late:
            self.lock.acquire()
        if self.asked == 1:
            raise KeyboardInterrupt
        return self.lock.acquire(timeout=timeout)

    def release(self):
        self.lock.release()


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_ends_a_call_that_waits_and_then_the_program_goes_on(monkeypatch, late):
    said, ended, waiter = [], threading.Event(), _library._Waiter()
    assert waiter.run(lambda: 7, None) == 7
    monkeypatch.setattr(_library, "_Job", Interrupted)
    monkeypatch.setattr(Interrupted, "late", late)

    def call():
        if not late:
            ended.wait()
        said.append("returned")
        return 7

    def fail(words):
        said.append(words)
        ended.set()
    with pytest.raises(KeyboardInterrupt):
        waiter.run(call, lambda error: fail(f"stopped by {type(error).__name__}"))
    both = ["stopped by KeyboardInterrupt", "returned"]
    assert said == (both[::-1] if late else both)


def test_ctrl_c_between_arrivals_is_told_to_the_others():
    said = []

    def wait_any(_patience):
        raise KeyboardInterrupt
    sync = types.SimpleNamespace(wait_any=wait_any, mesh=types.SimpleNamespace(fail=said.append))
    with pytest.raises(KeyboardInterrupt):
        list(_sync.Sync.arrivals(sync))
    assert said == ["stopped by KeyboardInterrupt"]


# --- who takes part ---

class Joined:
    """In place of a Mesh: with what it was made."""

    def __init__(self, _ctx, *place, **more):
        self.place, self.more, self.size, self.pointer = place, more, place[1] if place else 2, True

    def close(self):
        self.pointer = False


@pytest.fixture
def joined(monkeypatch, env):
    monkeypatch.setattr(_world, "Mesh", Joined)
    monkeypatch.setattr(_world, "_default", None)
    return _world.founded


def test_machines_apart_have_seats_by_their_numbers(joined, env):
    env(WEFT_NODES="3", WEFT_NODE="2", WEFT_MASTER="[fd00::2]:29600", RANK="1", WORLD_SIZE="4",
        LOCAL_RANK="1", WEFT_PORT="29700")
    all_of_them = joined(0)
    assert all_of_them.place == (2 * 4 + 1, 12)
    assert all_of_them.more == {"address": ("fd00::2", 29600), "port": 29701}
    leaders = joined(5, leaders=4)
    assert leaders.place == (2, 3) and leaders.more == {"address": ("fd00::2", 29605), "port": 0}
    assert joined(0, leaders=4).more["port"] == 29700
    env(WEFT_NODE="0", RANK="0", LOCAL_RANK="0")
    with pytest.raises(weft.Error, match="WEFT_PORT is 29700 at the first process, which listens at WEFT_MASTER's port, 29600"):
        joined(0)  # who comes would call where nobody listens
    env(WEFT_PORT="29600")
    assert joined(0).more == {"address": ("fd00::2", 29600), "port": 29600}
    env(WEFT_NODE="3")
    with pytest.raises(weft.Error, match="WEFT_NODE is 3, expected 0 to 2"):
        joined(0)


def test_hosts_without_a_port_are_called_at_16_from_wefts(joined, env):
    env(WEFT_JOIN="node1,[fd00::2]", WEFT_PORT="29700")
    def called(hosts, port):
        return f"{hosts}:{port}".split(",")

    node1, other = ([f"{host}:{29700 + i}" for i in range(16)] for host in ("node1", "[fd00::2]"))
    assert called(*joined(0).more["join"]) == node1 + other
    env(WEFT_JOIN="node1,node2:29701")  # each host by itself
    assert called(*joined(0).more["join"]) == [*node1, "node2:29701"]
    env(WEFT_JOIN="[fd00::1]:1,[fd00::2]")
    assert called(*joined(0).more["join"]) == ["[fd00::1]:1", *other]
    env(WEFT_JOIN="node1:1,node2:2")
    assert joined(0).more["join"] == ("node1:1,node2", 2)
    env(WEFT_JOIN="node1", WEFT_PORT="0")
    with pytest.raises(weft.Error, match="WEFT_JOIN is 'node1', expected HOST:PORT, or HOST with WEFT_PORT"):
        joined(0)


def test_what_is_no_number_or_address_is_told(joined, env):
    env(WEFT_PORT="many")
    with pytest.raises(weft.Error, match="WEFT_PORT is 'many', expected a number from 0 on"):
        joined(0)
    for wrong in (":29", "a:", "a", "a:-1", ""):
        with pytest.raises(ValueError):
            _world.address_of(wrong)
    both = "[fd00::1]:1,[fd00::2]"
    assert _world.address_of(f"{both}:29") == (both, 29) and _world.address_of("[::1]:2") == ("::1", 2)


def test_a_machine_apart_counts_the_processes_of_its_own_torch(joined, env, monkeypatch):
    env(WEFT_NODES="2", WEFT_NODE="1", WEFT_MASTER="a:1", RANK="9", WORLD_SIZE="10")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    assert joined(0).place == (1 * 3 + 2, 6)


def test_who_comes_does_so_in_turns_where_several_have_a_torch_together(joined, env, monkeypatch):
    """The turns are gloo's: not of one process, not of a leader, and not without torch.distributed."""
    initialized, turns = [True], []

    def of_machine(n):
        return types.SimpleNamespace(in_turn=lambda enter: [enter(), turns.append(n)][0])
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: initialized[0])
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: int(os.environ["WORLD_SIZE"]))
    monkeypatch.setattr(_back, "of_machine", of_machine)
    env(WEFT_JOIN="a:1", WORLD_SIZE="3")
    assert _world.apart() and joined(0).more == {"join": ("a", 1)} and turns == [3]
    joined(0, leaders=3)
    initialized[0] = False
    joined(0)
    initialized[0] = True
    env(WORLD_SIZE="1")
    joined(0)
    assert turns == [3]
    monkeypatch.undo()
    assert not _world.apart()


def test_a_launchers_processes_have_its_numbers(joined, env, monkeypatch):
    monkeypatch.setattr(_world, "place", lambda: (5, 8, "store"))
    env(MASTER_ADDR="node1", WEFT_PORT="29700", LOCAL_RANK="3")
    assert joined(0).place == (5, 8, "node1", "store", "weft/0")
    assert joined(0).more == {"port": 29703} and joined(1).more == {"port": 0}
    assert joined(2, leaders=4).place == (1, 2, "node1", "store", "weft/2")
    env(MASTER_ADDR="")  # torch.distributed may have come by a file
    assert joined(0).place[2] == socket.gethostname()


def test_a_mesh_that_was_left_is_joined_anew(joined, monkeypatch):
    monkeypatch.setattr(_world, "place", lambda: (0, 2, None))
    first = _world.mesh()
    assert _world.mesh() is first
    second = _world.again(first, ("a", 1))
    assert not first.pointer and second.more == {"join": ("a", 1)} and _world.mesh() is second
    second.close()
    assert _world.mesh() not in (first, second)
    common, other = _world.mesh(), Joined(None, 0, 2)  # of another exchange: the common one stays
    _world.again(other, ("a", 1))
    assert _world.mesh() is common and not other.pointer


def test_the_mesh_of_one_process_stays(joined, monkeypatch):
    """It has nothing open that could be left."""
    monkeypatch.setattr(_world, "place", lambda: (0, 1, None))
    first = _world.mesh()
    first.pointer = None
    assert first.size == 1 and _world.mesh() is first


def test_half_of_a_launchers_variables_is_refused(env):
    for half in ({"RANK": "1"}, {"MASTER_ADDR": "a"}):
        env(WORLD_SIZE="2", **half)
        with pytest.raises(weft.Error, match="WORLD_SIZE is 2, but RANK or MASTER_ADDR is not set"):
            _world.place()
        del os.environ[next(iter(half))]


def test_ranks_of_a_node_divide_all(env, monkeypatch):
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 6)
    made = []
    monkeypatch.setattr(torch.distributed, "new_subgroups", lambda n: made.append(n) or [n, "other"])
    assert _world.node_group() == 1 and _world.node_group(2) == 2
    env(LOCAL_WORLD_SIZE="3")
    assert _world.node_group() == 3 and _world.node_group(6) == 6 and made == [1, 2, 3, 6]
    for wrong in (0, -2, 4, 12):
        with pytest.raises(weft.Error, match=f"{wrong} ranks per node, expected a divisor of 6"):
            _world.node_group(wrong)


def test_rows_are_sharded_over_neighbours_alone(monkeypatch):
    class Sharded(torch.Tensor):
        """In place of a DTensor: over these ranks, these dimensions of its mesh, and this placement."""

        def __new__(cls, ranks, ndim=1, by_rows=True):
            self = torch.Tensor._make_subclass(cls, torch.zeros(2))
            self.placements = [types.SimpleNamespace(is_shard=lambda d: by_rows and d == 0)]
            self.device_mesh = meshes.setdefault((*ranks, ndim), over(ranks, ndim))
            return self

    def over(ranks, ndim):
        return type("DeviceMesh", (), {"ndim": ndim, "mesh": torch.tensor(ranks),
                                       "size": lambda _: len(ranks)})()
    meshes = {}
    monkeypatch.setattr(_world, "DTensor", Sharded)
    plain = torch.zeros(2)
    assert _world.shards_of([plain]) == 1 and _world.shards_of([]) == 1
    assert _world.shards_of([Sharded([2, 3]), Sharded([2, 3])]) == 2
    for wrong, words in (([Sharded([0, 1]), plain], "1 of 2 parameters are not sharded; .*tensor parallelism.*mesh=device_mesh"),
                         ([Sharded([0, 1]), Sharded([2, 3])], "takes the place of the replicate"),
                         ([Sharded([0, 1], 2)], "takes the place of the replicate"),
                         ([Sharded([0, 1], 1, False)], "takes the place of the replicate"),
                         ([Sharded([0, 2])], "expected neighbours, 2 from a multiple of 2 on"),
                         ([Sharded([1, 2])], "expected neighbours, 2 from a multiple of 2 on")):
        with pytest.raises(weft.Error, match=words):
            _world.shards_of(wrong)


def test_an_exchange_that_goes_on_has_a_mesh_for_itself(joined, monkeypatch):
    monkeypatch.setattr(_world, "place", lambda: (0, 2, None))
    first = _world.mesh()
    first.taken = False
    assert _world.mesh_of_its_own() is first
    first.taken = True
    assert _world.mesh_of_its_own() is not first


def settled(env, variables, path=None, **given):
    env(**variables)
    mesh = types.SimpleNamespace(pointer=None)
    return _world.configure(weft._world.Context(), mesh, 1, "flexdemo", path, given)


def test_a_torchrun_of_all_machines_ends_a_run_that_lost_a_process(env, tmp_path):
    assert settled(env, {}).number("mesh.on_loss") == "go_on"
    run_id = {"TORCHELASTIC_RUN_ID": "1"}
    assert settled(env, run_id).number("mesh.on_loss") == "end"
    assert settled(env, run_id, mesh_on_loss="go_on").number("mesh.on_loss") == "go_on"
    file = tmp_path / "run.yaml"
    file.write_text("optimizer:\n  lr: 0.5\n")
    config = settled(env, run_id, file)
    assert config.number("mesh.on_loss") == "go_on" and config.number("optimizer.lr") == 0.5
    assert settled(env, {"WEFT_NODES": "2"}).number("mesh.on_loss") == "go_on"
    assert settled(env, {}).number("schedule.warmup") == 0


def test_a_configuration_is_of_its_mesh_and_of_the_keys_that_are_given(env, monkeypatch):
    seen = []
    monkeypatch.setattr(_world.Config, "fit", lambda _, mesh: seen.append(mesh))
    mesh = types.SimpleNamespace(pointer=None)
    given = {"optimizer.lr": None, "mesh.nodes": 3, "mesh.ranks_per_node": 2}
    config = _world.configure(weft._world.Context(), mesh, 2, "flexdemo", None, given)
    own = settled(env, {})
    assert seen[0] is mesh and config.number("mesh.shards") == 2
    assert config.number("optimizer.lr") == own.number("optimizer.lr") > 0
    for key in ("key", "cert", "cert_key", "ca", "encrypt", "run"):
        for name in (f"mesh_{key}", f"mesh.{key}"):
            with pytest.raises(weft.Error, match=f"mesh.{key} would come too late here"):
                settled(env, {}, **{name: "x"})


def test_who_is_a_node_unless_keys_say_so():
    def found(mesh, shards, between, method, **given):
        _world.places(given, mesh, shards, between, method)
        return given
    mesh = types.SimpleNamespace(joins=False, size=8)
    assert found(mesh, 1, "nodes", "flexdemo") == {}
    assert found(mesh, 1, "nodes", "ddp") == found(mesh, 1, "ranks", "hsdp") == {"mesh.nodes": 8}
    assert found(mesh, 4, "nodes", "hsdp") == {"mesh.nodes": 2, "mesh.ranks_per_node": 4}
    assert found(mesh, 4, "nodes", "hsdp", **{"mesh.nodes": 1})["mesh.nodes"] == 1
    own = {"mesh.nodes": 4, "mesh.ranks_per_node": 2}
    assert found(mesh, 4, "nodes", "hsdp", **own) == found(mesh, 1, "ranks", "ddp", **own) == own
    mesh.joins = True
    assert found(mesh, 4, "ranks", "ddp") == {"mesh.nodes": 1}
    assert found(mesh, 1, "ranks", "ddp", **own) == own
    with pytest.raises(weft.Error, match="between is 'hosts', expected 'nodes' or 'ranks'"):
        found(mesh, 1, "hosts", "ddp")


def test_slurms_tasks_are_torchruns(env):
    env(SLURM_STEP_NUM_TASKS="6", SLURM_PROCID="4", SLURM_LOCALID="1",
        SLURM_STEP_TASKS_PER_NODE="3(x2)", SLURM_STEP_NODELIST="gpu[2,4]", SLURM_JOB_ID="7123456")
    _world.read_slurm()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert [os.environ[name] for name in names] == ["4", "6", "1", "3", "gpu2", "23456"]


TASK = {"SLURM_STEP_NUM_TASKS": "6", "SLURM_PROCID": "4"}


def test_what_slurm_does_not_say(env):
    env(**TASK, SLURM_STEP_TASKS_PER_NODE="4,2")  # another number on each node
    _world.read_slurm()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert [os.environ.get(name) for name in names] == ["4", "6", "0", None, "127.0.0.1", "20000"]


def test_what_is_set_already_is_not_slurms(env):
    for own in ("RANK", "WORLD_SIZE"):
        env(**TASK, **{own: "1"})
        _world.read_slurm()
        assert os.environ[own] == "1" and "MASTER_PORT" not in os.environ
        del os.environ[own]
    own = {"LOCAL_RANK": "9", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "me", "MASTER_PORT": "7"}
    env(**own, SLURM_LOCALID="1", SLURM_STEP_TASKS_PER_NODE="6", SLURM_STEP_NODELIST="a")
    _world.read_slurm()
    assert {name: os.environ[name] for name in own} == own and os.environ["RANK"] == "4"


def test_names_and_shapes_as_libweft_takes_them():
    long = "é" * 60
    rows = _world.table_of([torch.Size([5]), torch.Size([4, 3, 2]), torch.Size([]),
                            torch.Size([0, 7])], ["a", long, "c", "d"])
    assert [row[1:] for row in rows] == [(5, 1, True), (4, 6, True), (1, 1, True), (0, 1, True)]
    assert rows[0][0] == "a" and rows[1][0] == "1:" + "é" * 40


def test_groups_with_names_and_frozen_parameters():
    a, b, c = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    b.requires_grad_(False)
    groups, names = _world.groups_of([{"params": [("a", a), ("b", b)], "lr": 0.5}, {"params": c}])
    assert groups == [{"params": [a], "lr": 0.5}, {"params": [c]}] and names[a] == "a"
    assert _world.groups_of(iter([a, b]))[0] == [{"params": [a]}]
    assert _world.groups_of([]) == ([{"params": []}], {})
    assert _world.groups_of([{"params": []}]) == ([{"params": []}], {})
    module = torch.nn.Linear(2, 3)
    module.bias.requires_grad_(False)
    assert _world.groups_of(module) == ([{"params": [module.weight]}],
                                        {module.weight: "weight", module.bias: "bias"})


def test_memory_that_two_parameters_share_is_refused():
    both = torch.zeros(6)
    halves = [torch.nn.Parameter(both[:3]), torch.nn.Parameter(both[3:])]
    _places.check(halves, ["a", "b"])
    with pytest.raises(weft.Error, match="'a' and 'b' share memory"):
        _places.check([halves[0], torch.nn.Parameter(both[2:])], ["a", "b"])


@pytest.mark.parametrize("device", ["cpu", "tpu", "xpu"])
def test_a_report_of_an_accelerator_that_is_not_there_is_one_sentence(device):
    import gpu
    why = gpu.lacks(device)
    assert "this machine" in why and "\n" not in why and len(why) < 300
