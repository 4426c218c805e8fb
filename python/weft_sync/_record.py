# SPDX-License-Identifier: MIT
"""What ``weft plan FOLDER`` explains afterwards: the folder of a run with method="auto", in the format of ``weft train``
(docs/file-formats.md). The first process writes.

    decision.json, cluster.yaml    when it is decided
    views.jsonl                    what crosses the wire from a step on, why, what was expected
    metrics.jsonl                  the mean of up to LINE steps, all in one form"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import secrets
import time
from typing import Any

log = logging.getLogger("weft_sync")
LINE = 100


class Record:
    """Of one optimizer. OSError where what is decided can not be written."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._folder, self._run = pathlib.Path(folder), secrets.token_hex(8)
        self._views, self._n, self._sum_s, self._last = 0, 0, 0.0, 0
        self._ended_s: float | None = None
        self._begun: set[str] = set()  # files that this process has written into
        self._off = False  # the disk is full, say: no reason to end

    def decided(self, decision: Any, layout: dict[str, int], keep: str, text: str) -> None:
        """`decision` without a method: nothing was taken, and its sentence says why."""
        settings = {"method": decision.method, **decision.keys} if decision.method else {}
        if decision.cluster:
            (self._folder / "cluster.yaml").write_text(decision.cluster, encoding="utf-8")
        (self._folder / "decision.json").write_text(json.dumps(
            {"version": 1, "nodes": layout["mesh.nodes"], "ranks_per_node": layout["mesh.ranks_per_node"], "keep": keep,
             "settings": " ".join(f"{key}={value}" for key, value in settings.items()), "sentence": decision.sentence,
             "text": text}, indent=1) + "\n", encoding="utf-8")

    def step(self, sync: Any, step: int, form: str, why: str, expected: list[float]) -> None:
        """Number `step` has ended, the first one in `form` if that is not empty."""
        now_s, before_s = time.monotonic(), self._ended_s
        self._ended_s = now_s
        if form:
            self.close()
        if sync.place()[0] != 0:
            return
        if form:
            self._view(sync, step, form, why, expected)
        if before_s is not None:
            self._n, self._sum_s, self._last = self._n + 1, self._sum_s + now_s - before_s, step
        if self._n == LINE:
            self.close()

    def close(self) -> None:
        """Steps that no line stands for get one."""
        if self._n > 0:
            self._put("metrics.jsonl", {"step": self._last, "step_s": self._sum_s / self._n, "steps": self._n})
        self._n, self._sum_s = 0, 0.0

    def _view(self, sync: Any, step: int, form: str, why: str, expected: list[float]) -> None:
        self._views += 1
        members = [[r, f"{r:016x}", sync.mesh.host_of(r)] for r in range(sync.place()[1])]
        change = {"shared": True, "why": why, **({"expected": expected} if any(expected) else {})} if why else {}
        self._put("views.jsonl", {
            "run": self._run, "view": self._views, "step": step, "time": time.time(), "stall_s": None, "first_row": 0,
            "rows_per_rank": 1, "micro": 1, "shards": 1, "threads": 1, "kernels": "", "form": form, **change,
            "members": members, "lost": [], "joined": []})

    def _put(self, name: str, line: dict[str, Any]) -> None:
        try:
            if not self._off:
                self._write(self._folder / name, line)
        except (OSError, ValueError) as error:
            self._off = True
            log.warning("%s gets no more lines: %s", self._folder / name, error)

    def _write(self, path: pathlib.Path, line: dict[str, Any]) -> None:
        """A run that goes on does steps again: their lines of before go."""
        if path.name not in self._begun and path.exists():
            before = [text for text in path.read_text(encoding="utf-8").splitlines()
                      if json.loads(text)["step"] < line["step"]]
            path.write_text("".join(f"{text}\n" for text in before), encoding="utf-8")
        self._begun.add(path.name)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


__all__ = ["Record"]
