# SPDX-License-Identifier: MIT
"""The package says its types (py.typed): mypy --strict agrees, of it and of the examples."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mypy") is None,
                                reason="mypy is not installed")


def judge(tmp_path, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"),
         "--cache-dir", str(tmp_path / "cache"), *map(str, arguments)],
        cwd=ROOT / "python", capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_package_and_examples_are_typed(tmp_path):
    code, said = judge(tmp_path, "weft_sync")
    assert code == 0, said
    examples = sorted((ROOT / "examples" / "torch").glob("*.py"))
    assert len(examples) >= 5
    code, said = judge(tmp_path, "--scripts-are-modules", *examples)
    assert code == 0, said


def test_a_wrong_use_is_found(tmp_path):
    user = tmp_path / "user.py"
    user.write_text("import weft_sync\n"
                    "reveal_type(weft_sync.plan([], step_seconds=1.0, cluster={})[0].speedup)\n"
                    "weft_sync.plan([], step_seconds=1.0, cluster=3)\n")
    code, said = judge(tmp_path, user)
    assert code == 1 and 'Revealed type is "' in said and "float" in said
    assert 'Argument "cluster" to "plan" has incompatible type "int"' in said
