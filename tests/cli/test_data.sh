#!/bin/bash
# SPDX-License-Identifier: MIT
# weft data: tokenizers and token shards. Usage: test_data.sh PROGRAM SOURCE_DIR
weft=$1
source_dir=$2
# shellcheck source=tests/cli/helpers.sh
. "$source_dir/tests/cli/helpers.sh"
rm -f ./*.bin ./*.json

printf 'a"b\\\n\xff' >tiny.txt
prints "tiny.bin: 6 tokens" "$weft" data encode tiny.txt -o tiny.bin
expect 0 "$weft" data inspect tiny.bin --tokenizer bytes --tokens 100
sed -n '/^[0-9]/p' out >tokens
printf '%s\n' '0 97 "a"' '1 34 "\""' '2 98 "b"' '3 92 "\\"' '4 10 "\x0a"' '5 255 "\xff"' >wanted
same tokens wanted
prints "format: weft" "$weft" data inspect tiny.bin

for i in $(seq 300); do echo "the cat $i and the dog $((i % 7)) sat on the mat"; done >text.txt
expect 0 "$weft" data train-tokenizer text.txt tiny.txt -o tokenizer.json --vocab 280 --split llama3
bytes=$(cat text.txt tiny.txt | wc -c)
[[ $(cat out) == "tokenizer.json: 280 ids from $bytes bytes of text" ]] || fail "said: $(cat out)"
prints "ids: 280" "$weft" data inspect tokenizer.json
prints "kind: bpe" "$weft" data inspect tokenizer.json
hash=$("$weft" data inspect tokenizer.json | grep hash)
expect 0 "$weft" data encode text.txt -o one.bin --tokenizer tokenizer.json --threads 1
expect 0 "$weft" data encode text.txt --tokenizer=tokenizer.json --threads=3 -o three.bin
same one.bin three.bin
prints "$hash" "$weft" data inspect one.bin

refuses "an argument is missing, expected: weft data train-tokenizer|encode|inspect FILE ... \
[flags]" "$weft" data
refuses "cannot 'encod' data, expected train-tokenizer, encode or inspect (did you mean 'encode'?)" \
    "$weft" data encod text.txt
refuses "cannot 'qq' data, expected train-tokenizer, encode or inspect" "$weft" data qq
refuses "encode needs a file to read" "$weft" data encode
refuses "encode needs -o FILE, the file to write" "$weft" data encode text.txt
refuses "train-tokenizer needs -o FILE, the file to write" "$weft" data train-tokenizer text.txt
refuses "-o needs a value: -o FILE" "$weft" data encode text.txt -o
refuses "--vocab is '12', expected a whole number from 256 to 16777216" \
    "$weft" data train-tokenizer text.txt -o x.json --vocab 12
refuses "--threads is '2x', expected a whole number from 1 to 4096" \
    "$weft" data encode text.txt -o x.bin --threads 2x
refuses "could not open nowhere.txt: No such file or directory" \
    "$weft" data train-tokenizer text.txt nowhere.txt -o x.json
refuses "text.txt is neither a token shard (.bin) nor a tokenizer.json" \
    "$weft" data inspect text.txt
expect 2 "$weft" data encode nowhere.txt -o x.bin
expect 2 "$weft" data inspect tiny.bin --tokenizer tokenizer.json
printf 'x' | dd of=one.bin bs=1 seek=200 conv=notrunc 2>/dev/null
expect 2 "$weft" data inspect one.bin
[[ ! -e x.bin && ! -e x.json ]] || fail "a refused command left a file"

finish
