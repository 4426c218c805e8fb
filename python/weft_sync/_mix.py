# SPDX-License-Identifier: MIT
"""weft.Mix, around an optimizer that the loop calls as ever, and weft.GradScaler."""

from __future__ import annotations

import contextlib
import sys
from types import FrameType
from typing import Any, Sequence

import torch

from . import _asked, _saved
from ._library import Error, Mesh
from ._optimizer import Optimizer
from ._sync import Report


class _Quiet(Optimizer):
    """Takes gradients when its caller's optimizer steps. Until then they are the loop's own, which
    may add to them, clip and drop them as it likes: none is exchanged."""

    _listens = False
    around: Sequence[Any] = ()  #: handles of hooks on its caller's optimizer

    def close(self) -> None:
        super().close()
        for handle in self.around:
            handle.remove()


class Mix:
    """Gossip or DiLoCo around a torch optimizer that steps by itself, and a loop that is not
    changed, with as many backward passes per step as it has: copies are mixed when
    ``optimizer.step()`` is called. Use as a context, or call ``close``. :class:`Error` as of `Optimizer`.

        with weft.Mix(model, optimizer, method="diloco", mixer_outer_every=100):
            for x, y in loader:
                ...
                optimizer.step()

    Without a method, as of `Optimizer`, gradients may be averaged, too, as the loop has left them: when
    ``optimizer.step()`` is called, which moves along the mean. ``p.grad`` is the loop's own again after it.
    """

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer, *, method: str | None = None,
                 **named: Any):
        method = method or "auto"
        _asked.mixing(method, named)
        optimizer = _asked.unwrapped(optimizer)
        self.weft = _Quiet(model, optimizer, method=method, overlap=False, **named)
        if self.weft.decision is None and self.weft._config.number("replicator.kind") != "none":
            self.weft.close()
            raise Error("config", f"method {method} exchanges gradients in each step; "
                        "use weft.Optimizer(model, optimizer, method=...)")
        beside = _saved.Beside(optimizer, self.weft._pack, self.weft._unpack)
        self._inner = optimizer
        self._inner.__dict__["weft_mix"] = self  # which its state_dict and pickles leave out
        self._rows: int | None = None
        self.weft.around = [optimizer.register_step_pre_hook(self._before),
                            optimizer.register_step_post_hook(self._after), *beside.handles]

    _halfway = False  # between the halves of a step, in which the optimizer makes its own

    def step(self, *, rows: int) -> Any:
        """``optimizer.step()``, with ``uneven=True``: of so many rows (0: none, and the optimizer makes no
        step). Copies are mixed by how many rows they have learned from since they were mixed last."""
        try:
            self._rows, returned = rows, None
            if rows == 0:
                self._passes()
            else:
                returned = self._inner.step()
            self._rows = 0
            while self.weft._rows.idles():
                self._passes()
            return returned
        finally:
            self._rows = None

    def _passes(self) -> None:
        """A step in which this process's optimizer does not move: it is one of the others' all the same."""
        for place in self.weft._places:
            place.p.grad = None  # infinite ones are not to be clipped, nor sent
        self._before()
        self._after()

    def _nested(self) -> bool:
        """Whether a class's step calls that of the class above it, of which torch calls the hooks, too."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_name == "step" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is self._inner:
                return True
            frame = frame.f_back
        return False

    def _before(self, _inner: Any = None, args: Sequence[Any] = (), named: dict[str, Any] | None = None) -> None:
        if self._nested():
            return
        infinite = getattr(self._inner, "found_inf", None)  # a scaler calls a fused one all the same
        if self.weft.decision is not None:
            _asked.averages(any(given is not None for given in (*args[1:], *(named or {}).values())), infinite is not None)
        self._began = True
        self._grads = [(place.p, place.p.grad) for place in self.weft._places]
        if self._halfway:  # the optimizer has raised an exception: its next step is this one again
            if self.weft._now("replicator.kind") != "none":
                self.weft._lend_masters()
            return
        self.weft._rows.check(self._rows)
        if self.weft._left is not None:
            return
        if infinite is not None and float(infinite) > 0:
            for place in self.weft._places:
                place.p.grad = None
        with self.weft._unless_left(), torch.no_grad():
            self.weft._gather(None, self._rows)
            self.weft._agree_and_mix(None)
            self.weft._lend_masters()
            self._halfway = True

    def _after(self, *_: Any) -> None:
        if self._nested():
            return
        self._halfway = False
        if self.weft._left is None:
            with self.weft._unless_left(), torch.no_grad():
                self.weft._return_masters()
                self.weft._finish(self.weft._mix())
        with torch.no_grad():
            self.weft._return()  # parameters and moments are the others' then
        for p, grad in self._grads:  # the loop's own again, which it may log, zero, or add to
            p.grad = grad

    def come_back(self) -> Report:
        """As `Optimizer.come_back`."""
        return self.weft.come_back()

    @property
    def report(self) -> Report | None:
        """Of the last step; None before it."""
        return self.weft.report

    @property
    def steps(self) -> int:
        """Steps that are done."""
        return self.weft.steps

    def carry(self, *objects: Any) -> None:
        """As `Optimizer.carry`."""
        self.weft.carry(*objects)

    def share(self, *rows: int) -> int:
        """As `Optimizer.share`."""
        return self.weft.share(*rows)

    @property
    def mesh(self) -> Mesh:
        """The processes that train together."""
        return self.weft.mesh

    def averaged(self) -> contextlib.AbstractContextManager[None]:
        """A with-block in which parameters are the mean over all ranks."""
        return self.weft.averaged()

    def average(self) -> None:
        """Parameters become that mean for good."""
        self.weft.average()

    def state_dict(self) -> dict[str, Any]:
        """Of this rank: the state of the mixing, with the optimizer's under "inner". The optimizer's
        own state_dict has that of the mixing, too, for frameworks."""
        return self.weft.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of this rank, as `state_dict` gave it."""
        self.weft.load_state_dict(state_dict)

    def close(self) -> None:
        """Ends the exchange; the optimizer steps as before."""
        self._inner.__dict__.pop("weft_mix", None)
        self.weft.close()

    def __enter__(self) -> Mix:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


