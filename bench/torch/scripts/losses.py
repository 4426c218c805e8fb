# SPDX-License-Identifier: MIT
"""A program under `run` says the loss of each step of its process here."""

import os


def note(loss):
    with open(os.path.join(os.environ["LOSSES"], str(os.getpid())), "a") as f:
        f.write(f"{getattr(loss, 'item', lambda: loss)()!r}\n")
    return loss
