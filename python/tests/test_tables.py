# SPDX-License-Identifier: MIT
"""examples/tables.py writes what weft reads, from each kind of table."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

PROGRAM = pathlib.Path(__file__).parents[2] / "examples/tables.py"


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_a_table_becomes_lines(tmp_path, kind):
    texts = ["one\ntwo", "\u00e9", "", None, "end"]
    table = pa.table({"id": [1, 2, 3, 4, 5], "body": texts})
    name = tmp_path / f"a.{'parquet' if kind == 'parquet' else 'arrow'}"
    if kind == "parquet":
        pa.parquet.write_table(table, name)
    else:
        with {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}[kind](str(name), table.schema) as writer:
            writer.write_table(table)
    done = subprocess.run([sys.executable, PROGRAM, name], env={**os.environ, "COLUMN": "body"}, check=True,
                          capture_output=True, text=True)
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["one\ntwo", "\u00e9", "end"]


def refusal(name, column="body"):
    done = subprocess.run([sys.executable, PROGRAM, name], env={**os.environ, "COLUMN": column}, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout and len(done.stderr.splitlines()) == 1, done
    return done.stderr


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_what_is_no_column_of_texts_is_refused_in_a_sentence(tmp_path, kind):
    table, name = pa.table({"id": [1, 2], "body": ["a", "b"], "talk": [["a"], ["b"]]}), tmp_path / "a.table"
    if kind == "parquet":
        pa.parquet.write_table(table, name)
    else:
        with {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}[kind](str(name), table.schema) as writer:
            writer.write_table(table)
    assert refusal(name, "nosuch") == (
        f"tables.py: {name}: there is no column 'nosuch', expected COLUMN to be one of: id, body, talk\n")
    assert refusal(name, "id") == f"tables.py: {name}: the column 'id' has values of int64, expected text\n"
    assert "values of list<" in refusal(name, "talk")


def test_a_file_that_is_no_table_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    assert "a.parquet: " in refusal(tmp_path / "a.parquet")
    assert "none.arrow" in refusal(tmp_path / "none.arrow")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refusal(empty) == f"tables.py: {empty} has no *.parquet, *.arrow or *.feather\n"
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "tables.py: expected files or folders of tables\n"
