# SPDX-License-Identifier: MIT
"""Types what docs/hour.md says, into one shell, and compares what comes.

A line behind a command is expected behind the one before it; runs of digits are any number, "..."
is anything, in a line of its own any lines. A code that the first machine shows takes the
place of the page's."""

import re
import subprocess
import sys

CODE = r"\b\d\d-\w{4}-\w{4}\b"
SKIPPED = ("git clone", "PATH=", "python3 -m pip")  # what the test has done already


def dialogue(text):
    """(command, expected lines) of the indented blocks."""
    said = []
    for line in text.split("\n"):
        if line.startswith("    $ "):
            said.append((line[6:], []))
        elif line.startswith("    > ") and not said[-1][1]:
            said[-1] = (said[-1][0] + "\n" + line[6:], [])
        elif line.startswith("    "):
            said[-1][1].append(line[4:])
    return said


def shape(line):
    """Of an expected line: what it may be, as an expression."""
    parts = re.split(r"(\.\.\.|%s|\d[\d.]*(?:[kMGT]?B\b)?(?: (?:B|kB|MB|GB|ns|us|ms|s|min|h)\b)?)" % CODE, line.strip())
    known = {"...": ".*"}
    return "".join(known.get(p, r"[\d.e+-]+ ?\w*" if p[:1].isdigit() and not re.fullmatch(CODE, p)
                             else CODE if re.fullmatch(CODE, p) else re.escape(p)) for p in parts)


def differs(expected, lines):
    """The first expected line that does not come; None: all came."""
    at, gap = 0, False
    for line in expected:
        if line.strip() == "...":
            gap = True
            continue
        while at < len(lines) and not re.fullmatch(shape(line), lines[at].strip()):
            if not gap and not lines[at].startswith("train "):
                return line
            at += 1
        if at == len(lines):
            return line
        at, gap = at + 1, False
    return None


def main(page):
    shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace")
    code, failures = None, 0
    shell.stdin.write("set -m\n")
    for command, expected in dialogue(open(page).read()):
        if command.startswith(SKIPPED):
            continue
        if code:
            command = re.sub(CODE, code, command)
        shell.stdin.write(f"{command}\necho \"<end> $?\"\n")
        shell.stdin.flush()
        lines = []
        for line in shell.stdout:
            if line.startswith("<end> "):
                break
            lines.append(line.rstrip("\n"))
        shown = re.search(CODE, "\n".join(lines))
        code = shown[0] if shown else code
        said = [l for l in lines if l.strip() and not re.match(r"\[\d+\]|bash: line|weft: warning", l)]
        missing = differs(expected, said)
        if missing is not None or (line != "<end> 0\n" and "wait" not in command):
            failures += 1
            print(f"FAILED: $ {command}\n  expected: {missing}\n  ended: {line.strip()}\n  came:\n   ",
                  "\n    ".join(lines[-40:]), file=sys.stderr)
    shell.stdin.close()
    shell.wait()
    return failures > 0


sys.exit(main(sys.argv[1]))