#: before torch 2.3 there was one for CUDA alone, which takes no device
_Scaler: Any = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


class GradScaler(_Scaler):
    """torch's, which lowers its scale on all ranks when one of them found an infinity. The
    optimizer is created with ``skips=True``. Around a torch optimizer ``unscale_`` leaves what all agreed on in
    ``p.grad``, to be clipped there as under DDP. ``Mix`` counts a step that it skips, too."""

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        super().unscale_(optimizer)
        if isinstance(optimizer, Optimizer) and self._enabled:
            optimizer.by_wefts = True
            found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
            optimizer.agree_unscaled(sum(each.cpu() for each in found))

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        if isinstance(optimizer, Optimizer):
            optimizer.by_wefts = True
        mix: Mix | None = getattr(_asked.unwrapped(optimizer), "weft_mix", None)
        if mix is not None:
            if mix.weft.decision is not None:
                _asked.averages(False, self._enabled)
            mix._began = False
            fused = getattr(optimizer, "_step_supports_amp_scaling", False)
            if fused and self._enabled and self._per_optimizer_states[id(optimizer)]["stage"].name == "READY":
                self.unscale_(optimizer)  # else it would scale what has been mixed
        result = super().step(optimizer, *args, **kwargs)
        if mix is not None and not mix._began and not mix.weft._closed:
            mix._passes()
        if isinstance(optimizer, Optimizer) and optimizer.report is not None \
                and optimizer.report.skipped:
            for found in self._per_optimizer_states[id(optimizer)][
                    "found_inf_per_device"].values():
                found.fill_(1.0)
        return result


__all__ = ["GradScaler", "Mix"]
