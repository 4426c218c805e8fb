#!/bin/bash
# SPDX-License-Identifier: MIT
# What the pages say to type exists: each command of weft that stands in README, docs and the other
# pages is a command, has the flags that it is given there, and its keys make a configuration; each
# key that a page names is a key. (cli/questions and cli/help check what commands print.)
. "$2/tests/cli/helpers.sh"
need_python
empty_here
ln -s "$source_dir/examples" examples
for _ in 1 2 3 4; do write_sentences; done >my.txt # enough for each length that a page names
cp my.txt val.en
cp my.txt val.de
echo '{"prompt": "a", "answer": "b"}' >my.jsonl
printf '%40000s' | tr ' ' '\0' >ids.bin
for folder in runs/flexdemo runs/hsdp runs/tune; do mkdir -p $folder; done
"$weft" config method=flexdemo data.path=my.txt >run.yaml
for copy in chosen.yaml runs/hsdp/config.yaml; do cp run.yaml $copy; done
echo "optimizer: {lr: 1e-3}" >runs/tune/best.yaml
(cd "$source_dir" && find . -name '*.md' -not -path './build*' -not -name CHANGELOG.md \
    -not -path './.venv*' | sort) >pages
mapfile -t pages < <(sed "s|^\.|$source_dir|" pages)
say() { python3 "$source_dir/tests/cli/docs_commands.py" "$@"; }

# makes_sense PAGE COMMAND WORD...: the command and its flags are there, its keys fit together
makes_sense() {
    local page=$1 command=$2 word before="" text=my.txt files=() keys=()
    shift 2
    if ! grep -q "^  $command " commands; then
        fail "$page: weft $command: no such command"
        return
    fi
    [[ -s help.$command ]] || "$weft" "$command" --help >"help.$command"
    for word; do
        case $word in
            --*) grep -qE -- "(^|[ ,|[])${word%%=*}([] ,=|]|\$)" "help.$command" ||
                fail "$page: weft $command $*: no flag ${word%%=*}" ;;
            model.init=* | adapter.init=*) ;; # of a folder that is not here
            *=[A-Z]* | replicator.kind=halves) ;; # what the reader puts in; the guide's own kind
            *.*=* | method=*) [[ $before == --key ]] || keys+=("$word") ;;
            *.yaml) [[ ! -e $word || $before == --* ]] || files+=("$word") ;;
        esac
        before=$word
    done
    [[ ${#keys[@]} -gt 0 || ${#files[@]} -gt 0 ]] || return 0
    [[ " ${keys[*]} " == *" data.tokenizer=ids "* ]] && text=ids.bin
    run "$weft" config data.path=$text "${files[@]}" "${keys[@]}"
    [[ $code == 0 ]] || fail "$page: weft $command $*: $(head -1 err)"
}

"$weft" help >commands
say commands "${pages[@]}" >said || fail "the pages' commands can not be listed"
(($(wc -l <said) > 120)) || fail "fewer commands than the pages have: $(wc -l <said)"
# the pages are the same for every build: one with a sanitizer, ten times slower, reads some
ldd "$weft" | grep -qE "lib(a|t|ub)san" && sed -i -n '1~20p' said
while IFS=$'\t' read -r page line; do
    eval "words=($line)"
    makes_sense "$page" "${words[@]}"
done <said

# a program of the pages is C++ as well as C (cli/hour runs it as C)
n=0
for page in "$source_dir"/{docs/*,README,CONTRIBUTING}.md; do
    awk '/^```c(pp)?$/ {on = 1; next} /^```/ {on = 0} on' "$page" >program.cc
    grep -q "int main" program.cc || continue
    n=$((n + 1))
    for standard in c++11 c++20; do
        c++ -x c++ -std=$standard -Wall -Wextra -Werror -fsyntax-only -I "$source_dir/include" program.cc 2>err ||
            fail "$page: $(head -3 err)"
    done
done
((n > 0)) || fail "no page has a program"

"$weft" config --keys | cut -f 1 >known
say keys "${pages[@]}" >named || fail "the pages' keys can not be listed"
(($(wc -l <named) > 200)) || fail "fewer keys than the pages name: $(wc -l <named)"
while IFS=$'\t' read -r page key; do
    grep -qx "$key" known || fail "$page: $key is not a key"
done <named
finish
