# SPDX-License-Identifier: MIT
"""Machines for trials of loss: network namespaces on a switch, and processes of a run in them.

    machine i   namespace PREFIX-i, host name PREFIX-i, address 10.98.0.(i + 1), eth0
    switch      namespace PREFIX-sw with two bridges; a port can be taken down, or moved to the
                other bridge, and the machine's own interface does not notice: a cable, not a
                command on the machine

The time of an event is taken here, by one clock: when a line of a process's log or of
metrics.jsonl was first seen. metrics.jsonl is looked at every millisecond.
"""
import json
import os
import re
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

LOOK_S = 1e-3


def need(what, *more):
    """Ends with a sentence if a trial can not be made here."""
    if os.geteuid() != 0:
        sys.exit(f"{what}: needs to be root, for network namespaces")
    for tool in ("ip", "tc", "ss", "unshare", *more):
        if not shutil.which(tool):
            sys.exit(f"{what}: {tool} is missing; expected the packages iproute2, util-linux and, "
                     "for nft, nftables")


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, stdout=subprocess.DEVNULL,
                   stderr=None if check else subprocess.DEVNULL)


class Network:
    """n machines on a switch; `rate` as tc writes it, or none for as fast as memory."""

    def __init__(self, prefix, n, rate=None):
        self.prefix, self.n, self.rate = prefix, n, rate

    def name(self, i):
        return f"{self.prefix}-{i}"

    @property
    def switch(self):
        return f"{self.prefix}-sw"

    @staticmethod
    def address(i):
        return f"10.98.0.{i + 1}"

    def shape(self, name, device):
        # As in bench/netlab: a burst too large lets messages through at memory speed, one too
        # small costs rate.
        burst = "80k" if self.rate.endswith("gbit") else "4k"
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                        self.rate, "burst", burst, "latency", "50ms"], check=True)

    def plug(self, i):
        """Machine i as it is when it begins, connected."""
        name, port = self.name(i), f"p{i}"
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port,
           "netns", self.switch)
        ip("-n", name, "link", "set", "eth0", "address", f"02:00:00:00:00:{i + 1:02x}")
        ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
        ip("-n", self.switch, "link", "set", port, "master", "br0", "up")
        ip("-n", name, "link", "set", "eth0", "up")
        if self.rate:
            self.shape(name, "eth0")
            self.shape(self.switch, port)

    def __enter__(self):
        ip("netns", "add", self.switch)
        for bridge in ("br0", "br1"):
            ip("-n", self.switch, "link", "add", bridge, "type", "bridge")
            ip("-n", self.switch, "link", "set", bridge, "up")
        for i in range(self.n):
            self.plug(i)
        return self

    def __exit__(self, *_):
        for i in range(self.n):
            ip("netns", "del", self.name(i), check=False)
        ip("netns", "del", self.switch, check=False)

    def off(self, i):
        """Machine i is gone without a word, and its connections with it: its processes have ended
        behind a cable that was out. `plug` begins it anew."""
        ip("-n", self.switch, "link", "del", f"p{i}")
        ip("netns", "del", self.name(i))

    def cable(self, i, up):
        ip("-n", self.switch, "link", "set", f"p{i}", "up" if up else "down")

    def side(self, i, bridge):
        ip("-n", self.switch, "link", "set", f"p{i}", "master", f"br{bridge}")

    def bytes_out(self, i):
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        got = subprocess.run(["ip", "netns", "exec", self.name(i), "cat", path],
                             capture_output=True, text=True, check=True)
        return int(got.stdout)


