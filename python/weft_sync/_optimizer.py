# SPDX-License-Identifier: MIT
"""weft.Optimizer. Parameters and gradients that are float32 on the CPU are used in place; all others are copied to
and from float32 masters. Where all parameters lie on devices torch steps there, chooses there what is sent
(_packets.py), and keeps and codes there what a mixer sends (_held.py)."""

from __future__ import annotations

import atexit
import collections
import contextlib
import math
import os
import threading
from typing import Any, Callable, Iterable, Iterator

import torch

from . import _alike, _asked, _back, _buffers, _decide, _own, _packets, _pieces, _places, _record, _world
from ._carried import Carried
from ._checked import Checked
from ._held import Mixer
from ._library import Context, Error, LeftBehind
from ._measure import StepTime
from ._node import Follower, Node, stand_in
from ._places import Place, Storage
from ._scaled import Scaled
from ._shares import Shares
from ._state import State
from ._sync import Closing, Report, Sync
from ._uneven import Shared, Uneven, called, number
from ._world import configure, groups_of, places, shards_of, table_of, width_of


class Optimizer(State, Shared, Scaled, Checked, Closing, torch.optim.Optimizer):
    """Exchanges gradients, optimizes and mixes by a method of weft's.

    ``model`` is a module, parameters, or parameter groups; ``method`` and any key of weft's
    configuration (``replicator_values="int8"``, or ``keys={"replicator.values": "int8"}``)
    say how. ``lr``, ``weight_decay`` and ``betas`` are the method's own if left out. Learning
    rates and weight decays are read from ``param_groups`` in each step, so schedulers of
    torch.optim work; weft's own schedule is not used.

    ``optimizer`` is a torch optimizer over the same parameters that steps instead of weft's:
    along the direction that the method agreed on, which it finds in ``p.grad``. ``agree="backward"``
    leaves it there when the last backward of a step ends, as DDP does: what clips or logs gradients
    between backward and step (``clip_grad_norm_``, frameworks) then has what all have. ``agree()``
    does so once.

    ``accumulate``: backward passes per step. ``overlap=False`` exchanges nothing before
    ``step``, so each process may change its own gradients after backward; ``skips=True`` does so
    too and lets a step be skipped by all when one rank asks for it (``torch.amp.GradScaler``).

    ``uneven=True``: rows differ by process and step, and each ``step(loss, rows=n)`` says on how many
    rows the gradient is the mean of (0: none). What all agree on is then the mean over all rows; its
    exchange begins in ``step``, or in backward after ``weigh(loss, rows=n)``.

    ``between``: the nodes of a method are machines ("nodes"), or each process is one
    ("ranks"; always so for ``ddp``).

    ``returns``: a process that the others have gone on without although it lives (a laptop's lid, a
    cut network) joins again by itself, at most so many times, inside ``step``, whose report then says
    ``skipped``; loops run ``while optimizer.steps < n``. 0: ``step`` raises ``LeftBehind``.
    Processes of a machine that share a copy (FSDP2, DDP) come in together.

    ``folder``: an existing one that all processes see. A process that slept past the end of the run finds
    there that it has ended, and ends with an error; else it waits for ``elastic_pause``. Refused where a lost process
    ends the run (not ``goes_on``), but with ``method="auto"``: there it gets what was decided and why
    (``weft plan FOLDER``), and is empty or of an earlier run of this program.

    ``process_group`` or ``mesh=device_mesh["dp"]``: the processes that hold the same piece of the model as
    this one, where others hold its other pieces (tensor and pipeline parallelism): weft exchanges among them.

    ``state_device="cpu"``: moments, momenta, masters and what a mixer remembers lie on the host, and are computed
    with there, where parameters on a device would have them beside them.

    ``buffers``: where copies differ, "mean" averages buffers of floating numbers with parameters
    (``averaged``, ``average``); left out: those that BatchNorm's statistics train; "own": none. A process that comes
    into a run gets those of one of the others where the model is given, not its parameters; but with "own".

    ``method``: by default "auto" with ``optimizer``, else "flexdemo". ``method="auto"`` takes the exchange expected to be fastest
    with this optimizer and its rate: by the first steps, which synchronize fully, or before them, where ``step`` says what one
    computes (``measure_step``). ``decision`` is what was taken and why. ``decide_keep``, ``decide_alone``, ``decide_loss``,
    ``decide_bytes_per_day``, ``decide_busy`` and ``decide_time`` bound it as in ``weft train``. A process that joins
    is told it by a member.

    All processes create it alike; rank 0's parameters become everybody's. :class:`Error` if they differ, a key does not
    apply, or a call comes at a wrong time; :class:`PeerError` and ``LeftBehind`` of other ranks.
    """

    def __init__(self, model: torch.nn.Module | Iterable[Any],
                 optimizer: torch.optim.Optimizer | None = None, *, method: str | None = None,
                 lr: float | None = None, weight_decay: float | None = None,
                 betas: tuple[float, float] | None = None, accumulate: int = 1,
                 overlap: bool = True, skips: bool = False, agree: str = "step",
                 between: str = "nodes", uneven: bool = False, config: str | os.PathLike[str] | None = None,
                 mesh: Any = None, process_group: Any = None, returns: int = 0, buffers: str | None = None,
                 folder: str | os.PathLike[str] | None = None,
                 state_device: str | None = None, keys: dict[str, Any] | None = None, step: float | StepTime | None = None, **named: Any):
        self._node = None
        method = method or ("flexdemo" if optimizer is None else "auto")
        group, mesh = _pieces.of(process_group, mesh, model)
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            self._node = Node(model.process_group, next(model.parameters()).device)
            model, mesh, overlap = model.module, self._node.mesh, False
        _asked.agreement(agree, optimizer, self._node, skips)
        self._rows = Uneven(uneven, agree, self._node)
        self._agrees_in_backward = agree == "backward"
        groups, names = groups_of(model)
        self._module = model if isinstance(model, torch.nn.Module) else None
        params = [p for g in groups for p in g["params"]]
        self._frozen = _world.frozen_of(model, params)
        named_params = [(p, names.get(p, f"parameter {i}")) for i, p in enumerate(params)]
        self._group = _pieces.narrowed(group, named_params)  #: who holds the same piece; None: all
        _pieces.refuse(self._group, method, returns=returns)
        self._shards = shards_of(params, group is not None)
        #: made before the mesh, for it is collective, and processes come into a run in turns
        self._together = _back.of_machine(self._shards) \
            if self._shards > 1 and (returns > 0 or _world.joins()) else None
        self.mesh = mesh if mesh is not None else _pieces.mesh_of(self._group)
        self.inner, self.accumulate, self._skips = optimizer, accumulate, skips
        self.overlap = overlap and not skips
        self.report: Report | None = None
        self.forms: list[_decide.Form] = []  #: what crossed the wire, from which step on, and why
        self._closed, self._paused, self._opened = True, False, False
        self._agreed: bool | None = None  # whether the direction is agreed on, and moves parameters
        self._blind = False  # it was agreed on without a loss
        self._returns, self._folder = _back.Returns(returns), folder
        self._left: LeftBehind | None = None
        self._one_at_a_time = threading.Lock()  # autograd has a thread for each device
        self._carried = Carried(self)
        self._handles: list[Any] = []
        #: gradients, or what was chosen of them, on their way to the host
        self._pending: collections.deque[Place | _packets.Packet] = collections.deque()
        self._sync: Any = None  # a Sync, or what stands in for it behind a leader
        self._ctx = Context()
        _asked.placing(self._shards, between, accumulate, self._node)
        asked = _asked.together(keys, named, {
            "optimizer.lr": lr, "optimizer.weight_decay": weight_decay,
            "optimizer.beta1": betas and betas[0], "optimizer.beta2": betas and betas[1]})
        _asked.keys(asked, None if optimizer is None else type(optimizer).__name__)
        self._asked_keys = set(asked)
        given = {**width_of(model, params), **(_pieces.DEFAULTS if self._group and config is None else {}), **asked}
        #: ranks that have one copy of the model together
        self.placed = self._shards if self._node is None else self._node.size
        _asked.deciding(method, asked, step, self._node, optimizer)
        self.decision: _decide.Decision | None = None
        self._record = None if folder is None or method != "auto" else _record.Record(folder)
        if method == "auto":
            self._limits = _decide.limits(config, given)
            laid = {**given, "mesh.shards": self._shards}
            places(laid, self.mesh, self._shards, between, method)
            self.decision = _decide.decide(model, step, self.mesh, laid, self._limits, self._record, self._follows(uneven))
            method = self.decision.method
            given.update(self.decision.keys)
        places(given, self.mesh, self._shards, between, method)
        self._configure(method, config, given)
        _pieces.check(self._group, self._config, optimizer is None, named_params)
        self._own: _own.Own | None = None  #: weft's optimizer, where parameters are on a device
        self._keeps_here = _asked.states(state_device)  #: on the host, what could be beside parameters
        far = self._node is None and not self._keeps_here and all(_world.far(p) for p in params)
        there = far and optimizer is None and _own.serves(self._config)
        self._chooses = _packets.kind_of(self._config) if far and (there or optimizer) and not skips else None
        self._packets: list[_packets.Packet] = []
        self._held: Mixer | None = None
        clip = self._config.number("optimizer.clip")
        self._rows.mixes = stays = self._config.number("replicator.kind") == "none"  # what is clipped
        #: each process's own gradients are, before anything is chosen of them
        self._clip = clip if self._chooses and (there or "optimizer.clip" in asked) else 0
        self.overlap = self.overlap and self._clip == 0
        if there or self._clip > 0:  # what is not said would not count around another optimizer
            given["optimizer.clip"] = 0 if stays or self._clip > 0 else clip
            self._configure(method, config, given)
        self._asked_buffers = buffers
        self._buffers = _buffers.of(buffers, self._module, self._config, self.placed)
        if optimizer is not None:
            _asked.steps(self._config, optimizer)
        else:
            _asked.of_groups(groups)
            if lr is not None:
                _asked.rate(self._config, configure(Context(), self.mesh, self._shards, method, config,
                                                    {**given, "optimizer.lr": None}))
        super().__init__(groups, {"lr": self._config.number("optimizer.lr"),
                                  "weight_decay": self._config.number("optimizer.weight_decay")})
        if there:
            self.inner = self._own = _own.Own(self.param_groups, self._config, clip if stays else 0)
        elif optimizer is not None:
            _asked.inside(optimizer, params, not self._listens)
            self._show_inside()  # rates and all
            if hasattr(optimizer, "defaults"):
                self.defaults = optimizer.defaults
        self._create(names, clip)
        _asked.kept(self._keeps_here and self._node is None, self, optimizer)

    # --- making it ---

    def _configure(self, method: str, config: Any, given: dict[str, Any]) -> None:
        self._asked = (method, config, dict(given))
        self._config = configure(self._ctx, self.mesh, self._shards, method, config, given)
        self._ctx.speak(True)

    @property
    def _theirs(self) -> torch.optim.Optimizer | None:
        """The torch optimizer that the program has put inside; `inner` may be weft's, too."""
        return self.inner if self._own is None else None

    def _create(self, names: dict[torch.Tensor, str], clip: float) -> None:
        params = [p for g in self.param_groups for p in g["params"]]
        known = [names.get(p, f"parameter {i}") for i, p in enumerate(params)]
        _places.check(params, known)
        self._places = [Place(i, name, p) for i, (name, p) in enumerate(zip(known, params))]
        self._alike = _alike.text_of(self.param_groups, zip(known, params), self._theirs)
        if self._theirs is None:
            self._alike += f"weft's optimizer steps: on {'a device' if self._own else 'the host'}\n"
        if self._own is not None or self._clip > 0:
            self._alike += f"optimizer.clip: {clip:g}\n"
        if self.placed == 1:
            self._alike += _places.frozen(self._frozen)
        if self.placed == 1 and self._config.number("mixer.kind") == "none":
            self._alike += _places.frozen(_buffers.untrained(self._asked_buffers, self._module),
                                          "buffer {} (make it alike, or say buffers='own')")
        self._alike += _pieces.alike(self._group, zip(params, known))
        if self._chooses:
            self._alike += _packets.alike(self._chooses, self._places)
        self._settle_places()
        if self._node is not None and not self._node.leads:
            return self._follow()
        try:
            self._exchange()
        except LeftBehind as error:  # on its way in
            if self._together is not None:
                raise
            self._was_left(error)
        while self._left is not None:
            self._return()
            self.report = None
        stand_in(self)

    def _exchange(self, back: bool = False) -> None:
        """Takes part: with those who begin, or in a run that trains already; `back`: again."""
        self._replace(place.p for place in self._places)
        if self._together is not None:
            self._together.check(self.mesh)
        tensors = table_of([place.shape for place in self._places],
                           [place.name for place in self._places])
        may = self.decision is not None or self.mesh.joins  # be exchanged in another form later
        self._storage = Storage(any(place.could if may else place.straight for place in self._places))
        self._sync = Sync(self._ctx, self.mesh, self._config, tensors,
                          outside=self.inner is not None, skips=self._skips,
                          writes=True, compressed=self._chooses is not None, sharded=self._shards > 1, elastic=True,
                          uneven=self._rows.on, take=self._storage.take, pack=self._carried.pack,
                          unpack=self._carried.unpack, settle=self._settle, moments=self._meets(), alike=self._alike,
                          folder=self._folder, decided=None if self.decision is None else self.decision.told())
        self._closed = False
        _asked.outlives(self._folder, self)
        _asked.products(self)
        self._may_change()
        self._packets = _packets.packed(self._places, self._chooses, self._sync) if self._chooses else []
        holds = self._held_kind() if not self.mesh.joins else None  # else in the others' world
        partners = self._hold(holds) if holds is not None else 0
        if self._own is not None:
            self._own.follow([self._sync.rule(i) for i in range(len(self._places))], self.place()[1] // self.placed,
                             lambda: self.steps)
        atexit.register(self.close)
        for place in self._places:
            place.attach(self._storage.tensor(self._sync.parameters(place.index), place.shape),
                         self._storage.tensor(self._sync.gradients(place.index), place.shape))
        self._sync.begin()
        self._change_form(entered=True)
        if self._carried.brought is None:
            self._rows.shares = Shares(self.place()[1] // self.placed)
        self.report = _back.report_of(self._sync) if back else None
        if self._node is not None:
            return self._stay_behind_ddp()
        self._publish()
        if holds is not None:
            self._held = Mixer(holds, self._config, self._places, self._sync, partners)
        if self.mesh.joins:
            self._take_up(True)
        if self._listens:
            self._handles = [place.p.register_post_accumulate_grad_hook(
                lambda _p, place=place: self._arrived(place)) for place in self._places]

    def close(self) -> None:
        """Ends the exchange. The model keeps its parameters; the mesh stays open."""
        if self._record is not None:
            self._record.close()
        if self._opened and not self._closed and self._sync.goes_on:  # else all wait for each other
            self.mesh.fail("it left in the middle of a step")
        super().close()

    # --- coming back ---

    def come_back(self) -> Report:
        """After ``LeftBehind``: comes into the run again, with the others' parameters, state and
        steps, rates, and what is carried."""
        endpoints = self._left.endpoints if self._left is not None else self.mesh.way_back()
        if endpoints is None:
            raise Error("argument", "nobody has gone on without this process")
        if self.placed > 1 and self._returns.most == 0:
            raise Error("argument", "processes that share a copy of the model come back together, "
                        "by themselves: create the optimizer with returns=10")
        if self._carried.moves():
            raise Error("argument", "the schedule of this process is not carried, nor are its rates "
                        "the others' then: call optimizer.carry(schedule)")
        Closing.close(self)
        self.mesh = _world.again(self.mesh, _world.address_of(endpoints), self._together)
        method, config, given = self._asked
        given = {key: value for key, value in given.items() if key.replace(".", "_") not in
                 ("mesh_nodes", "mesh_ranks_per_node")}
        places(given, self.mesh, self._shards, "ranks", method)
        self._ctx = Context()
        self._configure(method, config, given)
        self._pending.clear()
        self._forget()
        self._exchange(back=True)
        self._left = None
        self._carried.again()
        assert self.report is not None
        _back.log.warning("this process is back, one of %d, and goes on with step %d",
                          self.report.processes, self.report.step + 1)
        return self.report

    @contextlib.contextmanager
    def _unless_left(self) -> Iterator[None]:
        """What the others have gone on without, the end of the step takes up, if it may come back."""
        try:
            yield
        except LeftBehind as error:
            self._was_left(error)

    def _was_left(self, error: LeftBehind) -> None:
        if self._returns.most == 0:
            raise error
        self._left = error

    def _return(self) -> None:
        """At the end of a step, which was none if this process, or one that shares its copy, was
        left behind. A process that is left behind again on its way in tries once more in the next step."""
        if self._together is not None and self._returns.most > 0:
            self._left = self._together.agreed(self._left)
        if self._left is None:
            return
        self._returns.wait(self._left)
        if self._left.status == "numeric" and self.mesh.way_back() is None:
            raise self._left  # the others' numbers are wrong as well: the loss has diverged
        with self._unless_left():
            self.come_back()

    # --- what a process that comes gets beside parameters and weft's own state ---

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self._sync is not None:
            raise Error("argument", "parameters are added after the optimizer was created: create another with all")
        super().add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        raise Error("argument", "an optimizer that exchanges with other processes can not be "
                    "copied or pickled; optimizer.state_dict() is what to save")

    def carry(self, *objects: Any) -> None:
        """What moves with the steps beside the optimizer, a learning-rate schedule above all:
        anything with state_dict and load_state_dict. A process that comes into the run
        (WEFT_JOIN) calls this with the same objects, and gets their state from the others. The
        state of a torch optimizer inside goes along by itself."""
        self._carried.add(*objects)

    def _follow(self) -> None:
        """The leader has weft's arrays; this rank has copies of its parameters."""
        self._sync = Follower()
        for place in self._places:
            zeros = torch.zeros(2, *place.shape, dtype=torch.float32, device="cpu")
            place.attach(zeros[0], zeros[1])
        self._stay_behind_ddp()

    def _stay_behind_ddp(self) -> None:
        """DDP has gradients of its own, complete when backward has ended."""
        for place in self._places:
            place.alias_grad = False
        self._finish(self.report)

    # --- a step ---

    def _arrived(self, place: Place) -> None:
        """The hook: autograd has added to this parameter's gradient."""
        with self._one_at_a_time:
            try:  # as in _unless_left, which takes a tenth of a hook's time
                if self._left is None:  # else the step to come is none
                    self._take(place)
            except LeftBehind as error:
                self._was_left(error)

    def _take(self, place: Place) -> None:
        """For each tensor of each step: what is done already is not even asked for."""
        if not self._looked:
            self._look()
        early = self.overlap and (not self._rows.on or self._rows.rows is not None)
        last = early and not self._paused and place.backwards + 1 == self.accumulate
        if last and self._moves_forms:  # gradients may stay from this step on
            self._open()
        comes = not place.stays and place.packet is None  # to the host, whole
        if (place.in_place or early) and (last or place.near) and comes:
            if torch.is_grad_enabled():
                with torch.no_grad():
                    place.collect(keep=last)
            else:
                place.collect(keep=last)
        if self._paused:
            return
        place.backwards += 1
        if place.backwards < self.accumulate:
            return
        if self._agreed is not None:
            raise Error("argument", f"a backward reached '{place.name}' after the gradients were "
                        "agreed on; of several losses of a step put all backward passes but the last "
                        "into 'with optimizer.no_sync():'; of torch.utils.checkpoint say "
                        "use_reentrant=False")
        if place.backwards > self.accumulate:
            raise Error("argument", _places.again(place))
        if self._agrees_in_backward and self._awaited != (backward := torch._C._current_graph_task_id()):
            self._awaited = backward
            torch.autograd.Variable._execution_engine.queue_callback(self.agree)
        if not early:
            place.left = place.p.grad._version if place.p.grad is not None else None
        elif place.stays:
            self._open()
        elif place.packet is not None:
            self._open()
            place.packet.waits -= 1
            if place.packet.waits == 0:
                self._choose(place.packet)
            self._hand_over(wait=False)
        else:
            if not self._opened:
                self._open()
            if place.near:
                self._ready(place)
            else:
                self._pending.append(place)
            if self._pending:
                self._hand_over(wait=False)

    def _choose(self, packet: _packets.Packet) -> None:
        with torch.no_grad():
            packet.send(self._rate(), self._rows.weight)
        self._pending.append(packet)

    def _ready(self, place: Place) -> None:
        place.land()
        self._show(place)
        place.version = place.grad._version
        if self.inner is None:  # libweft writes the parameter from now on
            place.written()
        self._sync.ready(place.index)

    def _hand_over(self, wait: bool) -> None:
        """To libweft, in the order in which they left, the gradients that have come to the host."""
        while self._pending and (wait or self._pending[0].arrived()):
            one = self._pending.popleft()
            if isinstance(one, Place):
                self._ready(one)
            else:
                one.hand_over(self._sync)

    def _open(self) -> None:
        """Rates as they are now, for the step under way."""
        if self._opened:
            return
        self._opened = True
        self._carried.check()
        self._sync.compare()
        if (self._sync.goes_on or self._moves_forms) and not self._skips and self._sync.open(self._moves_forms):
            self._take_up(False)
        self._change_form()
        base = self._rate()
        if self.inner is None:
            places = iter(self._places)
            for group in self.param_groups:
                scale = float(group["lr"]) / base if base > 0 else 1.0
                for _, place in zip(group["params"], places):
                    frozen = not place.p.requires_grad  # since the optimizer was created
                    self._sync.set_tensor(place.index, 0.0 if frozen else scale,
                                          float(group["weight_decay"]))
        self._sync.set_rate(base)
        self._mark()

    def _rate(self) -> float:
        """The highest, which momenta take."""
        return max((float(g["lr"]) for g in self.param_groups), default=0.0)

    @torch.no_grad()
    def step(self, loss: torch.Tensor | float | Callable[[], Any] | None = None,
             closure: Callable[[], Any] | None = None, *, rows: int | None = None) -> Any:
        """Ends the step: waits for the exchange, optimizes, mixes. ``loss`` is this rank's own, as a number or
        a tensor; the report has the mean of all ranks'. A closure, first or by name, is called before, as in
        torch.optim, and its loss is returned instead of the report. ``rows``, with ``uneven=True``: on how many
        rows loss and gradient are means of (0: none; where a mixer alone sends, no optimizer step is made)."""
        returned, loss = called(loss, closure)
        while True:
            with self._unless_left():
                if self._left is None:
                    self._rows.check(rows)
                    self._step(loss, rows)
            self._return()
            if not self._rows.idles():
                return self.report if returned is None else returned
            loss, rows = None, 0  # a step of the others

    def _step(self, loss: Any, rows: int | None) -> None:
        if self._agreed is None:
            self._gather(loss, rows)
        elif self._theirs is not None:
            self._unscale()
        value = number(loss)  # not before: it would wait for the device with the hands full
        self._finish(self._step_inside(value) if self.inner is None else
                     self._step_outside(value))

    def _gather(self, loss: Any = None, rows: int | None = None) -> None:
        """All gradients of this process."""
        self._look()
        self._hand_over(wait=True)
        self._check_unchanged()
        self._open()
        self._rows.weigh(self, loss, rows)
        self._rows.clear(self._places)
        self._collect_all()

    def agree(self, loss: torch.Tensor | float | None = None, *, rows: int | None = None) -> None:
        """After backward, before ``step``: with a torch optimizer inside, ends the exchange and
        leaves what all agreed on in ``p.grad``, to be clipped or logged there as under DDP. The
        report has the loss that is given here. Collective."""
        _asked.agreement("agree()", self._theirs, None, self._skips)
        if self._agreed is not None or self._left is not None:
            return
        self._rows.check(rows)
        with self._unless_left(), torch.no_grad():
            self._gather(loss, rows)
            self._blind = loss is None
            self._agree(number(loss))

    _awaited = -1  # the backward at whose end all agree, as autograd numbers it

    def _finish(self, report: Report | None) -> None:
        for place in self._places:
            place.written()
        if report is not None and self._node is None:
            _decide.look(self._sync, self.forms, report.step, self._record)
        self.report = report if self._node is None else self._tell(report)
        if self._mixes_after and (self.inner is not None or not self._copies_early()):
            self._publish(unless_rests=not self._mixed)
        self._forget()
        if self._moves_forms and report is not None and self._node is None:
            _decide.look_alone(self._sync, report.step, "decide.alone" in self._asked_keys and self._limits.alone == "end",
                               self._record)

    def _forget(self) -> None:
        for place in self._places:
            place.forget()
        for packet in self._packets:
            packet.forget()
        self._opened = self._looked = self._unscaled = False
        self._agreed = self._rows.rows = None

    def _collect_all(self) -> None:
        """What hooks have not: gradients that were written by hand, and scaled ones."""
        scale = self._scale()
        self._check_reached()
        late = [place for place in self._places if place.version is None and not place.stays]
        if self._packets:
            return self._choose_rest(scale)
        for place in late:
            place.collect()
        for place in late:
            place.land()
            place.complete()
            if scale != 1:
                place.grad.mul_(1 / scale)
            self._show(place)
        for place in self._places:
            if place.stays and scale != 1 and place.p.grad is not None:
                place.p.grad.mul_(1 / scale)

    def _choose_rest(self, scale: float) -> None:
        """Of gradients that hooks have not seen, or that are clipped before."""
        rest = [packet for packet in self._packets if not packet.sent]
        grads = {t.p: _world.dense(t.p) for packet in rest for t in packet.tensors if t.p.grad is not None}
        if scale != 1:
            for grad in grads.values():
                grad.mul_(1 / scale)
        if self._clip > 0:
            none = torch.zeros(1, device="cpu")
            by: Any = _own.bound({place.p: grads.get(place.p, none) for place in self._places}, self._clip)
            for grad in grads.values():
                grad.mul_(by.to(grad.device, grad.dtype))
        for packet in rest:
            self._choose(packet)
        self._hand_over(wait=True)

    def _show(self, place: Place) -> None:
        """Of equal rows gradients are equal."""
        if place.index == 0 and self._node is None and self._sync.rows.asks:
            value = float(torch.linalg.vector_norm(place.grad))
            self._sync.rows.instead = value if math.isfinite(value) else None

    def _step_inside(self, value: float | None) -> Report:
        """Parameters that are not weft's memory are copied."""
        if not self._copies_early():
            return self._sync.step(value)
        for place in self._arriving(value):
            place.publish()
        return self._sync.step(value)

    def _arriving(self, value: float | None) -> Iterator[Place]:
        """As they are done, while the exchange of later ones goes on."""
        self._sync.complete(value)
        for part in self._sync.arrivals():
            yield from self._places[part.first:part.first + part.n]

    def _copies_early(self) -> bool:
        return self._node is None and not all(place.in_place for place in self._places)

    def _step_outside(self, value: float | None) -> Report:
        if self._agreed is None:
            self._blind = False
            self._agree(value)
        if self._agreed and not self._rows.rests:
            assert self.inner is not None
            self.inner.step()
            self._return_masters()
        return self._mix(None if self._blind else value)

    def _mix(self, value: float | None = None) -> Report:
        kept = None if self._held is None else self._held.hand_over()
        report = self._sync.mix(value)
        del kept  # until then libweft reads it
        if self._held is not None:
            self._held.take_in()
        return report

    def _agree(self, value: float | None) -> None:
        self._agreed = self._agree_and_mix(value)
        if self._agreed:
            self._lend_masters()
        else:
            for place in self._places:
                place.p.grad = None

    _mixed = True  # whether the mixer sends or changes parameters in the step under way

    def _agree_and_mix(self, value: float | None) -> bool:
        kept = self._held.hand_over_first() if self._held is not None else None
        for place in self._arriving(value) if self._packets else ():
            place.packet.tell(self._sync, self._storage)
        moves = bool(self._sync.agree(value))
        del kept
        if self._held is not None:
            self._held.take_in()
        self._mixed = self._held is None and self._sync.mixes()
        if self._mixes_before:
            self._publish(unless_rests=True)  # a mixer may have changed the masters
        return moves

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing is left to do after ``step``; before it, forgets the gradients so far."""
        for place in self._places:
            if place.version is not None or place.coming is not None or self._agreed is not None:
                raise Error("argument", "zero_grad after gradients are exchanged already; a loss whose gradients are "
                            "dropped goes into 'with optimizer.no_sync():', and a step that failed is made by another step()")
            place.forget()
        self._spent = False
        for packet in self._packets:
            packet.forget()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here only add to the gradients: all but the last of a step."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    _listens = True  # to autograd: gradients are taken as they are there
    _step_supports_amp_scaling = True  # a GradScaler leaves skipping, and its scale, to us


__all__ = ["Optimizer"]
