#!/bin/bash
# SPDX-License-Identifier: MIT
# The program and the libraries, as built and as installed, have what hardening=+all gives: a
# position-independent program, canaries, checked copies, nothing of the loader's tables writable,
# no executable stack, no folder of the build among the folders that the loader looks into.
. "$2/tests/cli/helpers.sh"
build=$(dirname "$weft")
empty_here
nm -D "$build/libweft.so" | grep -q '__[at]san_' && skip "a sanitizer has checks of its own"

# hardened FILE
hardened() {
    local dynamic symbols folder
    dynamic=$(readelf -dW "$1")
    symbols=$(readelf --dyn-syms -W "$1")
    [[ $(readelf -hW "$1") == *"DYN ("* ]] || fail "$1 has fixed addresses"
    [[ $dynamic == *BIND_NOW* && $dynamic == *"NOW"* ]] || fail "$1 binds functions late"
    readelf -lW "$1" | grep -q GNU_RELRO || fail "$1 has no read-only relocations"
    readelf -lW "$1" | grep GNU_STACK | grep -q 'RWE' && fail "$1 has an executable stack"
    [[ $symbols == *__stack_chk_fail@* ]] || fail "$1 has no stack protector"
    [[ $symbols =~ __[a-z]+_chk@ ]] || fail "$1 has no checked functions"
    while read -r folder; do
        [[ $folder == \$ORIGIN* || $folder == /usr/* || -z $folder ]] ||
            fail "$1 is looked for in $folder"
    done < <(sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\].*/\2/p' <<<"$dynamic" | tr : '\n')
}

for file in "$weft" "$build"/libweft*.so; do hardened "$file"; done
[[ $(readelf -dW "$weft") == *"Flags:"*PIE* ]] || fail "$weft is no PIE"
expect 0 cmake --install "$build" --prefix "$PWD/root"
for file in root/bin/weft $(find root -name 'libweft*.so'); do
    hardened "$file"
    readelf -dW "$file" | grep -E 'R(UN)?PATH' | grep -vq 'ORIGIN' && fail "$file has a RUNPATH"
done
# commands that the compiler was given: what leaves no trace in a file
grep -q -- -fstack-clash-protection "$build/compile_commands.json" ||
    ! cc -fstack-clash-protection -x c -c /dev/null -o /dev/null 2>/dev/null ||
    fail "not compiled with -fstack-clash-protection"
grep -q -- -D_FORTIFY_SOURCE=[23] "$build/compile_commands.json" || fail "no _FORTIFY_SOURCE"
finish
