# SPDX-License-Identifier: MIT
"""One rank of bench/torch/peers: trains a GPT on the letters of a text, with one package and
method, and prints a JSON object of what a step took.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... python peers_rank.py METHOD TEXT WARM TIMED LEARN

WARM steps are not counted, TIMED ones are; then LEARN more, after which the loss on held-out
text is that of the mean of all copies. BF16=1: forward under autocast to bfloat16. DEVICE=cuda: all
ranks on one accelerator. SHAPE: layers, width, heads, length; ROWS: of each rank. Other people's
packages come from PyPI."""

import contextlib
import json
import os
import pathlib
import resource
import socket
import statistics
import sys
import time
import types

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

METHOD, TEXT = sys.argv[1], pathlib.Path(sys.argv[2])
WARM, TIMED, LEARN = (int(a) for a in sys.argv[3:6])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAYERS, WIDTH, HEADS, LENGTH = (int(n) for n in
                                os.environ.get("SHAPE", "6,384,6,128").split(","))
BF16 = os.environ.get("BF16") == "1"
ROWS = int(os.environ.get("ROWS", "4"))  # 512 tokens of each rank
DEVICE, NETWORK = os.environ.get("DEVICE", "cpu"), os.environ.get("NETWORK", "eth0")
FUSED = dict(fused=True) if DEVICE != "cpu" else {}
ADAMW = dict(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
SIGNS = float(os.environ.get("SIGNS_LR", "3e-4"))  # of a step along signs, any package's


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, HEADS, C // HEADS).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Nothing is tied: decent-dp wants each parameter used once."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


# --- how each package takes a model: (what is called, what steps after backward) ---


def adamw(model):
    return torch.optim.AdamW(model.parameters(), **ADAMW, **FUSED)


def alone(model):
    return model, adamw(model)


def ddp(model, hook=None, **keys):
    """With the defaults of its buckets; `hook(state)` compresses."""
    called = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=hook is None, **keys)
    if hook:
        hook(called)
    return called, adamw(model)


def bf16_hook(called):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    called.register_comm_hook(None, default_hooks.bf16_compress_hook)


def powersgd_hook(called):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    called.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def fsdp2(model, copies):
    """So many copies of the model, each sharded among size / copies ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    shape, names = (copies, size // copies), ("replicate", "shard")
    mesh = init_device_mesh(DEVICE, shape, mesh_dim_names=names)
    mesh = mesh["shard"] if copies == 1 else mesh
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, adamw(model)


def detonation(model, kind):
    timing = types.ModuleType("mltiming")  # it imports this, and its wheel does not ask for it
    timing.timing = lambda *_a, **_k: contextlib.nullcontext()
    sys.modules.setdefault("mltiming", timing)
    from detonation import DeMoReplicator, RandomReplicator
    from detonation.optim import DeToSGD
    single = [dist.new_group([r]) for r in range(size)][rank]
    replicator = DeMoReplicator(0.999, 32, 64) if kind == "demo" else \
        RandomReplicator(0.999, 1 / 16)
    return model, DeToSGD(model.parameters(), lr=SIGNS, sharding_parallel_group=single,
                          replication_parallel_group=dist.group.WORLD, replicator=replicator)


class _Nothing:
    def step(self):
        pass

    zero_grad = step


def decent(model):
    from decent_dp.ddp import DecentralizedDataParallel
    import loguru
    loguru.logger.remove()
    return DecentralizedDataParallel(
        model, lambda params: torch.optim.AdamW([p for _, p in params], **ADAMW),
        topology="ring"), _Nothing()  # it steps inside backward


def weft(model, method, **keys):
    import weft_sync.torch
    rates = dict(lr=SIGNS) if method in ("flexdemo", "random") else ADAMW
    return model, weft_sync.torch.Optimizer(model, method=method, between="ranks", **rates,
                                            optimizer_clip=0, **keys)


def weft_around(model, method, **keys):
    """Around torch's AdamW: what it steps along is agreed."""
    import weft_sync.torch
    return model, weft_sync.torch.Optimizer(model, adamw(model), method=method, between="ranks", **keys)


class _Mixed:
    """A torch optimizer that weft mixes after."""

    def __init__(self, inner, mix):
        self.mix, self.step, self.zero_grad = mix, inner.step, inner.zero_grad


