#!/bin/bash
# SPDX-License-Identifier: MIT
# What an installed weft gives to other builds: pkg-config for the shared and the static library,
# CMake's find_package, versioned symbols and nothing else, completions, the manual page.
. "$2/tests/cli/helpers.sh"
build=$(dirname "$weft")
empty_here
need_linking
expect 0 cmake --install "$build" --prefix "$PWD/root"
root=$PWD/root
lib=$(dirname "$(find "$root" -name libweft.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig
cat >user.c <<'E2'
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
#if WEFT_VERSION_NUMBER < WEFT_VERSION_OF(0, 1, 0) || WEFT_VERSION_NUMBER >= WEFT_VERSION_OF(100, 0, 0)
#error "WEFT_VERSION_NUMBER"
#endif
int main(void) {
    weft_ctx *ctx;
    weft_config *config;
    if (weft_ctx_create(&ctx) != WEFT_OK || weft_config_create(ctx, &config) != WEFT_OK) return 1;
    printf("weft %s\n", weft_version());
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
    return strcmp(weft_version(), WEFT_VERSION) != 0;
}
E2
read -ra flags < <(pkg-config --cflags --libs weft)
expect 0 cc -std=c11 -Wall -Wextra -Wpedantic -Werror user.c "${flags[@]}" -o shared
prints "$("$weft" --version)" env LD_LIBRARY_PATH="$lib" ./shared
[[ $(pkg-config --modversion weft) == "$("$weft" --version | cut -d' ' -f2)" ]] || fail "pkg-config's version"
if [[ -e $lib/libweft.a ]]; then # the library itself in the program, what it needs shared
    read -ra flags < <(pkg-config --static --cflags --libs weft)
    expect 0 cc user.c "${flags[@]/-lweft/$lib/libweft.a}" -o static
    ! ldd static | grep -q libweft || fail "the static program needs libweft.so"
    prints "$("$weft" --version)" ./static
fi
# the programs of the pages are whole, and do what they say
write_sentences >text.txt
"$weft" config data.path=text.txt run.steps=4 model.layers=1 model.width=32 model.heads=2 data.length=32 \
    batch.tokens_per_step=256 run.eval_tokens=1024 run.folder=runs/page >run.yaml
awk '/^```c$/ {n++; on = 1; next} /^```/ {on = 0} on {print > ("page" n ".c")}' "$source_dir"/docs/*.md
grep -l 'int main' page*.c >programs || fail "the pages have no C program"
read -ra flags < <(pkg-config --cflags --libs weft)
while read -r program; do
    expect 0 cc -std=c11 -Wall -Wextra -Werror "$program" "${flags[@]}" -o "${program%.c}"
    expect 0 env LD_LIBRARY_PATH="$lib" "./${program%.c}"
    grep -q "^validation loss [0-9.]*$" out || fail "$program: $(cat out err)"
done <programs
# C++ reads the headers as well
if command -v c++ >/dev/null; then
    echo '#include <weft/weft.h>
int main() {
    WEFT_INIT(weft_train_result, result);
    return weft_version() == nullptr || result.struct_size != sizeof(weft_train_result);
}' >user.cc
    read -ra flags < <(pkg-config --cflags --libs weft)
    expect 0 c++ -Wall -Wextra -Werror user.cc "${flags[@]}" -o plus
fi
mkdir package
cat >package/CMakeLists.txt <<'E2'
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(weft 0.2 REQUIRED)
add_executable(user ../user.c)
target_link_libraries(user weft::weft)
E2
expect 0 cmake -S package -B package/build -DCMAKE_PREFIX_PATH="$root"
expect 0 cmake --build package/build
prints "$("$weft" --version)" package/build/user
# nothing but weft_ is visible, and all of it has a version
nm -D --defined-only "$lib/libweft.so" | awk '{print $3}' | grep -vE '^weft_[a-z0-9_]+@@WEFT_[0-9.]+$|^WEFT_[0-9.]+$' >others
[[ ! -s others ]] || fail "symbols without a version, or not weft's: $(head -3 others)"
for file in doc/weft/examples/tables.py doc/weft/examples/embed.c man/man1/weft.1 bash-completion/completions/weft zsh/vendor-completions/_weft fish/vendor_completions.d/weft.fish; do
    [[ -s $root/share/$file ]] || fail "share/$file is not installed"
done
# the installed program runs where it was put
mv root elsewhere
prints "$("$weft" --version)" elsewhere/bin/weft --version
finish
