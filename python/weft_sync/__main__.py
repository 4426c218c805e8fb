# SPDX-License-Identifier: MIT
"""What weft_sync answers on a command line:

    python -m weft_sync keys           all keys: meaning, values, default
    python -m weft_sync keys outer     those whose name or meaning has this word
    python -m weft_sync keys mixer.outer_every       that one, also as it is written in Python
    python -m weft_sync key > run.key  makes the key that the machines of a run share
    python -m weft_sync.probe          measures machines and links
    python -m weft_sync.run train.py   trains with others who join by a code"""

from __future__ import annotations

import difflib
import os
import secrets
import stat
import sys

from ._library import Error, key_lines, key_name

COMMANDS = ("keys", "key", "probe", "run")
HELP = ("help", "--help", "-h")


def make_key() -> int:
    """Only its owner may read the file."""
    file = sys.stdout.fileno()
    if stat.S_ISREG(os.fstat(file).st_mode):
        os.fchmod(file, stat.S_IRUSR | stat.S_IWUSR)
    print(secrets.token_hex(32))
    return 0


def not_understood(words: list[str]) -> int:
    if words:
        near = difflib.get_close_matches(words[0], COMMANDS, 1)
        guess = f"did you mean '{near[0]}'?" if near and near[0] != words[0] else "expected what is below"
        print(f"weft_sync: '{' '.join(words)}' is no command; {guess}", file=sys.stderr)
    print(__doc__, file=sys.stderr)
    return 2


def main(words: list[str]) -> int:
    if any(word in HELP for word in words):
        print(__doc__)
        return 0
    if words == ["key"]:
        return make_key()
    if not words or words[0] != "keys" or len(words) > 2:
        return not_understood(words)
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
