# SPDX-License-Identifier: MIT
"""A machine of bench/unequal in PyTorch: a small model of bytes, whose machine takes PACE seconds for a row, from
step CHANGE on LATER: a third in forward, the rest in backward, as its layers are computed. Its rows follow the agreed
shares, or are equal. The first writes what was measured; --log FILE: each writes where its steps' time goes, too."""
import itertools
import json
import os
import pathlib
import sys
import time

import torch

import weft_sync.torch as weft

text, method, folder, steps, rows, shares = sys.argv[1:7]
steps, rows, length = int(steps), int(rows), 64
pace, later, change = (float(os.environ[name]) for name in ("PACE", "LATER", "CHANGE"))

torch.manual_seed(0)
torch.set_num_threads(1)
read = torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8).long()
read = read[: len(read) // (length + 1) * (length + 1)].view(-1, length + 1)


class Pace(torch.autograd.Function):
    """Sleeps until so much of the step's computing is due, in forward and in backward."""

    begun = row_s = 0.0

    @staticmethod
    def until(share):
        time.sleep(max(0.0, Pace.begun + share * Pace.row_s - time.monotonic()))

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.backward = backward
        Pace.until(forward)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        Pace.until(ctx.backward)
        return grad, None, None


class Bytes(torch.nn.Module):
    """The next byte, from the mean of what was read so far and the last ones."""

    def __init__(self, width=64):
        super().__init__()
        self.embed = torch.nn.Embedding(256, width)
        self.near = torch.nn.Conv1d(width, 2 * width, 6, padding=5)
        self.head = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(2 * width, 256))

    def forward(self, x):
        near = self.near(Pace.apply(self.embed(x), 0.05, 1.0).transpose(1, 2))[..., : x.shape[1]]
        return Pace.apply(self.head(Pace.apply(near.transpose(1, 2), 0.2, 0.9)), 0.33, 0.55)


model = Bytes()
outer = {"mixer_outer_every": 8} if method in ("muloco", "diloco") else {}
optimizer = weft.Optimizer(model, method=method, uneven=True, run_steps=steps, **outer)
rank, size = weft.mesh().rank, weft.mesh().size
if shares == "speed":
    batches = itertools.chain.from_iterable(itertools.repeat(weft.Sampler(optimizer, read, rows=rows)))
else:
    batches = (range(s * rows + rank * rows // size, s * rows + (rank + 1) * rows // size) for s in range(steps))
pathlib.Path(folder, f"begun{rank}").touch()  # within a quota from here on
took, losses, spent, began = [], [], [], time.monotonic()
for step in range(steps):
    batch = read[[at % len(read) for at in next(batches)]]
    Pace.begun, Pace.row_s = time.monotonic(), len(batch) * (pace if step + 1 < change else later)
    loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    forward = time.monotonic()
    optimizer.weigh(loss, rows=len(batch))
    said = time.monotonic()
    Pace.begun += said - forward  # nothing is computed meanwhile
    loss.backward()
    computed = time.monotonic()
    report = optimizer.step(loss)
    optimizer.zero_grad()
    losses.append(float(report.loss))
    now = time.monotonic()
    took.append(now - began)
    spent.append({"rows": len(batch), "forward_s": forward - began, "weigh_s": said - forward,
                  "backward_s": computed - said, "step_s": now - computed})
    began = now
if len(sys.argv) > 7:
    pathlib.Path(f"{sys.argv[7]}.{rank}").write_text("".join(json.dumps(line) + "\n" for line in spent))
if rank == 0:
    with open(os.path.join(folder, "said.json"), "w") as out:
        json.dump({"step_s": took, "loss": losses}, out)
