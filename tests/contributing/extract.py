#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the example of CONTRIBUTING.md: extract.py PAGE SOURCE_TREE OUT

Writes the file that the page shows, and a copy of each file that the page adds a line to, below
OUT. A line goes before the first line of the file that begins alike: up to its bracket, or in
twelve characters.
"""
import os
import re
import sys


def blocks(page):
    return re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)


def insert(text, line, path):
    lines = text.split("\n")
    likeness = line[: line.index("(") + 1] if "(" in line else line[:12]
    for i, other in enumerate(lines):
        if other.lstrip().startswith(likeness):
            return "\n".join(lines[:i] + [line] + lines[i:])
    sys.exit(f"extract: no place for '{line}' in {path}")


def write(out, path, text):
    target = os.path.join(out, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w") as file:
        file.write(text)


def main(page_path, tree, out):
    with open(page_path) as file:
        page = file.read()
    named = re.search(r"File\s+`((?:lib|engine)/[^`]+\.c)`:", page)
    code, lines = blocks(page)
    write(out, named.group(1), code)
    for line in lines.strip().split("\n"):
        line, path = re.fullmatch(r"(.*?)\s*/\* ((?:lib|engine)/\S+) \*/", line).groups()
        with open(os.path.join(tree, path)) as file:
            write(out, path, insert(file.read(), line, path))


main(*sys.argv[1:])
