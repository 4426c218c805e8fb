# SPDX-License-Identifier: MIT
"""What weft.Optimizer does between steps. It saves and loads libweft's arrays by their names, a part for each
parameter, and a few numbers; with the state of a torch optimizer inside beside them."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch

from . import _asked, _buffers, _own, _pieces, _places, _saved
from ._changes import Changes
from ._library import Error
from ._node import Follower, Told
from ._places import Place, floats
from ._sync import Report
from ._world import local


class State(Changes):
    """A part of Optimizer."""

    _resumed = 0

    @property
    def state(self) -> Any:
        """By parameter, of the optimizer that steps inside (``state[p]["exp_avg"]``); empty where libweft steps."""
        inner: torch.optim.Optimizer | None = self.inner
        return self.__dict__["state"] if inner is None else inner.state  # its load_state_dict makes another one

    @state.setter
    def state(self, value: Any) -> None:
        if self._sync is None:  # torch's constructor
            self.__dict__["state"] = _own.Kept()
        elif self._theirs is None:
            raise _own.kept("state is set")
        else:
            self.inner.state = value

    @property
    def steps(self) -> int:
        """Steps that are done: where a loop begins in a process that comes into a run."""
        return int(self._sync.steps())

    def __repr__(self) -> str:
        return (f"weft.Optimizer(method={self._config.number('method')}, "
                f"rank {self.mesh.rank} of {self.mesh.size}, "
                f"{sum(p.shape.numel() for p in self._places)} parameters)")

    def place(self) -> tuple[int, int]:
        """This process's number among those that train now, and how many they are."""
        if isinstance(self._sync, Follower):
            return -1, 0
        rank, size = self._sync.place()
        return int(rank), int(size)

    @property
    def goes_on(self) -> bool:
        """Whether the others go on when processes are lost: with one process per machine, or
        ``between="ranks"``, or copies that FSDP2 or DDP spreads over a machine, without ``skips``,
        and not under a torchrun of all machines, which ends them itself. ``mesh_on_loss="end"``
        refuses to."""
        return bool(self._sync.goes_on)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Parameters, and statistics in buffers, are the mean of all copies in here (gossip, DiLoCo).
        Collective."""
        own = [b.clone() for b in self._buffers]
        self.average()
        try:
            yield
        finally:
            self._sync.restore()
            with torch.no_grad():
                for b, before in zip(self._buffers, own):
                    b.copy_(before)
            self._tell_node()

    def average(self) -> None:
        """The same for good, after the last step: one model out of all copies."""
        if least := self._rows.apart():
            raise Error("argument", f"averaged() or average() after step {self.steps}, in the middle of an epoch with "
                        f"Sampler(least={least}): a process without rows passes such steps inside a call of step, and "
                        "would not come; expected it at the end of an epoch, or after the last of run_steps")
        self._take_in()
        self._bring_down()
        self._averages = True
        try:
            _buffers.average(self._buffers, self._places, self._sync)
            self._sync.average()
        finally:
            self._averages = False
        self._tell_node()

    def _tell_node(self) -> None:
        if self._node is not None:
            self._tell(None)
        self._publish()

    def _tell(self, report: Report | None) -> Report | None:
        """The leader's parameters and report; and what it was brought, if it has just come in."""
        assert self._node is not None
        told = Told(report, self.steps, self._carried.for_followers())
        told = self._node.tell([place.master for place in self._places], told)
        if isinstance(self._sync, Follower):
            self._sync.n_steps = told.steps
            if told.brought:
                self._carried.unpack(told.brought)
                self._carried.again()
        return told.report

    def _publish(self, unless_rests: bool = False) -> None:
        with torch.no_grad():
            for place in self._places:
                if not (place.rests and unless_rests):
                    place.publish()

    # --- saved ---

    @torch.no_grad()
    def _bring_down(self) -> None:
        _places.bring_down([place for place in self._places if place.rests])

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, of this rank: every rank saves its own. Where copies
        are equal and keep nothing of their own (ddp, hsdp) one rank's state is all ranks'."""
        _saved.refuse_names()
        for hook in _saved.hooks(self, "state_dict_pre"):
            hook(self)
        packed = self._pack()
        if self._theirs is not None and not isinstance(self._sync, Follower):
            packed["inner"] = _saved.plain(self._theirs)
        for hook in _saved.hooks(self, "state_dict_post"):
            packed = hook(self, packed) or packed
        return packed

    def _pack(self) -> dict[str, Any]:
        """Without the state of an optimizer inside."""
        if isinstance(self._sync, Follower):
            return {"state": {}, "param_groups": [], "weft": None}
        self._sync.rest()
        self._take_in()
        state: dict[int, dict[str, torch.Tensor]] = {}
        arrays = self._arrays()
        for place in self._places:
            n = place.shape.numel()
            part = state[place.index] = {}
            for name, k in arrays.items():
                there = self._there(place, name)
                part[name] = floats(self._sync.state(k, place.index), n).view(place.shape) if there is None else \
                    there.detach().to("cpu", torch.float32, copy=True)
        groups, i = [], 0
        for group in self.param_groups:
            n = len(group["params"])
            groups.append({**group, "params": list(range(i, i + n))})
            i += n
        rank, size = self._sync.place()
        own = {"step": self.report.step if self.report else self._resumed,
               "numbers": self._sync.numbers(), "size": size, "rank": rank,
               "arrays": list(arrays), "group": self._group and list(self._group), "form": self._sync.form()}
        return {"state": state, "param_groups": groups, "weft": own}

    def _arrays(self) -> dict[str, int]:
        """Names and numbers of libweft's arrays that the next step depends on: not of those of its
        own optimizer where torch's steps."""
        held = {} if self._held is None else {f"mixer.{name}": -1 for name in self._held.states}
        return {name: k for k, name in enumerate(self._sync.states())
                if self._theirs is None or not name.startswith("optimizer.")} | held

    def _there(self, place: Place, name: str) -> torch.Tensor | None:
        """What is kept of an array beside the parameter, on its device."""
        section, _, short = name.partition(".")
        if section == "mixer" and self._held is not None:
            return self._held.part(short, place)
        if section == "optimizer" and self._own is not None and short in self._own.state[place.p]:
            return local(self._own.state[place.p][short])
        if name == "replicator.momentum" and place.packet is not None:
            return place.momentum
        return place.there() if name == "parameters" and (place.rests or self._own is not None) else None

    def _put(self, place: Place, name: str, values: torch.Tensor) -> None:
        """Of the parameter into its master, from which it is published."""
        there = None if name == "parameters" else self._there(place, name)
        if there is None:
            _places.write(self._sync.state(self._arrays()[name], place.index), values)
        else:
            there.copy_(values)

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Before the first step; training then goes on with the same bits. A state of the torch
        optimizer inside, or of torch's AdamW where weft's steps, is taken over."""
        if isinstance(self._sync, Follower):
            return self._tell_node()
        _saved.refuse_names()
        for hook in _saved.hooks(self, "load_state_dict_pre"):
            state_dict = hook(self, state_dict) or state_dict
        self._bring_down()  # what the program has loaded, unless the state has it, too
        if "weft" in state_dict:
            self._unpack(state_dict)
        elif _saved.OWN in state_dict:
            self._unpack(state_dict[_saved.OWN])
        else:
            self._take_over(state_dict)
        if self._theirs is not None:
            _saved.load_plain(self._theirs, state_dict.get("inner", state_dict))
            self._show_inside()
        else:
            self._take_groups(state_dict["param_groups"], "weft" in state_dict)
        self._tell_node()
        for hook in _saved.hooks(self, "load_state_dict_post"):
            hook(self)

    def _show_inside(self) -> None:
        """What a program reads and sets of an optimizer inside: its load_state_dict makes others."""
        if self.inner is not None:
            self.param_groups = self.inner.param_groups
        if self._theirs is None:
            _asked.of_groups(self.param_groups)

    def _take_groups(self, groups: list[dict[str, Any]], own: bool) -> None:
        """Rates and weight decays; all that there is in groups that weft has saved."""
        if len(groups) != len(self.param_groups):
            raise Error("format", f"the state is of {len(groups)} parameter groups, this optimizer "
                        f"has {len(self.param_groups)}")
        for group, saved in zip(self.param_groups, groups):
            group.update({k: v for k, v in saved.items() if k != "params" and (
                own or k in ("lr", "initial_lr", "weight_decay"))})

    def _take_over(self, packed: dict[str, Any]) -> None:
        """A state that torch's own optimizer saved."""
        if self._theirs is not None:
            steps = _saved.steps_of(packed)
        else:
            steps = _saved.take_over(
                packed, self._config, [place.shape for place in self._places],
                lambda name, i, values: self._put(self._places[i], name, values))
        self._resume(steps)

    def _resume(self, steps: int) -> None:
        self._sync.resume(steps)
        self._resumed = steps

    def _equal_copies(self) -> bool:
        """Whether any rank's state is that of all that have the same rows."""
        return all(name == "parameters" or name.startswith("optimizer.")
                   for name in self._sync.states()) and \
            self._config.number("mixer.kind") == "none"

    @torch.no_grad()
    def _unpack(self, state_dict: dict[str, Any]) -> None:
        if isinstance(self._sync, Follower):
            return
        own, names = state_dict["weft"], list(self._arrays())
        rank, size = self._sync.place()
        alike = self._equal_copies() and own["rank"] % self._shards == rank % self._shards
        wrong = _pieces.others(own.get("group"), self._group)
        if wrong is not None:
            raise Error("format", f"{wrong}; expected the state that it has saved, or one of its group")
        given = [name for name in own["arrays"]
                 if self._theirs is None or not name.startswith("optimizer.")]
        theirs, ours = own.get("form") or "", self._sync.form()
        forms = f", after steps with {theirs}, and this optimizer begins with {ours}: expected to be created in that form" \
            if given != names and theirs != ours and theirs else ""
        if given != names or not (alike or (own["size"], own["rank"]) == (size, rank)):
            raise Error("format", f"the state was saved by rank {own['rank']} of {own['size']} "
                        f"with arrays {', '.join(own['arrays'])}{forms}; this is rank "
                        f"{rank} of {size} with {', '.join(names)}; each process saves and loads its "
                        "own, in a file of its own or by weft.PerRank")
        numbers = self._sync.numbers()
        if own["numbers"] and len(own["numbers"]) != len(numbers):
            raise Error("format", f"the state has {len(own['numbers'])} numbers beside its arrays, method "
                        f"{self._config.number('method')} has {len(numbers)} here; expected the keys of the mixer and the "
                        "version of weft with which it was saved")
        for place in self._places:
            for name in names:
                saved = state_dict["state"][place.index][name]
                if saved.shape != place.shape:
                    raise Error("format", f"'{name}' of parameter {place.index} was saved as "
                                f"{tuple(saved.shape)}, this model has {tuple(place.shape)}")
                self._put(place, name, saved)
        self._sync.set_numbers(own["numbers"] or numbers)
        self._resume(own["step"])

    def _lend_masters(self) -> None:
        for place in self._places:
            place.lend()

    def _return_masters(self) -> None:
        _places.bring_down([place for place in self._places if self._mixed or not place.rests])
        for place in self._places:
            place.take_back()


__all__ = ["State"]
