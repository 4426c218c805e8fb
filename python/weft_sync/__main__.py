# SPDX-License-Identifier: MIT
"""What weft_sync can be asked on a command line:

    python -m weft_sync keys           all keys: meaning, values, default
    python -m weft_sync keys outer     those whose name or meaning has this word
    python -m weft_sync keys mixer.outer_every       that one, also as it is written in Python
    python -m weft_sync key > run.key  makes the key that the machines of a run share
    python -m weft_sync.probe          measures machines and links (needs torch)"""

from __future__ import annotations

import os
import secrets
import stat
import sys

from ._library import Error, key_lines, key_name

USAGE = "usage: python -m weft_sync keys [WORD], or: python -m weft_sync key > run.key"


def make_key() -> int:
    """Only its owner may read the file."""
    file = sys.stdout.fileno()
    if stat.S_ISREG(os.fstat(file).st_mode):
        os.fchmod(file, stat.S_IRUSR | stat.S_IWUSR)
    print(secrets.token_hex(32))
    return 0


def main(words: list[str]) -> int:
    if words == ["key"]:
        return make_key()
    if not words or words[0] != "keys" or len(words) > 2:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        found = list(key_lines())
        if len(words) == 2:
            word = words[1].lower()
            exact = [one for one in found if word in (name := one.partition(":")[0], name.replace(".", "_"))]
            found = exact or [one for one in found if word in one.lower()]
            if not found:
                key_name(word)  # says which one may be meant
    except Error as error:
        print(f"weft_sync: {error}", file=sys.stderr)
        return 1
    print("\n".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
