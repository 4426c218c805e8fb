#!/bin/bash
# SPDX-License-Identifier: MIT
# Data as people have it: weft train my.txt, folders, packed lines, tables, pipes; what is not
# text is refused by name.
. "$2/tests/cli/helpers.sh"
rm -rf ./*.bin ./*.json runs texts ./*.txt ./*.jsonl* ./*.csv picture*
# shellcheck disable=SC2086 # $small is words
small="model.layers=1 model.width=8 model.heads=2 data.length=8 batch.tokens_per_step=32
run.steps=2 schedule.warmup=1 run.eval_every=0 run.tensorboard=false mesh.threads=1"

for i in $(seq 200); do echo "the cat $i and the dog $((i % 7)) sat on the mat"; done >my.txt
mkdir -p texts/below
sed -n 1,100p my.txt >texts/below/b.md
sed -n 101,200p my.txt | gzip >texts/c.txt.gz
while read -r line; do printf '{"id": 1, "body": "%s"}\n' "$line"; done <my.txt >my.jsonl
{ echo 'id,body'; sed 's/.*/1,"&"/' my.txt; } >my.csv

# A text, a folder, lines, a table and a pipe are trained on as they are, and the run's first
# loss is the same where the text is the same.
train() { # train NAME ARGUMENTS..: the run's training tokens and losses are in NAME.steps
    local name=$1
    shift
    # shellcheck disable=SC2086
    expect 0 "$weft" train "$@" $small run.folder="runs/$name" --json
    grep -o '"loss": [0-9.]*' out >"$name.steps"
    [[ -s $name.steps ]] || fail "no losses of $name"
}
train text my.txt
train list my.txt data.path=my.txt
head -60 my.txt | sed '1~9s/$/<|endoftext|>/' >parts.txt # said once, though a text is looked at before it is read
# shellcheck disable=SC2086
expect 0 "$weft" train parts.txt $small run.folder=runs/parts
(($(grep -c '^parts.txt: <|endoftext|> ends [0-9]* documents$' err) == 1)) || fail "documents: $(head -3 err)"
# shellcheck disable=SC2002,SC2086
cat my.txt | "$weft" train - $small run.folder=runs/piped --json >out 2>err || fail "a pipe: $(cat err)"
grep -o '"loss": [0-9.]*' out >piped.steps

# A pipe that nobody writes to is waited for, until somebody does or one signal ends the wait; the
# folder is then free for the next run.
rm -f pipe
mkfifo pipe
# shellcheck disable=SC2086
"$weft" train pipe $small run.folder=runs/waits >out 2>err &
waiting=$!
until [[ -e runs/waits/lease ]]; do kill -0 $waiting || fail "did not wait: $(cat err)"; done
kill -TERM $waiting
wait $waiting && fail "ended well without a text"
grep -qx "weft: stopped while pipe was read, before the first step; nothing is saved" err ||
    fail "a signal while a pipe is waited for: $(cat err)"
cat my.txt >pipe &
train waits pipe
same text.steps waits.steps
wait
train lines my.jsonl data.field=body
train table my.csv data.column=body
train folder texts
same text.steps list.steps
same text.steps piped.steps
same text.steps lines.steps # bytes have no end token: documents are told apart by newlines
same text.steps table.steps
same text.steps folder.steps
train two my.txt my.jsonl data.field=body data.tokenizer=bpe data.vocab=300
refuses_like "- can be read only once.*" "$weft" train - $small data.tokenizer=bpe run.folder=runs/x

expect 0 "$weft" data encode my.txt -o text.bin
expect 0 "$weft" data encode texts -o folder.bin
expect 0 "$weft" data encode my.jsonl --field body -o lines.bin

