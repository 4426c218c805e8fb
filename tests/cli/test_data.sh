#!/bin/bash
# SPDX-License-Identifier: MIT
# weft data: tokenizers and token shards.
. "$2/tests/cli/helpers.sh"
rm -f ./*.bin ./*.json

printf 'a"b\\\n\xff' >tiny.txt
expect 0 "$weft" data encode tiny.txt -o tiny.bin
grep -qxF "tiny.bin: 6 tokens" out || fail "encode says: $(cat out)"
grep -q "tiny.txt is not UTF-8 from byte 6 on (0xff)" err || fail "an old encoding is not said: $(cat err)"
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
# Ids without a tokenizer: a run on them is the run on the text that they stand for, to the bit;
# texts of such a model are numbers, and what is no id is refused.
ids_run() { # ids_run NAME KEY..: the losses of a run on a shard in NAME.losses
    local name=$1
    shift
    expect 0 "$weft" train model.layers=1 model.width=16 model.heads=2 data.length=16 \
        batch.tokens_per_step=64 run.steps=4 schedule.warmup=1 run.eval_tokens=256 \
        run.tensorboard=false mesh.threads=1 run.save_every=2 run.folder="ids/$name" --json "$@"
    grep -oE '"(validation_)?loss": [0-9.]*' out >"$name.losses"
    [[ -s $name.losses ]] || fail "no losses of $name"
}
rm -rf ids
tail -c +65 one.bin >raw.bin # without weft's header: uint16, as nanoGPT has them
ids_run known data.path=one.bin data.tokenizer=tokenizer.json
ids_run shard data.path=one.bin data.tokenizer=ids data.vocab=280
ids_run raw data.path=raw.bin data.tokenizer=ids data.vocab=280
same known.losses shard.losses
same known.losses raw.losses
rm -r ids/raw/checkpoints/step-00000004
expect 0 "$weft" train ids/raw/config.yaml --resume --json
tail -2 known.losses >wanted
grep -oE '"(validation_)?loss": [0-9.]*' out | tail -2 >last
same last wanted
expect 0 "$weft" sample ids/raw --prompt "5 279 0" --tokens 4
grep -qxE '5 279 0( [0-9]+){4}' out || fail "sampled ids: $(cat out)"
expect 0 "$weft" eval ids/raw
grep -q "nats per token, perplexity .*[0-9] tokens" out || fail "eval of ids: $(cat out)"
grep -q byte out && fail "bytes of ids: $(cat out)"
refuses "the text has 'cat' at byte 2, expected ids from 0 to 279 with a blank between two: the \
model was trained with data.tokenizer=ids" "$weft" sample ids/raw --prompt "5 cat"
refuses "the text has '280' at byte 0, expected ids from 0 to 279 with a blank between two: the \
model was trained with data.tokenizer=ids" "$weft" sample ids/raw --prompt "280"
refuses "text.txt is text, expected token ids in a shard (.bin): the tokenizer is ids" \
    "$weft" train text.txt data.tokenizer=ids data.vocab=280 run.folder=ids/text
refuses_like "token [0-9]+ of raw.bin has the id 27[0-9], expected 0 to 269: .*" \
    "$weft" train raw.bin data.tokenizer=ids data.vocab=270 run.folder=ids/small
refuses "the tokenizer 'ids' is of runs on shards: it knows no text" \
    "$weft" data encode text.txt -o x.bin --tokenizer ids

# Of a small alphabet: four bases as uint16.
for i in {1..600}; do printf '\\0\\0\\1\\0\\3\\0\\2\\0'; done >bases.txt
printf '%b' "$(cat bases.txt)" >bases.bin
ids_run bases data.path=bases.bin data.tokenizer=ids data.vocab=4
refuses_like "token 2 of bases.bin has the id 3, expected 0 to 2: .*" \
    "$weft" train bases.bin data.tokenizer=ids data.vocab=3 run.folder=ids/three

printf 'x' | dd of=one.bin bs=1 seek=200 conv=notrunc 2>/dev/null
expect 2 "$weft" data inspect one.bin
[[ ! -e x.bin && ! -e x.json ]] || fail "a refused command left a file"

finish
