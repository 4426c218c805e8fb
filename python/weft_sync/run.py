# SPDX-License-Identifier: MIT
"""Starts a training script on each machine, as torchrun does, but with a code in place of addresses and keys:

    node1$ python -m weft_sync.run train.py --lr 1e-3                  prints the line for other machines
    node2$ python -m weft_sync.run --join 42-ABCD-EFGH train.py --lr 1e-3

The first machine begins alone, and the others come into the running loop (docs/pytorch.md, Coming back: the script carries
its schedule). Each machine starts a process per accelerator, with the variables of torchrun; the options
come before the script, all that follows it is the script's own."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from ._invite import Invitation, join, up
from ._library import Error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m weft_sync.run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--join", metavar="CODE", help="join the run that printed this code")
    parser.add_argument("--at", metavar="HOST[:PORT]", help="with --join: where that run is (else it is looked for on "
                        "this network)")
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="with --join: how long to look for it (10)")
    parser.add_argument("--nproc-per-node", type=int, metavar="N", help="processes on this machine (one per "
                        "accelerator, or 1)")
    parser.add_argument("--max-restarts", type=int, default=0, metavar="N", help="with --join: how often this "
                        "machine joins again after its script failed or was killed (0)")
    parser.add_argument("--listen", type=int, metavar="PORT", help="port of the run (the first free one from 29500 on)")
    parser.add_argument("--invite-port", type=int, metavar="PORT", help="port at which the code is asked for (the "
                        "first free one from 29520 on)")
    parser.add_argument("--key", metavar="FILE", help="the run's key (WEFT_KEY_FILE, or runs/weft.key, which is made)")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    return parser


def _read(words: list[str]) -> argparse.Namespace:
    """The words of the command line; an option that would not count is refused."""
    parser = _parser()
    a = parser.parse_args(words)
    for given, name in ((a.at, "--at"), (a.wait, "--wait"), (a.max_restarts, "--max-restarts")):
        if given and not a.join:
            parser.error(f"{name} is for a machine that joins; expected --join CODE, too")
    for given, name in ((a.listen, "--listen"), (a.invite_port, "--invite-port"), (a.key, "--key")):
        if given is not None and a.join:
            parser.error(f"{name} is for the machine that begins the run; with --join this comes from the run")
    for port, name in ((a.listen, "--listen"), (a.invite_port, "--invite-port")):
        if port is not None and not 1 <= port <= 65535:
            parser.error(f"{name} is {port}, expected 1 to 65535")
    if a.nproc_per_node is not None and a.nproc_per_node < 1:
        parser.error(f"--nproc-per-node is {a.nproc_per_node}, expected at least 1")
    if a.max_restarts < 0:
        parser.error(f"--max-restarts is {a.max_restarts}, expected 0 or more")
    if a.wait is not None and a.wait <= 0:
        parser.error(f"--wait is {a.wait:g}, expected more than 0")
    if not os.path.isfile(a.script):
        parser.error(f"there is no script {a.script}")
    for name in ("RANK", "WORLD_SIZE", "WEFT_JOIN", "WEFT_NODES", "WEFT_PORT"):
        if name in os.environ:
            parser.error(f"{name} is set already, which this sets: start it without torchrun, srun and the like")
    return a


def _accelerators() -> int:
    try:
        import torch
    except ImportError:
        return 0  # the script says what it lacks
    if hasattr(torch, "accelerator"):
        return int(torch.accelerator.device_count())
    return torch.cuda.device_count()


def _environments(n: int, invitation: Invitation | None) -> list[dict[str, str]]:
    """What each process reads beside WEFT_JOIN or WEFT_PORT, and WEFT_KEY_FILE."""
    if n == 1:
        return [{}]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    own = {"WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
           "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    if invitation:
        own.update(WEFT_NODES="1", WEFT_NODE="0", WEFT_MASTER=f"{invitation.host}:{invitation.run_port}")
    return [{**own, "RANK": str(r), "LOCAL_RANK": str(r)} for r in range(n)]


class _Stopped(BaseException):
    def __init__(self, number: int):
        self.number = number


def _stop(number: int, _frame: FrameType | None) -> None:
    raise _Stopped(number)


def _end(processes: list[subprocess.Popen[bytes]], number: int = signal.SIGTERM) -> None:
    """Ends those that live; who does not end within 10 s is killed."""
    for p in processes:
        if p.poll() is None:
            p.send_signal(number)
    until = time.monotonic() + 10
    for p in processes:
        try:
            p.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


def _attempt(words: list[str], environments: list[dict[str, str]]) -> int:
    """Runs the script in all processes; the code of the first that failed, whose machine's others are ended."""
    processes = [subprocess.Popen(words, env={**os.environ, **more}) for more in environments]
    try:
        while None in (codes := [p.poll() for p in processes]) and not any(codes):
            time.sleep(0.1)
    except _Stopped as stopped:
        _end(processes, stopped.number)
        raise
    failed = [p.returncode for p in processes if p.returncode]
    _end(processes)
    return failed[0] if failed else 0


def _say_code(invitation: Invitation, a: argparse.Namespace) -> None:
    script = " ".join([os.path.basename(a.script), "..."])
    print(f"weft_sync: on another machine of this network:  python -m weft_sync.run --join {invitation.code} {script}\n"
          f"weft_sync: from another network:  python -m weft_sync.run --join {invitation.code} "
          f"--at {invitation.host}:{invitation.port} {script}", file=sys.stderr, flush=True)


def main(words: list[str]) -> int:
    logging.basicConfig(format="weft_sync: %(message)s")
    a = _read(words)
    command, invitation = [sys.executable, a.script, *a.args], None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        if a.join:
            join(a.join, a.at, patience=a.wait or 10.0)
        n = a.nproc_per_node or max(_accelerators(), 1)
        if not a.join:
            invitation = up(a.listen or 0, invite_port=a.invite_port or 0, key=a.key, processes=n)
            _say_code(invitation, a)
        for again in range(a.max_restarts + 1):
            code = _attempt(command, _environments(n, invitation))
            if code == 0 or again == a.max_restarts:
                break
            wait = min(2 ** again, 60)
            print(f"weft_sync: {a.script} ended with {code}; joining again in {wait} s ({again + 1} of "
                  f"{a.max_restarts})", file=sys.stderr, flush=True)
            time.sleep(wait)
        return code if code >= 0 else 128 - code
    except Error as error:
        print(f"weft_sync: {error}", file=sys.stderr)
        return 1
    except _Stopped as stopped:
        return 128 + stopped.number
    finally:
        if invitation:
            invitation.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
