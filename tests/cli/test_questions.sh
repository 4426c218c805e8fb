#!/bin/bash
# SPDX-License-Identifier: MIT
# The seven questions of docs/planning.md: each command is run as it stands there, and its answer, the
# paragraph in front of what was assumed, is the one that stands below it, its numbers within 3 %.
. "$2/tests/cli/helpers.sh"
empty_here
ln -s "$source_dir/examples" examples

# number, command (its lines joined) and answer of each question
awk '/^## /{inside = /^## Seven questions/; next} !inside {next}
    /^    weft plan/ {n++; where = "command"}
    /^    / && where == "command" {sub(/^ +/, ""); sub(/ *\\$/, ""); command[n] = command[n] $0 " "}
    /^> / {where = "answer"; sub(/^> /, ""); answer[n] = answer[n] $0 " "}
    END {for (i = 1; i <= n; i++) print command[i] > ("command" i)
         for (i = 1; i <= n; i++) print answer[i] > ("answer" i)}' "$source_dir/docs/planning.md"
[[ -s command7 && ! -e command8 ]] || fail "not seven questions in docs/planning.md"
# a sanitizer makes a plan ten times slower, and looks at the same code in one of them
questions="1 2 3 4 5 6 7"
ldd "$weft" | grep -qE "lib(a|t|ub)san" && questions=6
for i in $questions; do
    read -r command <"command$i"
    [[ $command == "weft plan "* ]] || fail "question $i: $command"
    expect 0 bash -c "\"$weft\" ${command#weft }"
    awk '/^(Take|Stay|Measure)/ {on = 1} /^(Assumed|Sequences|    )/ {on = 0} on' out | tr -s '\n ' '  ' >said
    python3 - "$(<said)" "$(<"answer$i")" <<'PY' || fail "question $i: '$(<said)', expected '$(<"answer$i")'"
import re, sys
number = r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?"
said, wanted = ([text.strip(), [float(n) for n in re.findall(number, text)]] for text in sys.argv[1:])
assert said[0] and re.sub(number, "#", said[0]) == re.sub(number, "#", wanted[0])
assert len(said[1]) == len(wanted[1]) and all(abs(x - y) <= 0.03 * y for x, y in zip(said[1], wanted[1]))
PY
done
finish