class Process:
    """A process of the run on machine i; its log is kept with the time of each line."""

    def __init__(self, lab, i, words, env, label):
        self.lab, self.machine, self.label = lab, i, label
        self.log, self.killed, self.born_s = [], False, time.monotonic()
        name = lab.net.name(i)
        # Each of these replaces itself by the next one, so that the process number is weft's.
        start = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
                 f'hostname {name}; exec "$@"', "sh", *words]
        self.popen = subprocess.Popen(start, cwd=lab.folder, env={**os.environ, **env},
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self.popen.stdout.fileno(), False)
        self.rest = b""

    def lives(self):
        return self.popen.poll() is None

    def signal(self, number):
        try:
            self.popen.send_signal(number)
        except ProcessLookupError:
            pass

    def kill(self):
        self.killed = True
        self.signal(signal.SIGKILL)

    def said(self, pattern, since=0.0):
        """The time of the first line since then that the pattern is found in, or None."""
        for t, line in list(self.log):
            if t >= since and re.search(pattern, line):
                return t
        return None

    def found(self, pattern):
        """The time of the last line that the pattern is found in, and what was found; or None."""
        return next(((t, got) for t, line in reversed(list(self.log))
                     if (got := re.search(pattern, line))), None)

    def last(self, n=3):
        return " / ".join(line for _, line in self.log[-n:])

    def take(self, now_s):
        """Reads what is there; False at the end."""
        try:
            got = os.read(self.popen.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        lines = (self.rest + got).split(b"\n")
        self.rest = lines.pop()
        self.log += [(now_s, line.decode(errors="replace")) for line in lines]
        return bool(got)


def windows(steps, period):
    """Spans of `period` lines, or of more where lines are missing between: seconds and steps that
    they take, and the time of their last line."""
    steps = list(steps)
    i = 0
    for t, b, _ in steps:
        if b < steps[0][1] + period:
            continue
        while steps[i + 1][1] <= b - period:
            i += 1
        yield t - steps[i][0], b - steps[i][1], t


class Calm:
    """How long steps take that nothing happens to: the median over spans of a method's period, of
    the last two seconds and four periods at least."""

    LOOK_S, PERIODS = 2, 4

    def __init__(self, steps, period):
        steps = list(steps)
        since_s = time.monotonic() - self.LOOK_S
        recent = sum(t > since_s for t, _, _ in steps)
        spans = list(windows(steps[-max(recent, self.PERIODS * period) - 1:], period))
        self.period = period
        whole = [seconds for seconds, n, _ in spans if n == period]
        self.step_s = statistics.median(whole) / period if whole else float("nan")


class Lab:
    """A run in a folder: its processes, in the order in which they came, and the times of its
    steps."""

    def __init__(self, net, weft, folder):
        self.net, self.weft, self.folder = net, weft, folder
        self.processes, self.steps, self.ended = [], [], False
        self.servers = []  # processes that are not of the run
        self.selector = selectors.DefaultSelector()
        self.threads = [threading.Thread(target=f, daemon=True)
                        for f in (self.watch_steps, self.watch_logs)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        for p in self.processes + self.servers:
            p.signal(signal.SIGCONT)
            p.kill()
        for p in self.processes + self.servers:
            p.popen.wait()
        self.ended = True
        for t in self.threads:
            t.join()
        for p in self.processes + self.servers:
            p.popen.stdout.close()

    # ---- what is seen ----

    def watch_steps(self):
        path, file, rest = os.path.join(self.folder, "run", "metrics.jsonl"), None, b""
        while not self.ended:
            if file is None and os.path.exists(path):
                file = open(path, "rb", buffering=0)
            got = file.read() if file else None
            if got:
                now_s = time.monotonic()
                lines = (rest + got).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    self.take_line(now_s, line)
            elif file and not self.is_still(path, file):
                file.close()
                file, rest = None, b""
            else:
                time.sleep(LOOK_S)
        if file:
            file.close()

    @staticmethod
    def is_still(path, file):
        """Whether it is the file of that name: a new writer of the run folder makes it anew."""
        try:
            return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
        except OSError:
            return True

    def take_line(self, now_s, line):
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if "loss" in entry and (not self.steps or entry["step"] > self.steps[-1][1]):
            self.steps.append((now_s, entry["step"], entry["loss"]))

    def watch_logs(self):
        while not self.ended:
            if not self.selector.get_map():
                time.sleep(0.01)
                continue
            for key, _ in self.selector.select(0.1):
                if not key.data.take(time.monotonic()):
                    self.selector.unregister(key.fileobj)

    def stall_s(self, begin_s, calm):
        """The most that a span of the method's period in the time since begin_s took longer than
        calm ones. Where who writes has changed up to two lines may be missing; those count as calm
        steps."""
        late = [seconds - n * calm.step_s
                for seconds, n, end_s in windows(self.steps, calm.period) if end_s > begin_s]
        return max(late, default=float("inf"))

    # ---- what is done ----

    def came_last(self, processes):
        """They have come in again: the same processes, with another place in the order."""
        self.processes = [p for p in self.processes if p not in processes] + processes

    def start(self, i, words, env, label):
        p = Process(self, i, words, env, label)
        self.processes.append(p)
        self.selector.register(p.popen.stdout, selectors.EVENT_READ, p)
        return p

    def serve(self, i, words):
        """A process on machine i that is not of the run."""
        p = Process(self, i, words, {}, "a server")
        self.servers.append(p)
        self.selector.register(p.popen.stdout, selectors.EVENT_READ, p)
        return p

    def found(self, n, words, settings=(), per_node=1):
        """Processes that begin a run, per_node on each of n machines; one alone listens."""
        ranks = n * per_node
        if ranks == 1:
            return [self.start(0, [self.weft, "train", "run.yaml", "--listen", "29500", *words,
                                   *settings], {}, "rank 0")]
        env = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": self.net.address(0),
               "MASTER_PORT": "29500"}
        return [self.start(i // per_node,
                           [self.weft, "train", "run.yaml", *words, f"mesh.nodes={n}",
                            f"mesh.ranks_per_node={per_node}", *settings],
                           {**env, "RANK": str(i)}, f"rank {i}") for i in range(ranks)]

    def join(self, i, to, words, settings=()):
        """A process on machine i that joins by the ports at which process `to`, or those of a list, listen."""
        to = to if isinstance(to, list) else [to]
        where = ",".join(f"{self.net.address(p.machine)}:{self.port_of(p)}" for p in to)
        return self.start(i, [self.weft, "train", "run.yaml", "--join", where, *words, *settings],
                          {}, f"back on {i}")

    def port_of(self, p):
        """Where a process listens, by the kernel's list; else where a run begins."""
        got = subprocess.run(["ip", "netns", "exec", self.net.name(p.machine), "ss", "-Hltnp"],
                             capture_output=True, text=True, check=True).stdout
        for line in got.splitlines():
            if f"pid={p.popen.pid}," in line:
                return int(line.split()[3].rsplit(":", 1)[1])
        return 29500

    def live(self):
        return [p for p in self.processes if p.lives()]

    def wait(self, holds, seconds):
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            if holds():
                return True
            time.sleep(2e-3)
        return bool(holds())

    def wait_steps(self, n, seconds):
        """n more lines."""
        goal = len(self.steps) + n
        return self.wait(lambda: len(self.steps) >= goal, seconds)
