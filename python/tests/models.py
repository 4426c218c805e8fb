# SPDX-License-Identifier: MIT
"""Small models and batches that every rank can make for itself, where WEFT_TEST_DEVICE says."""

import os

import torch
import torch.distributed as dist

DEVICE = os.environ.get("WEFT_TEST_DEVICE", "cpu")


def net(seed: int = 0) -> torch.nn.Module:
    """Matrices, vectors, a convolution and a tied pair."""
    torch.manual_seed(seed)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(32, 48)
            self.conv = torch.nn.Conv1d(48, 48, 3, padding=1)
            self.norm = torch.nn.LayerNorm(48)
            self.body = torch.nn.Linear(48, 48)
            self.head = torch.nn.Linear(48, 32, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            x = self.embed(tokens)
            x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
            return self.head(torch.tanh(self.body(self.norm(x))))

    made = Net().to(DEVICE)
    made.head.weight = made.embed.weight  # .to may have parted them
    return made


def _there(kind: str):
    def made(*args, copies=None, **named):
        """weft's as where parameters lie on a device, of those on the host; `copies`: what copies."""
        import weft_sync.torch as weft
        from weft_sync import _places, _world
        before = _world.far, _places.copies_for
        _world.far = lambda tensor: True
        _places.copies_for = before[1] if copies is None else lambda device: copies
        try:
            return getattr(weft, kind)(*args, **named)
        finally:
            _world.far, _places.copies_for = before
    return made


OptimizerThere, MixThere = _there("Optimizer"), _there("Mix")


def batch(rank: int, step: int, rows: int = 4):
    g = torch.Generator().manual_seed(1000 * step + rank)
    tokens = torch.randint(0, 32, (rows, 12), generator=g)
    return tokens.to(DEVICE), ((tokens * 5 + 3) % 32).to(DEVICE)


def loss_of(model, rank: int, step: int, rows: int = 4):
    tokens, wanted = batch(rank, step, rows)
    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())


def flat(model) -> torch.Tensor:
    """On the host."""
    return torch.cat([p.detach().cpu().reshape(-1) for p in model.parameters()])


def start_gloo() -> int:
    dist.init_process_group("gloo")
    return dist.get_rank()