def weft_mix(model, method, **keys):
    import weft_sync.torch
    inner = adamw(model)
    return model, _Mixed(inner, weft_sync.torch.Mix(model, inner, method=method, between="ranks", **keys))


METHODS = {
    "alone": alone,
    "DDP gloo": ddp,
    "DDP gloo bf16 hook": lambda m: ddp(m, bf16_hook),
    "DDP gloo PowerSGD": lambda m: ddp(m, powersgd_hook),
    "weft full around AdamW": lambda m: weft_around(m, "ddp"),
    "weft full bf16 around AdamW": lambda m: weft_around(m, "ddp", replicator_values="bf16"),
    "weft dadam around AdamW": lambda m: weft_mix(m, "dadam", mixer_topology="ring"),
    "weft choco int8": lambda m: weft_mix(m, "dadam", mixer_kind="choco", mixer_topology="ring",
                                          mixer_values="int8", mesh_on_loss="end"),
    "weft diloco around AdamW": lambda m: weft_mix(m, "diloco", mixer_outer_every=10),
    "weft diloco int8": lambda m: weft_mix(m, "diloco", mixer_outer_every=10, mixer_values="int8", mesh_on_loss="end"),
    "FSDP2": lambda m: fsdp2(m, 1),
    "FSDP2 HSDP": lambda m: fsdp2(m, size),
    "detonation demo": lambda m: detonation(m, "demo"),
    "detonation random": lambda m: detonation(m, "random"),
    "decent-dp ring": decent,
    "weft hsdp": lambda m: weft(m, "hsdp"),
    "weft flexdemo": lambda m: weft(m, "flexdemo"),
    "weft flexdemo int8": lambda m: weft(m, "flexdemo", replicator_values="int8"),
    "weft random": lambda m: weft(m, "random", replicator_compression_rate=1 / 16),
    "weft dadam": lambda m: weft(m, "dadam", mixer_topology="ring"),
    "weft muloco int4": lambda m: weft(m, "muloco", mixer_outer_every=10, mixer_values="int4", model_precision="bf16"),
    "weft diloco": lambda m: weft(m, "diloco", mixer_outer_every=10),
}


def sent() -> int:
    """Bytes that this machine's interface has sent."""
    for line in open("/proc/net/dev"):
        if line.split()[0] == NETWORK + ":":
            return int(line.split()[9])
    return 0


def meet() -> None:
    """All ranks are here: without a message of the package that is measured."""
    store = dist.distributed_c10d._get_default_store()
    name = f"meet/{next(_meetings)}"
    store.add(name, 1)
    while store.add(name, 0) < size:
        time.sleep(0.002)


_meetings = iter(range(1000))


def main():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = GPT().to(DEVICE)
    called, optimizer = METHODS[METHOD](model)
    data = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    held_out, data = data[-50_000:], data[:-50_000]
    draw = torch.Generator().manual_seed(100 + rank)

    def rows(text, n):
        at = torch.randint(len(text) - LENGTH - 1, (n,), generator=draw)
        windows = torch.stack([text[i:i + LENGTH + 1] for i in at])
        windows = windows.to(DEVICE)
        return windows[:, :-1], windows[:, 1:]

    def step():
        begun = time.monotonic()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=BF16):
            loss = called(*rows(data, ROWS))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if DEVICE != "cpu":
            torch.accelerator.synchronize()
        return time.monotonic() - begun

    for _ in range(WARM):
        step()
    meet()
    wire, cpu, wall = sent(), time.process_time(), time.monotonic()
    steps = [step() for _ in range(TIMED)]
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    meet()  # all of it is sent
    wire = sent() - wire
    found = dict(rank=rank, host=socket.gethostname(), steps=TIMED, step_s=wall / TIMED,
                 median_s=statistics.median(steps), cpu_s=cpu / TIMED, wire=wire / TIMED,
                 peak_kb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    if LEARN:
        for _ in range(LEARN):
            step()
        with torch.no_grad():
            for p in model.parameters() if not METHOD.startswith("FSDP2") else ():
                dist.all_reduce(p.data)
                p.data /= size
            draw.manual_seed(0)
            found["loss"] = float(sum(model(*rows(held_out, 16)) for _ in range(8)) / 8)
            found["learned"] = WARM + TIMED + LEARN
    print(json.dumps(found), flush=True)
    meet()
    os._exit(0)  # some packages do not end by themselves


main()
