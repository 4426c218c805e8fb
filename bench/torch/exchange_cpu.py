# SPDX-License-Identifier: MIT
"""CPU of a step without computing: every parameter of the GPT of bench/torch/peers (10.8 million) is
given a gradient, and what is left of a step is the exchange and the optimizer. Processor time, user
and system, of rank 0 with all its threads, so it may be taken on a busy machine; methods in turns.

    OMP_NUM_THREADS=1 PYTHONPATH=python python bench/torch/exchange_cpu.py RANKS ROUNDS [METHOD ...]

"nothing" is torch's backward alone, which gives the gradients and is part of all others; "AdamW",
"fused AdamW" and "Muon" are torch's without exchange, "flat" the second behind one all-reduce by
gloo. Any method of weft's is "weft NAME KEY=VALUE ...". Ranks are processes of this machine, each
a node of its own, over TCP without a rate; between machines encryption is added. TENSORS=N takes N
tensors of 1,000 numbers in place of the model, TENSORS=resnet ResNet-50's. detonation: from PyPI."""

import contextlib
import os
import resource
import socket
import statistics
import subprocess
import sys
import types

import torch

WARM, STEPS, WIDTH, LAYERS, RATE = 3, 6, 384, 6, 3e-4
BLOCK = [(WIDTH,)] * 4 + [(3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,),
                          (4 * WIDTH, WIDTH), (4 * WIDTH,), (WIDTH, 4 * WIDTH), (WIDTH,)]
GPT = [(256, WIDTH), (128, WIDTH), *BLOCK * LAYERS, (WIDTH,), (WIDTH,), (256, WIDTH)]


def resnet():
    def conv(out, into, size):
        return [(out, into, size, size), (out,), (out,)]
    shapes, into = conv(64, 3, 7), 64
    for width, blocks in (64, 3), (128, 4), (256, 6), (512, 3):
        for block in range(blocks):
            shapes += conv(width, into, 1) + conv(width, width, 3) + conv(4 * width, width, 1)
            shapes += conv(4 * width, into, 1) if block == 0 else []
            into = 4 * width
    return shapes + [(1000, 2048), (1000,)]


TENSORS = os.environ.get("TENSORS", "")
SHAPES = resnet() if TENSORS == "resnet" else [(1000,)] * int(TENSORS) if TENSORS else GPT


def nothing(params):
    return types.SimpleNamespace(step=lambda: None)


def adamw(params):
    return torch.optim.AdamW(params, lr=RATE)


def fused(params):
    return torch.optim.AdamW(params, lr=RATE, fused=True)


def muon(params):
    hidden = [p for p in params if p.dim() == 2 and p.shape not in (SHAPES[0], SHAPES[1])]
    parts = [torch.optim.Muon(hidden, lr=RATE),
             fused([p for p in params if all(p is not q for q in hidden)])]
    return types.SimpleNamespace(step=lambda: [part.step() for part in parts])


def flat(params):
    import torch.distributed as dist
    dist.init_process_group("gloo")
    inner, room = fused(params), torch.empty(sum(p.numel() for p in params))
    places = [part.view_as(p) for part, p in zip(room.split([p.numel() for p in params]), params)]

    def step():
        torch._foreach_copy_(places, [p.grad for p in params])
        dist.all_reduce(room)
        room.div_(dist.get_world_size())
        for p, place in zip(params, places):
            p.grad = place
        inner.step()
    return types.SimpleNamespace(step=step)


def weft(params, method, *keys):
    import weft_sync.torch
    return weft_sync.torch.Optimizer(params, method=method, between="ranks", lr=RATE,
                                     optimizer_clip=0, **dict(key.split("=") for key in keys))


def detonation(params, kind):
    import torch.distributed as dist
    dist.init_process_group("gloo")
    timing = types.ModuleType("mltiming")  # it imports this, and its wheel does not ask for it
    timing.timing = lambda *_a, **_k: contextlib.nullcontext()
    sys.modules.setdefault("mltiming", timing)
    from detonation import DeMoReplicator, RandomReplicator
    from detonation.optim import DeToSGD
    single = [dist.new_group([r]) for r in range(dist.get_world_size())][dist.get_rank()]
    replicator = DeMoReplicator(0.999, 32, 64) if kind == "demo" else \
        RandomReplicator(0.999, 1 / 16)
    return DeToSGD(params, lr=RATE, sharding_parallel_group=single,
                   replication_parallel_group=dist.group.WORLD, replicator=replicator)


METHODS = {"nothing": nothing, "AdamW": adamw, "fused AdamW": fused, "Muon": muon, "flat": flat,
           "weft flexdemo": None, "weft flexdemo replicator_values=int8": None, "weft random": None,
           "detonation random": lambda p: detonation(p, "random"),
           "detonation demo": lambda p: detonation(p, "demo")}


def rank(method):
    """Milliseconds of a step, user and system."""
    torch.set_num_threads(1)
    number, draw = int(os.environ["RANK"]), torch.Generator()
    params = [torch.nn.Parameter(0.02 * torch.randn(shape, generator=draw)) for shape in SHAPES]
    draw.manual_seed(1 + number)
    grads = [torch.randn(shape, generator=draw) for shape in SHAPES]
    name, *words = method.split()
    optimizer, before = weft(params, *words) if name == "weft" else METHODS[method](params), None
    for t in range(WARM + STEPS):
        if t == WARM:
            before = resource.getrusage(resource.RUSAGE_SELF)
        torch.autograd.backward(params, grads)
        optimizer.step()
        for p in params:
            p.grad = None
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = [1e3 * (getattr(after, name) - getattr(before, name)) / STEPS
             for name in ("ru_utime", "ru_stime")]
    if number == 0:
        print(*spent, flush=True)


def measure(size, method):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(port)}
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", method],
                              env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, text=True)
             for r in range(size)]
    said = [process.communicate()[0] for process in ranks]
    if any(process.returncode for process in ranks):
        sys.exit(f"{method}: a rank failed")
    return [float(word) for word in said[0].splitlines()[-1].split()]  # detonation prints, too


def main(size, rounds, methods):
    found = {method: [] for method in methods}
    for _ in range(rounds):
        for method in methods:
            found[method].append(measure(size, method))
    print(f"{'ranks: ' + str(size):40s} {'user ms':>8s} {'system ms':>10s}   both: median (range)")
    for method, times in found.items():
        user, system = (statistics.median(column) for column in zip(*times))
        both = sorted(map(sum, times))
        print(f"{method:40s} {user:8.1f} {system:10.1f}   {statistics.median(both):.1f} "
              f"({both[0]:.1f} to {both[-1]:.1f})")


if sys.argv[1] == "rank":
    rank(sys.argv[2])
else:
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(METHODS))
