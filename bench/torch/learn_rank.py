# SPDX-License-Identifier: MIT
"""One process of bench/torch/learn: trains a GPT on the bytes of a text for STEPS steps, and prints a
JSON object with the loss on held-out text after some of them, of the mean of all nodes' copies; one more
after each.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... python learn_rank.py METHOD RATE STEPS NODES TEXT

Warm-up WARM steps (a tenth), then a cosine to END (0.1) of the rate. ROWS: of each node. A method that
computes what one machine computes (adamw, muon) is one process with all nodes' rows. SHAPE, BF16, DEVICE as
in peers_rank.py, SEED."""

import json
import math
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

METHOD, RATE, STEPS, NODES = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
TEXT = pathlib.Path(sys.argv[5])
os.environ.setdefault("SHAPE", "6,384,6,256")
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAYERS, WIDTH, HEADS, LENGTH = (int(n) for n in os.environ["SHAPE"].split(","))
ROWS, DEVICE = int(os.environ.get("ROWS", "16")), os.environ.get("DEVICE", "cpu")
WARM = int(os.environ.get("WARM", STEPS // 10))
END = float(os.environ.get("END", "0.1"))
SEED = int(os.environ.get("SEED", "1"))
BF16 = os.environ.get("BF16", "1") == "1"
POINTS = sorted({n for n in (200, 500, 1000, 2000, 3000, 4000, 5000, 10000, 20000) if n < STEPS} | {STEPS})
FUSED = dict(fused=True) if DEVICE != "cpu" else {}


def model_class():
    """peers_rank.py's, which is a program."""
    source = (pathlib.Path(__file__).parent / "peers_rank.py").read_text()
    begin, end = source.index("class Block"), source.index("# --- how each package")
    names = dict(nn=nn, torch=torch, F=nn.functional, LAYERS=LAYERS, WIDTH=WIDTH, HEADS=HEADS, LENGTH=LENGTH)
    exec(source[begin:end], names)
    return names["GPT"]


def adamw(params, betas=(0.9, 0.95), decay=0.1):
    return torch.optim.AdamW(params, lr=RATE, betas=betas, weight_decay=decay, **FUSED)


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for the matrices of blocks, AdamW for the rest, one rate: updates have AdamW's size."""

    def __init__(self, model, momentum=0.95, nesterov=True):
        inside = {id(p) for p in model.blocks.parameters() if p.dim() == 2}
        params = list(model.parameters())
        self.muon = torch.optim.Muon([p for p in params if id(p) in inside], lr=RATE, weight_decay=0.1, momentum=momentum,
                                     nesterov=nesterov, adjust_lr_fn="match_rms_adamw")
        self.rest = adamw([p for p in params if id(p) not in inside])
        super().__init__([{"params": params}], {"lr": RATE})

    def step(self, closure=None):
        for inner in (self.muon, self.rest):
            for group in inner.param_groups:
                group["lr"] = self.param_groups[0]["lr"]
            inner.step()

    def zero_grad(self, set_to_none=True):
        for p in self.param_groups[0]["params"]:
            p.grad = None


def made(model):
    """What steps, and whose rate is set."""
    name, *words = METHOD.split(",")
    keys = dict(w.split("=", 1) for w in words)
    if name == "adamw":
        found = adamw(model.parameters(), (0.9, float(keys.get("beta2", "0.95"))))
        return found, found
    if name == "muon":
        found = MuonAndAdamW(model)
        return found, found
    import weft_sync.torch as weft
    common = dict(between="ranks")
    kind, _, inner = name.partition("/")
    # flexdemo: along signs; flexdemo/adam, flexdemo/muon: what is agreed on is the gradient of an optimizer
    if kind in ("flexdemo", "random", "topk"):
        if inner == "":
            found = weft.Optimizer(model, method=kind, lr=RATE, weight_decay=0.1, keys=keys, **common)
            return found, found
        inside = {"adam": lambda: adamw(model.parameters()),
                  "rms": lambda: adamw(model.parameters(), (0.0, 0.95)),
                  "muon": lambda: MuonAndAdamW(model),
                  "muon0": lambda: MuonAndAdamW(model, momentum=0.0, nesterov=False),
                  "sgd": lambda: torch.optim.SGD(model.parameters(), lr=RATE, weight_decay=0.1)}[inner]()
        return weft.Optimizer(model, inside, method=kind, keys={"replicator.sign": False, **keys}, **common), inside
    found = MuonAndAdamW(model) if inner == "muon" else adamw(model.parameters())
    mix = weft.Mix(model, found, method=kind, keys={"run.steps": STEPS, **keys} if kind != "dadam" else keys, **common)
    found.weft_mix = mix
    return found, found


def main():
    torch.set_num_threads(1)
    if DEVICE == "cuda":
        torch.cuda.set_device(0)
    if size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(SEED)
    model = model_class()().to(DEVICE)
    optimizer, rated = made(model)
    data = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).to(DEVICE)
    held_out, data = data[-500_000:], data[:-500_000]
    draw = torch.Generator().manual_seed(SEED)
    mine = slice(rank * ROWS, (rank + 1) * ROWS) if size > 1 else slice(None)
    span = torch.arange(LENGTH + 1, device=DEVICE)
    held = held_out[(torch.arange(64, device=DEVICE) * (500_000 // 64))[:, None] + span].long()
    found, begun = {}, time.monotonic()

    def loss_of(windows):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=BF16):
            return model(windows[:, :-1], windows[:, 1:])

    def held_out_loss():
        """Of the mean of all copies, which go on as they were."""
        params = list(model.parameters())
        own = [p.detach().clone() for p in params] if size > 1 else []
        with torch.no_grad():
            if size > 1:
                flat = torch.cat([p.detach().reshape(-1) for p in params]).cpu()
                dist.all_reduce(flat)
                flat = (flat / size).to(DEVICE)
                for p, piece in zip(params, flat.split([p.numel() for p in params])):
                    p.copy_(piece.view_as(p))
            value = float(loss_of(held))
            for p, was in zip(params, own):
                p.copy_(was)
        return value

    group = rated.param_groups
    for step in range(1, STEPS + 1):
        at = torch.randint(len(data) - LENGTH - 1, (NODES * ROWS,), generator=draw)[mine].to(DEVICE)
        share = min(1.0, step / WARM)
        if step > WARM:
            share = END + (1 - END) * 0.5 * (1 + math.cos(math.pi * (step - WARM) / max(STEPS - WARM, 1)))
        for g in group:
            g["lr"] = RATE * share
        loss_of(data[at[:, None] + span].long()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step in POINTS:
            found[step] = round(held_out_loss(), 4)
            said = dict(method=METHOD, rate=RATE, nodes=NODES, rows=ROWS, seed=SEED, shape=os.environ["SHAPE"], steps=STEPS,
                        warm=WARM, end=END, ms=round(1e3 * (time.monotonic() - begun) / step, 1), loss=found)
            if rank == 0:
                print(json.dumps(said), flush=True)
    if size > 1:
        dist.barrier()
    os._exit(0)


main()
