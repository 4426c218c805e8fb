# SPDX-License-Identifier: MIT
"""What ``weft plan FOLDER`` explains afterwards: the folder of a run with method="auto", in the format of ``weft train``
(docs/file-formats.md). The first process writes.

    decision.json, cluster.yaml    when it is decided; "program" says whose folder it is
    views.jsonl                    what crosses the wire from a step on, why, what was expected
    metrics.jsonl                  the mean of up to LINE steps, all in one form"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import secrets
import time
from typing import Any, Callable

from ._library import Error

log = logging.getLogger("weft_sync")
LINE = 100
PROGRAM = "weft_sync"
TAKEN = "an existing folder that is empty or was written by an earlier run of this program"


def _check(folder: pathlib.Path) -> None:
    """That there is such a folder, and that nothing in it is another's. Processes look at the same time as the first one may
    write already: decision.json is the first file that it writes, and is there whole or not at all."""
    if not folder.is_dir():
        raise Error("argument", f"folder is {folder}, and there is no such folder; expected {TAKEN}, that all processes see")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Error("argument", f"folder is {folder}, where this process may not write; expected {TAKEN}")
    try:
        made = json.loads((folder / "decision.json").read_bytes())
        ours = isinstance(made, dict) and made.get("program") == PROGRAM
        others = [] if ours else ["decision.json"]
    except FileNotFoundError:
        others = [name for name in ("metrics.jsonl", "views.jsonl", "cluster.yaml") if os.path.lexists(folder / name)]
    except (OSError, ValueError):
        others = ["decision.json"]
    if others:
        raise Error("argument", f"folder is {folder}, where {others[0]} is not of a program with method='auto'; "
                    f"expected {TAKEN}")


def _replace(path: pathlib.Path, data: bytes) -> None:
    """Whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    os.replace(new, path)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class Record:
    """Of one optimizer. :class:`Error` where the folder, or what is in it, is not for this, and where what is decided can
    not be written; a step raises nothing."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._folder, self._run = pathlib.Path(folder), secrets.token_hex(8)
        _check(self._folder)
        self._first = 0  # step of which this process writes; 0: none yet
        self._whole = True  # all who began take part, nobody else
        self._views, self._n, self._sum_s, self._last = 0, 0, 0.0, 0
        self._ended_s: float | None = None
        self._begun: set[str] = set()  # files that this process has written into
        self._off = False  # the disk is full, say: no reason to end

    def decided(self, decision: Any, layout: dict[str, int], keep: str, text: str) -> None:
        """`decision` without a method: nothing was taken, and its sentence says why."""
        settings = {"method": decision.method, **decision.keys} if decision.method else {}
        made = {"version": 1, "program": PROGRAM, "nodes": layout["mesh.nodes"],
                "ranks_per_node": layout["mesh.ranks_per_node"], "keep": keep,
                "settings": " ".join(f"{key}={value}" for key, value in settings.items()),
                "sentence": decision.sentence, "text": text}
        try:
            _replace(self._folder / "decision.json", (json.dumps(made, indent=1) + "\n").encode())
            if decision.cluster:
                _replace(self._folder / "cluster.yaml", decision.cluster.encode())
        except OSError as error:
            raise Error("file", f"could not write what was decided into {self._folder}: {error.strerror or error}") from None

    def step(self, sync: Any, step: int, form: str, why: str, expected: list[float]) -> None:
        """Number `step` has ended, the first one in `form` if that is not empty."""
        self._guard(lambda: self._step(sync, step, form, why, expected))

    def alone(self, sync: Any, step: int, form: str, why: str) -> None:
        """After step number `step`, which was exchanged in `form`, it was said that one process alone is faster."""
        if sync.place()[0] == 0:
            self._guard(lambda: self._view(sync.mesh, sync.place()[1], step, form, why, []))

    def close(self) -> None:
        """Steps that no line stands for get one."""
        self._guard(self._close)

    def _guard(self, write: Callable[[], None]) -> None:
        """What explains a run does not end it."""
        if self._off:
            return
        try:
            write()
        except Exception as error:
            self._off = True
            log.warning("%s gets no more lines: %s", self._folder, error)

    def _step(self, sync: Any, step: int, form: str, why: str, expected: list[float]) -> None:
        now_s, before_s = time.monotonic(), self._ended_s
        self._ended_s = now_s
        mesh, place = sync.mesh, sync.place()
        self._whole = self._whole and not mesh.joins and place == (mesh.rank, mesh.size)
        if form:
            self._close()
        if place[0] != 0:
            return
        self._first = self._first or step
        if form:
            self._view(mesh, place[1], step, form, why, expected)
        if before_s is not None:
            self._n, self._sum_s, self._last = self._n + 1, self._sum_s + now_s - before_s, step
        if self._n == LINE:
            self._close()

    def _close(self) -> None:
        n, sum_s = self._n, self._sum_s
        self._n, self._sum_s = 0, 0.0
        if n > 0:
            self._write("metrics.jsonl", {"step": self._last, "step_s": sum_s / n, "steps": n})

    def _view(self, mesh: Any, size: int, step: int, form: str, why: str, expected: list[float]) -> None:
        """Which places are left after a loss is not known here: then no host is named."""
        self._views += 1
        members = [[r, f"{r:016x}", mesh.host_of(r) if self._whole else ""] for r in range(size)]
        change = {"shared": True, "why": why, **({"expected": expected} if any(expected) else {})} if why else {}
        self._write("views.jsonl", {
            "run": self._run, "view": self._views, "step": step, "time": time.time(), "stall_s": None, "first_row": 0,
            "rows_per_rank": 1, "micro": 1, "shards": 1, "threads": 1, "kernels": "", "name": form, **change,
            "members": members, "lost": [], "joined": []})

    def _write(self, name: str, line: dict[str, Any]) -> None:
        path = self._folder / name
        if name not in self._begun and path.exists():
            self._trim(path)
        self._begun.add(name)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _trim(self, path: pathlib.Path) -> None:
        """A run that goes on does steps again: their lines of before go, and what a process that was killed has begun to write
        at the end. Other lines stay as they are, damaged ones, too: who reads the file leaves them out."""
        before = path.read_bytes()
        *lines, last = before.split(b"\n")
        if _object(last) is not None:
            lines.append(last)
        kept = [line for line in lines if not self._again(_object(line))]
        after = b"".join(line + b"\n" for line in kept)
        if after != before:
            _replace(path, after)

    def _again(self, line: dict[str, Any] | None) -> bool:
        step = line.get("step") if line is not None else None
        return isinstance(step, (int, float)) and step >= self._first


__all__ = ["Record"]
