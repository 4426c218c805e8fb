# SPDX-License-Identifier: MIT
"""weft's own optimizers (lib/optim, docs/methods.md section 5) by torch's operations, where parameters are
on a device: they, gradients that no method exchanges, and moments then stay there.

A parameter that is not float32 has a master [its shape] beside it, float32, as on the host. States are named
as libweft's are, by whose arrays they are saved and loaded."""

from __future__ import annotations

import ctypes as c
import functools
from typing import Any, Callable, Sequence

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from ._abi import DIRECTS
from ._library import Config, Error
from ._world import dense, local

#: states of each kind, as lib/optim names them
STATES = {"sgd": (), "adam": ("m", "v"), "adamw": ("m", "v"), "accum_adam": ("m", "v", "a"),
          "accum_adamw": ("m", "v", "a"), "muon": ("m", "v")}
QUINTIC = ((3.4445, -4.7750, 2.0315),) * 5
POLAR = ((8.156554524902461, -22.48329292557795, 15.878769915207462),
         (4.042929935166739, -2.808917465908714, 0.5000178451051316),
         (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
         (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
         (2.3465413258596377, -1.7097828382687081, 0.42323551169305323))


def plainly(device: torch.device) -> torch.autocast:
    """Float32 is float32 there, also in a backward inside of torch.autocast: other ranks, and
    libweft, compute so."""
    return torch.autocast(device.type, enabled=False)


def serves(config: Config) -> bool:
    """Whether steps are possible there: Muon's cheaper forms, and directions that a mixer changes, are
    libweft's alone."""
    return bool(config.number("optimizer.rows") == 1 and config.number("optimizer.whole_every") == 1
                and not config.has(DIRECTS))


def bound(grads: dict[torch.Tensor, torch.Tensor], clip: float) -> torch.Tensor | None:
    """By what gradients are multiplied so that their norm is at most `clip`, over all parameters, those of
    other shards too; 0: nothing is clipped."""
    if clip <= 0 or not grads:
        return None
    first = next(iter(grads))
    squares = torch.stack([torch.linalg.vector_norm(g.float()).square().to(local(first).device)
                           for g in grads.values()]).sum()
    if first is not local(first):
        torch.distributed.all_reduce(squares, group=first.device_mesh.get_group())
    return (clip / squares.sqrt()).clamp(max=1)


def orthogonal(x: torch.Tensor, polar: bool, bf16: bool) -> torch.Tensor:
    """[n, rows, cols] each by five turns of Newton-Schulz (lib/optim/orthogonal.c); products of `bf16`, or
    as float32 products are on the device."""
    norm = torch.linalg.matrix_norm(x, keepdim=True)
    x = x / (norm * 1.02 + 1e-6 if polar else norm + 1e-7)
    tall = x.shape[1] > x.shape[2]
    x = (x.mT if tall else x).to(torch.bfloat16 if bf16 else x.dtype)
    for a, b, q in POLAR if polar else QUINTIC:
        s = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(s, s, s, beta=b, alpha=q), x, beta=a)
    return (x.mT if tall else x).float()


def written(parameter: torch.Tensor, master: torch.Tensor) -> torch.Tensor:
    """The master, with what the program has written into the parameter since it was rounded from it."""
    changed = parameter != master.to(parameter.dtype)
    return master.copy_(torch.where(changed, parameter.to(torch.float32), master))


def kept(what: str) -> Error:
    """Where a program would have moments begin anew that are weft's."""
    return Error("argument", f"{what}, but weft's own optimizer keeps its moments in libweft; expected torch's optimizer "
                 "inside, or another optimizer of weft's, which begins anew")


class Kept(dict[Any, Any]):
    """The `state` of weft's own optimizer: by parameter, empty where libweft steps."""

    def __missing__(self, key: Any) -> dict[str, Any]:
        return {}

    def clear(self) -> None:
        raise kept("state.clear()")


class Own(torch.optim.Optimizer):
    """Steps along ``p.grad``, where it is None along zero. `follow` comes before the first step."""

    def __init__(self, groups: Any, config: Config, clip: float):
        def of(key: str) -> Any:
            return config.number(f"optimizer.{key}")
        super().__init__(groups, {"lr": of("lr"), "weight_decay": of("weight_decay")})
        self.state = Kept()
        self._clip, self._eps, self._accumulate = clip, of("eps"), of("accumulate")
        self._nesterov, self._adjust, self._polar = of("nesterov"), of("adjust"), of("polynomial") == "polar_express"
        # as float32, by which libweft computes
        self._beta1, self._beta2, self._momentum = (c.c_float(of(k)).value for k in ("beta1", "beta2", "momentum"))
        self._bf16 = config.number("model.precision") == "bf16"
        self._fused: dict[torch.Tensor, tuple[torch.Tensor, int]] = {}

    def follow(self, rules: Sequence[tuple[str, bool]], replicas: int, done: Callable[[], int]) -> None:
        """`rules`: of each parameter which optimizer steps it, and whether as a matrix; `done`: how many
        steps are done. Later again: of the `replicas` that are left."""
        params = [p for group in self.param_groups for p in group["params"]]
        self._rules, self._done = dict(zip(params, rules)), done
        self._period = self._accumulate or max(1, replicas // 2)
        with torch.no_grad():
            for p, (kind, _) in self._rules.items():
                own = local(p)
                state = self.state.setdefault(p, {})
                for name in STATES[kind]:
                    state.setdefault(name, torch.zeros(own.shape, dtype=torch.float32, device=own.device))
                if own.dtype != torch.float32:
                    state.setdefault("master", own.float())

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        count = self._done() + 1
        grads = {p: torch.zeros_like(self._state(p, "master", p)) if p.grad is None else dense(p).float()
                 for group in self.param_groups for p in group["params"] if p.requires_grad}
        scale = bound(grads, self._clip)
        if scale is not None:
            grads = {p: g * scale.to(g.device) for p, g in grads.items()}
        for group in self.param_groups:
            alike: dict[tuple[str, bool], list[torch.Tensor]] = {}
            for p in group["params"]:
                if p in grads:
                    alike.setdefault(self._rules[p], []).append(p)
            for (kind, whole), params in alike.items():
                at = [self.taken_in(p) for p in params]
                KINDS[kind if kind != "muon" or whole else "adamw"](
                    self, params, at, [grads[p] for p in params], float(group["lr"]), float(group["weight_decay"]), count)
                for p, master in zip(params, at):
                    if "master" in self.state[p]:
                        local(p).copy_(master)

    def _state(self, p: torch.Tensor, name: str, otherwise: Any = None) -> torch.Tensor:
        return local(self.state[p].get(name, otherwise))

    def taken_in(self, p: torch.Tensor) -> torch.Tensor:
        """What is stepped: the parameter, or its master with what the program has written since."""
        return written(local(p), self._state(p, "master")) if "master" in self.state[p] else local(p)

    # --- lib/optim/*.c ---

    def _sgd(self, _params: Any, at: list[torch.Tensor], grads: list[torch.Tensor], lr: float, decay: float,
             _count: int) -> None:
        torch._foreach_mul_(at, 1 - lr * decay)
        torch._foreach_add_(at, grads, alpha=-lr)

    def _moments(self, params: Any, at: list[torch.Tensor], grads: list[torch.Tensor], lr: float, decay: float,
                 count: int, call: Callable[..., None]) -> None:
        fused = all(x.device.type == "cuda" for x in at)
        steps = [self._counter(p, x, count - 1) if fused else torch.tensor(float(count - 1))
                 for p, x in zip(params, at)]
        call(at, grads, [self._state(p, "m") for p in params], [self._state(p, "v") for p in params], [], steps,
             amsgrad=False, beta1=self._beta1, beta2=self._beta2, lr=lr, weight_decay=decay, eps=self._eps,
             maximize=False, **({"fused": True} if fused else {}))

    def _counter(self, p: torch.Tensor, at: torch.Tensor, count: int) -> torch.Tensor:
        """[] on the device, which a fused step counts up."""
        made, counted = self._fused.get(p, (None, -1))
        if made is None or counted != count:
            made = torch.full((), float(count), device=at.device)
        self._fused[p] = made, count + 1
        return made

    def _accum(self, params: Any, at: list[torch.Tensor], grads: list[torch.Tensor], lr: float, decay: float,
               count: int, coupled: bool) -> None:
        K, b1, b2 = self._period, self._beta1, self._beta2
        k = (count - 1) // K + 1
        for p, x, d in zip(params, at, grads):
            m, v, a = (self._state(p, name) for name in "mva")
            d = d.add(x, alpha=decay) if coupled else d
            a.mul_((count - 1) % K != 0).add_(d, alpha=1 / K)
            root = (v + (1 - b2) * d.square()).div_(1 - b2 ** k).sqrt_().add_(self._eps)
            if not coupled:
                x.mul_(1 - lr * decay)
            x.addcdiv_((m + (1 - b1) * d).div_(1 - b1 ** k), root, value=-lr)
            if count % K == 0:
                m.add_(a, alpha=1 - b1).mul_(b1)
                v.addcmul_(a, a, value=1 - b2).mul_(b2)

    def _muon(self, params: Any, at: list[torch.Tensor], grads: list[torch.Tensor], lr: float, decay: float,
              _count: int) -> None:
        m, b = [self._state(p, "m") for p in params], self._momentum
        torch._foreach_mul_(m, b)
        torch._foreach_add_(m, grads, alpha=1 - b)
        u = torch._foreach_mul(m, b) if self._nesterov else m
        if self._nesterov:
            torch._foreach_add_(u, grads, alpha=1 - b)
        if decay:
            torch._foreach_mul_(at, 1 - lr * decay)
        shapes: dict[Any, list[int]] = {}
        for i, x in enumerate(at):
            shapes.setdefault((x.device, x.shape[0], x.numel() // x.shape[0]), []).append(i)
        for (_, rows, cols), those in shapes.items():  # equal shapes together: one product for all
            with plainly(at[those[0]].device):
                turned = orthogonal(torch.stack([u[i].reshape(rows, cols) for i in those]), self._polar, self._bf16)
            size = {"match_rms_adamw": 0.2 * max(rows, cols) ** 0.5, "original": max(1.0, rows / cols) ** 0.5,
                    "spectral": (rows / cols) ** 0.5}[self._adjust]
            for i, one in zip(those, turned):
                at[i].add_(one.view(at[i].shape), alpha=-lr * size)

    # --- saved ---

    def load_state_dict(self, packed: dict[str, Any]) -> None:
        """From a process that steps so, too: moments stay float32 beside parameters that are not."""
        params = [p for group in self.param_groups for p in group["params"]]
        for p, part in zip(params, (packed["state"][i] for i in sorted(packed["state"])), strict=True):
            for name, values in part.items():
                self._state(p, name).copy_(local(values))
        for group, theirs in zip(self.param_groups, packed["param_groups"], strict=True):
            group.update({k: v for k, v in theirs.items() if k != "params"})


KINDS: dict[str, Callable[..., None]] = {
    "sgd": Own._sgd, "muon": Own._muon,
    "adam": functools.partial(Own._moments, call=adam), "adamw": functools.partial(Own._moments, call=adamw),
    "accum_adam": functools.partial(Own._accum, coupled=True), "accum_adamw": functools.partial(Own._accum, coupled=False)}

__all__ = ["Own", "bound", "orthogonal", "plainly", "serves"]
