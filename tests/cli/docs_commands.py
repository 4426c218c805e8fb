# SPDX-License-Identifier: MIT
"""What the pages say to type, one line each: the words of a command of weft, shell-quoted.

    docs_commands.py commands PAGE ...     whole commands: indented lines and code spans
    docs_commands.py keys PAGE ...         section.key of code spans, or of key=value anywhere

A command in a page is an indented line or a code span that begins with weft (a build folder or
mpirun may stand before it); a line that ends in a backslash goes on in the next one. Two blanks
outside quotes end it: what follows explains it. "..." stands for anything and is left out."""

import pathlib
import re
import shlex
import sys

START = re.compile(r"^ {4,}(?:\$ )?((?:mpirun|chrt|time)\b.*? )?(?:build/[a-z]+/)?(weft .*)$")
SPAN = re.compile(r"`((?:mpirun .*? )?weft [^`]+)`")
SECTIONS = ("run data model adapter mesh elastic batch replicator site_replicator mixer optimizer "
            "schedule").split()
# files that begin like a key, and attributes of the Python package's optimizer
OTHERS = re.compile(r"\.(yaml|json|key|safetensors|data|run)$|^optimizer\.(goes_on|steps)$")
KEY = re.compile(r"(?<![\w./-])((?:%s)\.[a-z][a-z0-9_]*)(?![\w.(/])" % "|".join(SECTIONS))


def without_remark(line):
    """What stands before two blanks outside quotes."""
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif line.startswith("  ", at):
            return line[:at]
    return line


def blocks(text):
    """Indented commands with the lines that go on behind a backslash."""
    lines = iter(text.split("\n"))
    for line in lines:
        found = START.match(line)
        if not found:
            continue
        words = found[2].strip()
        while words.endswith("\\"):
            words = words[:-1].rstrip() + " " + next(lines).strip()
        yield without_remark(words)


def commands(text):
    spans = (s[s.index("weft "):] for s in SPAN.findall(re.sub(r"\n(?=\S)", " ", text)))
    for command in [*blocks(text), *spans]:
        command = re.split(r" [|>&#] ?|;", command)[0]
        words = [w.strip("[]") for w in shlex.split(command) if w != "..."]
        if not words[1][0].isdigit():  # weft 1: the number of a format
            yield " ".join(shlex.quote(w) for w in words[1:])


def keys(text):
    for span in re.findall(r"`([^`\n]+)`", text):
        yield from KEY.findall(span)
    yield from re.findall(KEY.pattern.replace(r"(?![\w.(/])", "(?==)"), text)


def main():
    what = {"commands": commands, "keys": keys}[sys.argv[1]]
    for page in sys.argv[2:]:
        for line in sorted(set(what(pathlib.Path(page).read_text()))):
            if what is commands or not OTHERS.search(line):
                print(f"{pathlib.Path(page).name}\t{line}")


main()
