# SPDX-License-Identifier: MIT
"""Handwritten digits (8 x 8, they come with scikit-learn), by a ResNet or a vision transformer,
small ones of this file or torchvision's, with weft between the processes:

    pip install scikit-learn
    torchrun --nproc-per-node 2 digits.py --model resnet --method flexdemo
    torchrun --nproc-per-node 2 digits.py --model vit --method diloco --key mixer.outer_every=20
    pip install torchvision
    torchrun --nproc-per-node 2 digits.py --model resnet50 --steps 30 --batch 8
    torchrun --nproc-per-node 2 digits.py --model vision_transformer --method hsdp

Each process sees its own half of the digits. Running means of batch normalization are no
parameters: each process has its own. ResNet-50 is here for its size: what 30 steps send and hide
is that of any model so large, but they teach it nothing.
"""

import argparse
import os
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import weft_sync.torch as weft

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet",
                    choices=("resnet", "vit", "resnet50", "vision_transformer"))
parser.add_argument("--method", default="flexdemo")
parser.add_argument("--key", action="append", default=[], help="section.key=value of weft")
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--batch", type=int, default=32, help="digits of each process")
parser.add_argument("--lr", type=float, default=None, help="default: the method's own")
args = parser.parse_args()

rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(into, out, 1, stride, bias=False) if into != out else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.second(F.relu(self.norm1(self.first(x)))))
        return F.relu(y + self.short(x))


class ViT(nn.Module):
    """Sixteen patches of 2 x 2, and their mean."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, width, 2, 2)
        self.place = nn.Parameter(0.02 * torch.randn(1, 16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2) + self.place
        return self.head(self.layers(x).mean(1))


def resnet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1), Residual(16, 16, 1), Residual(16, 32, 2),
                         Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 10))


class Enlarged(nn.Module):
    """A model of torchvision, which wants three colours, and more places than a digit has."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(F.interpolate(x, scale_factor=4.0).expand(-1, 3, -1, -1))


def torchvisions(name: str) -> nn.Module:
    from torchvision import models
    if name == "resnet50":
        return Enlarged(models.resnet50(weights=None, num_classes=10))
    return Enlarged(models.VisionTransformer(image_size=32, patch_size=8, num_layers=3,
                                             num_heads=4, hidden_dim=64, mlp_dim=256,
                                             num_classes=10))


digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
y = torch.tensor(digits.target)
order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
test, train = order[:360], order[360:][rank::size]

torch.manual_seed(1)
own = {"resnet": resnet, "vit": ViT}
model = own[args.model]() if args.model in own else torchvisions(args.model)
# --- the lines that are weft's ---
optimizer = weft.Optimizer(model, method=args.method, lr=args.lr,
                           keys=dict(k.split("=", 1) for k in args.key))
# ---

draw = torch.Generator().manual_seed(100 + rank)
sent, waited, exchanged, begun = 0, 0.0, 0.0, time.monotonic()
for step in range(1, args.steps + 1):
    rows = train[torch.randint(len(train), (args.batch,), generator=draw)]
    loss = F.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    report = optimizer.step(loss)
    optimizer.zero_grad()
    sent += report.wire_bytes + report.local_bytes
    waited, exchanged = waited + report.wait_s, exchanged + report.exchange_s
    if rank == 0 and step % 40 == 0 and report.loss is not None:
        print(f"step {step}: loss {report.loss:.3f}, "
              f"{1e3 * (time.monotonic() - begun) / step:.0f} ms a step", flush=True)

with optimizer.averaged(), torch.no_grad():
    model.eval()
    out = model(x[test])
    loss, right = F.cross_entropy(out, y[test]), (out.argmax(1) == y[test]).float().mean()
if rank == 0:
    hidden = 1 - waited / exchanged if exchanged > 0 else 1.0
    print(f"{args.model}, {size} processes, {args.method}: {sent / args.steps / 1e3:.1f} kB a step "
          f"sent by each, {100 * max(hidden, 0):.0f} % of the exchange hidden, loss {loss:.3f} and "
          f"{100 * right:.0f} % right on digits that were held out")