# A tokenizer learns from the text that is in a file, not from how the file packs it.
learns() {
    prints "learnt.json: 280 ids from $1 bytes of text" "$weft" data train-tokenizer "${@:2}" -o learnt.json --vocab 280
}
sed -n 101,200p my.txt >plain.txt
gzip -k plain.txt
learns "$(wc -c <plain.txt)" plain.txt
mv learnt.json wanted.json
learns "$(wc -c <plain.txt)" plain.txt.gz
same learnt.json wanted.json
"$weft" data train-tokenizer - -o learnt.json --vocab 280 <plain.txt >out 2>err || fail "$(cat err)"
same learnt.json wanted.json
learns "$(($(wc -c <my.txt) - 1))" my.jsonl --field body
refuses "/dev/zero is not a regular file or a pipe" "$weft" data train-tokenizer /dev/zero -o x.json
ln -sf /dev/zero endless
refuses "endless has more than 67108864 bytes, expected a description" "$weft" plan --hf endless
refuses "endless is no file, expected one with a machine in each line" \
    "$weft" doctor --hostfile endless
rm plain.txt plain.txt.gz learnt.json wanted.json
# shellcheck disable=SC2002
cat my.txt | "$weft" data encode - -o piped.bin >out || fail "encoding a pipe: $(cat out)"
same text.bin folder.bin
same text.bin lines.bin
same text.bin piped.bin
train shard text.bin
same text.steps shard.steps

printf '\x89PNG\r\n\x1a\n\x00\x00\x00' >picture
refuses "picture is a PNG picture, expected text in UTF-8" "$weft" data encode picture -o x.bin
refuses_like "picture is a PNG picture.*" "$weft" train data.path=picture $small run.folder=runs/x
refuses_like ".*there is no field 'text', but id, body; set data.field" \
    "$weft" train my.jsonl $small run.folder=runs/x
refuses_like ".*none of the 2 columns is named 'text'; set data.column" \
    "$weft" train my.csv $small run.folder=runs/x
mkdir -p texts2
echo x >texts2/a.rst
refuses_like "the folder texts2 has no .*" "$weft" train texts2 $small run.folder=runs/x
refuses "/dev/null is not a regular file or a pipe" "$weft" train /dev/null $small run.folder=runs/x

# A run that is not finite any more ends; a reader of JSON, which stops at nan, has read all before.
expect 1 "$weft" train my.txt $small run.steps=8 optimizer.kind=sgd optimizer.lr=1000 optimizer.clip=0 \
    run.folder=runs/nan --json
grep -q "not finite" err || fail "it does not say that it is not finite: $(cat err)"
grep -q 'nan\|inf' out && fail "JSON with $(grep -m1 'nan\|inf' out)"

# A file's name must not reach the terminal as a command of its own.
name=$(printf 'a\033[31mb.txt')
refuses "could not open a?[31mb.txt: No such file or directory" "$weft" train "$name" $small \
    run.folder=runs/x

# Parquet and Arrow, alone or a folder of them, by the program that the refusal names.
python=${WEFT_PYTHON:-python3}
if "$python" -c "import pyarrow" 2>/dev/null; then
    "$python" - <<'END'
import os, pyarrow as pa, pyarrow.parquet
table = pa.table({"body": open("my.txt").read().splitlines()})
os.makedirs("tables/below", exist_ok=True)
pa.parquet.write_table(table.slice(0, 100), "tables/a.parquet", row_group_size=30)
with pa.ipc.new_stream("tables/below/b.arrow", table.schema) as out:
    out.write_table(table.slice(100))
with pa.ipc.new_file("all.feather", table.schema) as out:
    out.write_table(table)
END
    for tables in tables all.feather; do
        # shellcheck disable=SC2086
        expect 2 "$weft" train $tables $small run.folder=runs/none
        line=$(grep -o 'python examples/tables.py FILE > lines.jsonl' err) || fail "$tables: $(cat err)"
        line=${line/python/$python} line=${line/FILE/$tables}
        COLUMN=body bash -c "${line/examples/$source_dir/examples}" || fail "$line"
        train tables-$tables lines.jsonl
        same text.steps tables-$tables.steps
    done
else
    echo "not tested: Parquet and Arrow ($python has no pyarrow)"
fi

finish
