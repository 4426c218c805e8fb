# SPDX-License-Identifier: MIT
"""What `make test-gpu` prints: a report of this machine's accelerator that one can send. For each way
of training two processes on it: how far parameters are from those on the processor after five steps,
bytes over the bus for each parameter in the last step, and the seconds of a step beside those of DDP.

    python python/tests/gpu.py [DEVICE]"""

import os
import statistics
import sys
import time

import conftest  # noqa: F401 - one thread, and where modules are
import torch
from ranks import answers, run, start
from test_late import WAYS, trained

import weft_sync.torch as weft
from weft_sync import _copies
from weft_sync._measure import _finish, usual_device

STEPS, WIDTH, LAYERS = 12, 512, 4


def model_on(device):
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers).to(device)


def steps(way, device):
    """Median seconds of a step, and bytes down and up for each parameter in the last."""
    model, crossed = model_on(device), [0, 0]
    n = sum(p.numel() for p in model.parameters())
    for i, name in enumerate(("down", "up")):
        def counted(self, tensor, plain=getattr(_copies.CudaCopies, name), i=i):
            crossed[i] += tensor.numel() * tensor.element_size()
            return plain(self, tensor)
        setattr(_copies.CudaCopies, name, counted)
    inner, opt = None, None
    if way == "DDP":
        torch.distributed.init_process_group("gloo")
        ids = None if device == "cpu" else [0]
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    else:
        kind, inside, keys = WAYS[way]
    if way == "DDP" or inside:
        inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if way != "DDP":
        opt = kind(model, *([inner] if inner else []), between="ranks", **keys)
    mixes = opt is None or isinstance(opt, weft.Mix)
    torch.manual_seed(1 + int(os.environ["RANK"]))
    x, took = torch.randn(64, WIDTH, device=device), []
    for _ in range(STEPS):
        crossed[:] = 0, 0
        _finish(torch.device(device))
        begun = time.perf_counter()
        model(x).pow(2).mean().backward()
        (inner if mixes else opt).step()
        (inner or opt).zero_grad()
        _finish(torch.device(device))
        took.append(time.perf_counter() - begun)
    return statistics.median(took[2:]), crossed[0] / n, crossed[1] / n


def far(way, device):
    """The share of numbers that differ by more than 1e-4 from those on the processor."""
    there, here = run(trained, 2, way, device), run(trained, 2, way, "cpu")
    differ = [((a - b).abs() > 1e-4).flatten() for x, y in zip(there, here) for a, b in zip(x, y)]
    return torch.cat(differ).float().mean().item()


def main(device):
    print(f"torch {torch.__version__}, {device}, two processes on one device, {LAYERS} layers of {WIDTH}")
    if device == "cuda" and os.system("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader") != 0:
        print("(no nvidia-smi)")
    print(f"{'':20}{'differ':>8}{'step ms':>9}{'down':>6}{'up':>6}")
    good = True
    for way in ["DDP", *WAYS]:
        differs = 0.0 if way == "DDP" else far(way, device)
        found = answers(start(steps, 2, way, device))
        if not all(fine for fine, _ in found):
            print(f"{way:20}{differs:8.2%}  {found[0][1].strip().splitlines()[-1]}")
            good = False
            continue
        seconds, down, up = found[0][1]
        good = good and differs < 0.01
        print(f"{way:20}{differs:8.2%}{1000 * seconds:9.1f}{down:6.2f}{up:6.2f}")
    print("all is well" if good else "NOT ALL IS WELL: please send this report")
    return not good


def lacks(device):
    """Why this machine has no such accelerator; "" if it has."""
    if device == "cpu":
        return "this machine has no accelerator that torch can use"
    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, AttributeError) as error:  # a torch without CUDA asserts
        return f"torch cannot use {device} on this machine: {str(error).splitlines()[0].split('. ')[0]}"
    return ""


if __name__ == "__main__":
    found = sys.argv[1] if len(sys.argv) > 1 else usual_device()
    if why := lacks(found):
        print(why, file=sys.stderr)
    sys.exit(2 if why else main(found))
