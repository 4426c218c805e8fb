# SPDX-License-Identifier: MIT
"""Parquet and Arrow tables as lines that weft reads (needs pyarrow):

    python tables.py FILE_OR_FOLDER ... > lines.jsonl    the column "text"; COLUMN=body for another
"""
import json, os, sys
import pyarrow as pa, pyarrow.parquet

def rows(name, column):
    if open(name, "rb").read(4) == b"PAR1":
        yield from pa.parquet.ParquetFile(name).iter_batches(columns=[column])
    elif open(name, "rb").read(4) == b"ARRO":
        file = pa.ipc.open_file(pa.memory_map(name))
        yield from (file.get_batch(i).select([column]) for i in range(file.num_record_batches))
    else:  # as data sets of Hugging Face are saved
        yield from (batch.select([column]) for batch in pa.ipc.open_stream(pa.memory_map(name)))

def files(name):
    if not os.path.isdir(name):
        return [name]
    found = (os.path.join(at, f) for at, _, inside in os.walk(name) for f in inside)
    return sorted(f for f in found if f.endswith((".parquet", ".arrow", ".feather")))

for name in (f for given in sys.argv[1:] for f in files(given)):
    for batch in rows(name, os.environ.get("COLUMN", "text")):
        for text in filter(None, batch.column(0).to_pylist()):
            print(json.dumps({"text": text}))
