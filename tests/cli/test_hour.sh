#!/bin/bash
# SPDX-License-Identifier: MIT
# docs/hour.md, typed again: what a reader does in the first hour does what the page says.
. "$2/tests/cli/helpers.sh"
need_python
build=$(dirname "$weft")
empty_here
need_linking
expect 0 cmake --install "$build" --prefix "$PWD/root"
((failures == 0)) || finish # the page would wait for a code that nobody shows
lib=$(dirname "$(find root -name libweft.so)")
export PATH=$PWD/root/bin:$PATH LD_LIBRARY_PATH=$PWD/$lib PKG_CONFIG_PATH=$PWD/$lib/pkgconfig
export PYTHONPATH=$source_dir/python WEFT_LIBRARY=$PWD/$lib/libweft.so
ln -s "$source_dir" weft
"$weft" up --help | grep -q CODE || fail "weft up"
timeout -k 5 400 python3 "$source_dir/tests/cli/hour.py" "$source_dir/docs/hour.md" || fail "the page's hour"
finish
