# SPDX-License-Identifier: MIT
"""Runs a function of a test file in several processes, with the environment that torchrun
gives them. They are forks of the test's process, which has imported torch already: that takes
longer than a test."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import socket
import sys
import traceback

fork = multiprocessing.get_context("fork")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def forget_meshes():
    """A process that comes into a run has made no mesh before: what other tests did in the process
    that this one is a fork of does not count."""
    world = sys.modules.get("weft_sync._world")
    if world is not None:
        world.meshes, world._default = itertools.count(), None


class Failed(AssertionError):
    pass


class Rank:
    """One process; `finish` returns what its function returned."""

    def __init__(self, function, rank, env, args, kwargs):
        self.rank = rank
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=self._main,
                                    args=(theirs, function, env, args, kwargs))
        self.process.start()
        theirs.close()

    def _main(self, pipe, function, env, args, kwargs):
        os.environ.update(env)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background of a shell
        if "torch" in sys.modules:  # torch makes a forked child's thread pool anew, once:
            sys.modules["torch"].set_num_threads(1)  # before autograd's threads want it
        forget_meshes()
        try:
            answer = (True, function(*args, **kwargs))
        except BaseException as error:  # the test's process says what it was
            sys.excepthook(type(error), error, error.__traceback__)
            answer = (False, traceback.format_exc())
        import pickle
        pipe.send_bytes(pickle.dumps(answer))
        pipe.close()
        sys.stdout.flush()
        import atexit
        atexit._run_exitfuncs()
        os._exit(0)

    def finish(self, timeout):
        import pickle
        answer = (False, "no answer: the process died or hangs")
        try:
            if self.pipe.poll(timeout):
                answer = pickle.loads(self.pipe.recv_bytes())
        except EOFError:
            pass
        self.process.join(20)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            answer = (False, f"{answer[1]}\nand it did not end")
        return answer


def start(function, size: int, *args, **kwargs):
    port = free_port()
    return [Rank(function, rank,
                 {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}, args, kwargs)
            for rank in range(size)]


def answers(ranks, timeout: float = 120.0):
    """(whether it returned, what it returned or said) of each rank."""
    return [rank.finish(timeout) for rank in ranks]


def run(function, size: int, *args, **kwargs):
    found = answers(start(function, size, *args, **kwargs))
    if not all(fine for fine, _ in found):
        raise Failed("\n".join(f"--- rank {r}\n{text}"
                               for r, (fine, text) in enumerate(found) if not fine))
    return [result for _, result in found]
