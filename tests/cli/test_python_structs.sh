#!/bin/bash
# SPDX-License-Identifier: MIT
# The Python package has the library's structs once more (ctypes). A program of assertions is
# made of them, each struct's size and each field's offset, and the C compiler judges it against
# the headers: no torch and no library is needed. A field that Python has and C has not, or at
# another place, or of another size, does not compile.
. "$2/tests/cli/helpers.sh"
need_python

write_assertions() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$source_dir/python" python3 - "$@" <<'E2'
import ctypes, sys
from weft_sync import _abi

# a struct of C inside a struct is written out in Python
INSIDE = {("weft_prediction", name): f"step_s.{name}" for name in ("low", "median", "high")}
moved = sys.argv[1:]  # name of a struct whose first field is left out: must not compile
print("#include <stddef.h>\n#include <weft/weft.h>\n#include <weft/probe.h>")
for mirror, name in _abi.STRUCTS.items():
    print(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(mirror)}, "{name}");')
    for field, *_ in mirror._fields_:
        inside = INSIDE.get((name, field), field)
        at = getattr(mirror, field)
        offset = at.offset + (1 if name in moved else 0)
        print(f'_Static_assert(offsetof({name}, {inside}) == {offset}, "{name}.{field}");')
        print(f'_Static_assert(sizeof((({name} *)0)->{inside}) == {at.size}, "{name}.{field}");')
E2
}

flags=(-std=c11 -fsyntax-only -I "$source_dir/include")
write_assertions >structs.c || fail "the package's structs can not be listed"
(($(grep -c offsetof structs.c) > 80)) || fail "fewer fields than the package has"
expect 0 cc "${flags[@]}" structs.c
write_assertions weft_sync_report >moved.c # the judge can say no
expect 1 cc "${flags[@]}" moved.c
finish
