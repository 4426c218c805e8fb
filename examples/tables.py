# SPDX-License-Identifier: MIT
"""Parquet and Arrow tables as lines that weft reads (needs pyarrow):

    python tables.py FILE_OR_FOLDER ... > lines.jsonl    the column "text"; COLUMN=body for another
"""
import json, os, sys
if not sys.argv[1:]:
    sys.exit("tables.py: expected files or folders of tables")
try:
    import pyarrow as pa, pyarrow.parquet
except ImportError:
    sys.exit("tables.py needs pyarrow: python -m pip install pyarrow")

def table(name):
    """Its schema, and the parts with one column of it."""
    with open(name, "rb") as file:
        head = file.read(4)
    if head == b"PAR1":
        table = pa.parquet.ParquetFile(name)
        return table.schema_arrow, lambda column: table.iter_batches(columns=[column])
    if head == b"ARRO":
        table = pa.ipc.open_file(pa.memory_map(name))
        return table.schema, lambda column: (table.get_batch(i).select([column]) for i in range(table.num_record_batches))
    table = pa.ipc.open_stream(pa.memory_map(name))  # as data sets of Hugging Face are saved
    return table.schema, lambda column: (batch.select([column]) for batch in table)

def texts(name, column):
    schema, parts = table(name)
    if column not in schema.names:
        raise ValueError(f"there is no column {column!r}, expected COLUMN to be one of: {', '.join(schema.names)}")
    kind = schema.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise ValueError(f"the column {column!r} has values of {kind}, expected text")
    for part in parts(column):
        yield from filter(None, part.column(0).to_pylist())

def files(name):
    if not os.path.isdir(name):
        return [name]
    found = (os.path.join(at, f) for at, _, inside in os.walk(name) for f in inside)
    tables = sorted(f for f in found if f.endswith((".parquet", ".arrow", ".feather")))
    return tables or sys.exit(f"tables.py: {name} has no *.parquet, *.arrow or *.feather")

for name in (f for given in sys.argv[1:] for f in files(given)):
    try:
        for text in texts(name, os.environ.get("COLUMN", "text")):
            print(json.dumps({"text": text}))
    except (OSError, ValueError) as error:  # pyarrow's errors of damaged files are among them
        sys.exit(f"tables.py: {name}: {error}")
