# SPDX-License-Identifier: MIT
"""Who makes an average alone is told so, and hears Ctrl-C."""

import logging
import os
import signal
import time

import pytest
from models import net
from ranks import fork, run

import weft_sync.torch as weft
from weft_sync import _sync


def alone(told):
    _sync.SAY_AFTER_S = 0.5
    optimizer = weft.Optimizer(net(), method="diloco")
    if os.environ["RANK"] == "1":
        return told.wait(60)

    def hear(record):
        said.append(record.getMessage())
        told.set()
        os.kill(os.getpid(), signal.SIGINT)
        return True

    said = []
    logging.getLogger("weft_sync").addFilter(hear)
    with pytest.raises(KeyboardInterrupt):
        with optimizer.averaged():
            pass
    return said[0]


def test_who_averages_alone_is_told():
    first, second = run(alone, 2, fork.Event())
    assert "all processes make it at the same step" in first and second


def together():
    _sync.SAY_AFTER_S = 0.1
    optimizer, said = weft.Optimizer(net(), method="diloco"), []
    logging.getLogger("weft_sync").addFilter(lambda r: said.append(r.getMessage()) or True)
    optimizer._sync._wait = lambda name: None
    optimizer.average()
    time.sleep(0.5)
    return said


def test_an_average_that_ends_says_nothing():
    assert run(together, 1) == [[]]
