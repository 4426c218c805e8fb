# SPDX-License-Identifier: MIT
"""What weft_sync can be asked on a command line:

    python -m weft_sync keys           all keys: meaning, values, default
    python -m weft_sync keys outer     those whose name or meaning has this word
    python -m weft_sync.probe          measures machines and links (needs torch)"""

from __future__ import annotations

import sys

from ._library import Error, key_lines

USAGE = "usage: python -m weft_sync keys [WORD]"


def main(words: list[str]) -> int:
    if not words or words[0] != "keys" or len(words) > 2:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        found = [lines for lines in key_lines() if len(words) == 1 or words[1].lower() in lines.lower()]
    except Error as error:
        print(f"weft_sync: {error}", file=sys.stderr)
        return 1
    if not found:
        print(f"weft_sync: no key has '{words[1]}' in its name or meaning", file=sys.stderr)
        return 1
    print("\n".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
