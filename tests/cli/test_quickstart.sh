#!/bin/bash
# SPDX-License-Identifier: MIT
# What `make train` runs goes on where the Bible could not be installed, and never writes over a run.
# The program is stood in for: it says what it is called with.
. "$2/tests/cli/helpers.sh"
empty_here
mkdir -p tree/tools tree/docs tree/build/release bin
cp "$source_dir/tools/quickstart" tree/tools
echo '# weft' >tree/README.md
(cd tree/docs && echo 'words' >a.md)
printf '#!/bin/sh\necho "called: $*"\n' >tree/build/release/weft
chmod +x tree/build/release/weft
for tool in sh dirname mkdir cat mv; do ln -s "$(command -v $tool)" bin; done

expect 0 env PATH="$PWD/bin" tree/tools/quickstart run.steps=5
grep -q "bible-kjv is not installed: the text is weft's documentation instead" err || fail "not said: $(cat err)"
grep -q '^called: train .* run.folder=runs/quickstart data.path=data/docs.txt run.steps=5$' out || fail "$(cat out)"
[[ $(cat tree/data/docs.txt) == $'# weft\nwords' ]] || fail "the text: $(cat tree/data/docs.txt)"

printf '#!/bin/sh\necho In the beginning\n' >bin/bible
chmod +x bin/bible
mkdir -p tree/runs/quickstart tree/runs/quickstart-2
expect 0 env PATH="$PWD/bin" tree/tools/quickstart
grep -q '^called: train examples/quickstart.yaml run.folder=runs/quickstart-3$' out || fail "$(cat out)"
[[ $(cat tree/data/kjv.txt) == "In the beginning" ]] || fail "the Bible's text"
finish
