#!/bin/bash
# SPDX-License-Identifier: MIT
# Files, folders and addresses that look like a text and are something else are told by what they
# hold, by every command that takes them and before anything starts.
. "$2/tests/cli/helpers.sh"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE http_proxy https_proxy all_proxy
empty_here
need_python
export WEFT_CACHE=$PWD/cache
write_sentences >my.txt
small=(model.layers=1 model.width=16 model.heads=2 data.length=16 batch.tokens_per_step=64 schedule.warmup=0
    run.steps=1)
cluster=(--nodes 2 --link 1Gbit,1ms --node-flops 100G)

# refused SENTENCE NAME: by train, plan and config alike, and nothing is left behind
refused() {
    local sentence=$1 name=$2
    refuses "$sentence" "$weft" train "$name" "${small[@]}" --folder new
    refuses "$sentence" "$weft" plan "$name" "${cluster[@]}"
    refuses "$sentence" "$weft" config "$name"
    no_files new
}

# -- files
python3 - <<'P2'
import gzip, json, pickle, sqlite3, zipfile
text = open("my.txt").read()
lines = [{"text": line} for line in text.splitlines()]
def write(name, data):
    open(name, "wb").write(data if isinstance(data, bytes) else data.encode())
json.dump(lines, open("list.json", "w"))
json.dump({"rows": lines}, open("object.json", "w"))
json.dump({"cells": [{"cell_type": "markdown", "source": [text]}], "nbformat": 4}, open("book.ipynb", "w"), indent=1)
write("lines.txt", "".join(json.dumps(line) + "\n" for line in lines))
write("page.html", "<!DOCTYPE html>\n<html><body>" + text)
write("feed.xml", '<?xml version="1.0"?>\n<rss><channel>' + text)
for name in "svg xmlns='x'", "rss version='2.0'", "feed xmlns='x'", "urlset", "sitemapindex", "mediawiki version='1'":
    write(name.split()[0] + ".txt", "\n<" + name + ">" + text)
write("paper.pdf", "%PDF-1.4\n1 0 obj\n" + text)
write("paper.txt", "%PDF-1.4\n1 0 obj\n" + text)
write("letter.rtf", r"{\rtf1\ansi " + text + "}")
write("wide.txt", text.encode("utf-16-le"))
write("table.txt", b"PAR1" + bytes(range(256)))
write("pointer.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
write("code.txt", "[1] Smith et al.\n{\"x\"} is how a text may begin, too\n" + text)
pickle.dump(lines, open("ids.bin", "wb"), protocol=4)
sqlite3.connect("base.db").executescript("create table a(b)")
zipfile.ZipFile("letter.docx", "w").writestr("word/document.xml", text)
gzip.open("page.txt.gz", "wb").write(open("page.html", "rb").read())
P2
tar cf it.tar my.txt
cp "$(command -v bash)" program
mkfifo pipe
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
text="expected text in UTF-8"
refused "list.json is a JSON list (jq -c '.[]' FILE > lines.jsonl writes it as lines), $text" list.json
refused "object.json is a JSON object (jq -c . FILE > line.jsonl writes it as a line), $text" object.json
refused "book.ipynb is a Jupyter notebook (jupyter nbconvert --to markdown FILE writes it as text), $text" book.ipynb
refused "lines.txt is JSON, an object on each line (a file of them is named *.jsonl), $text" lines.txt
refused "page.html is an HTML page, $text" page.html
refused "page.txt.gz is an HTML page, $text when unpacked" page.txt.gz
for name in feed.xml svg.txt rss.txt feed.txt urlset.txt sitemapindex.txt mediawiki.txt; do
    refused "$name is an XML document (xmllint --xpath 'string(/)' FILE writes its text), $text" $name
done
for name in paper.pdf paper.txt; do
    refused "$name is a PDF document (pdftotext FILE writes its text), $text" $name
done
refused "letter.rtf is an RTF document (save it as text), $text" letter.rtf
refused "letter.docx is a ZIP archive (or a document, model or notebook stored as one), $text" letter.docx
refused "wide.txt is text in UTF-16 (convert it by iconv -f UTF-16LE -t UTF-8), $text" wide.txt
refused "table.txt is a Parquet table (python examples/tables.py FILE > lines.jsonl writes it as text; of an installed weft it is in share/doc/weft), $text" table.txt
refused "pointer.txt is what Git LFS leaves in place of a file (git lfs pull brings it), $text" pointer.txt
refused "base.db is an SQLite data base, $text" base.db
refused "it.tar is a tar archive, $text" it.tar
refused "program is a program or library (ELF), $text" program
refused "ids.bin is a pickle of Python's, expected token ids" ids.bin
refused "socket is not a regular file or a pipe" socket
expect 0 "$weft" train code.txt "${small[@]}" --folder code
refuses "my.txt is a file, expected a run folder" "$weft" report my.txt

refused "data.path names code.txt twice, expected it once; data.weights says how often each text is read" \
    data.path=code.txt,code.txt

# what plan and config do not read they do not wait for
expect 0 "$weft" config pipe

# -- run files: other programs' keys are named, an object of weft's own is one
printf '{"model": {"width": 48}}' >keys.json
prints "  width: 48" "$weft" config keys.json
printf 'base_model: x\nlearning_rate: 1\n' >other.yaml
for command in train plan config; do
    refuses_like "other.yaml:1: unknown key 'base_model'.*" "$weft" $command other.yaml
done

# -- folders
mkdir empty mixed
refused "the folder empty has no *.txt, *.md, *.jsonl, *.csv (or those with .gz or .zst) and no *.bin" empty
mkdir -p papers
printf '%%PDF-1.4' | tee papers/a.pdf >papers/b.pdf
refused "the folder papers has no *.txt, *.md, *.jsonl, *.csv (or those with .gz or .zst) and no *.bin, but 2 .pdf" papers
cp my.txt mixed/a.txt
cp my.txt mixed/a.rst
cp list.json mixed/b.json
cp list.json mixed/c.json
cp my.txt mixed/LICENSE
for command in "train --folder left ${small[*]}" "plan ${cluster[*]}" config; do
    # shellcheck disable=SC2086
    expect 0 "$weft" $command mixed
    [[ $(grep -c "left out (" err) == 1 ]] || fail "not told once: $(cat err)"
    for word in "mixed: 1 files are read, 4 are left out" "2 .json" "1 .rst" "1 without an ending"; do
        grep -qF "$word" err || fail "no '$word': $(cat err)"
    done
done
mkdir page
cp my.txt page/a.txt
cp page.html page/b.txt
refused "page/b.txt is an HTML page, $text" page

mkdir runs
cp -r code runs/a
cp -r code runs/b
refused "runs holds runs, expected one of them or texts: runs/a, runs/b" runs
mkdir runs/{c,d,e}
for name in c d e; do cp code/{config.yaml,metrics.jsonl} runs/$name; done
refused "runs holds runs, expected one of them or texts: runs/a, runs/b, runs/c, runs/d and 1 more" runs
# one rule for operands and data.path: config.yaml makes a run, config.json a model
mkdir begun described
cp my.txt begun/a.txt
cp my.txt described/a.txt
cp code/config.yaml begun
cp code/checkpoints/step-*/config.json described
refused "begun is the folder of a run, expected texts" data.path=begun
refused "described is the folder of a model, expected texts" data.path=described
prints "  folder: begun" "$weft" config begun
for flags in "" --resume; do
    refuses "runs/a and runs/b are two runs, expected one" "$weft" train runs/a runs/b $flags
done

# -- a model
cp code/checkpoints/step-*/config.json .
mkdir -p web/model web/texts
mv config.json web/model
cp pointer.txt web/model/model.safetensors
refuses "web/model/model.safetensors is what Git LFS leaves in place of a file (git lfs pull brings it), expected a safetensors file of weights" \
    "$weft" eval web/model --data my.txt
cp my.txt web/model/README.md
refuses "web/model is the folder of a model, expected texts" \
    "$weft" train data.path=web/model "${small[@]}" --folder new
refuses "code is the folder of a run, expected texts" "$weft" eval code --data code
refuses "page.html is an HTML page, expected JSON" "$weft" plan --hf page.html "${cluster[@]}"
refuses "$PWD/page.html is an HTML page, expected JSON" \
    "$weft" train my.txt data.tokenizer="$PWD/page.html" "${small[@]}" --folder new
cp code/checkpoints/step-*/model.safetensors web/model

prints "  width: 16" "$weft" config model.init=code
refuses "web/model and web/model are two models, expected one" "$weft" config web/model web/model
refuses "--data is '-', but its text is read twice, expected a file" "$weft" eval code --data -
refuses "there is no folder nothere" "$weft" config model.init=nothere

# -- addresses
cp my.txt page.html book.ipynb it.tar web
cp page.html web/fake.txt
cp my.txt web/texts
python3 -u -m http.server --bind 127.0.0.1 -d web 0 >port.txt 2>/dev/null &
server=$!
trap 'kill $server 2>/dev/null' EXIT
await_text port.txt
at=http://127.0.0.1:$(sed -n 's/.*port \([0-9]*\).*/\1/p' port.txt)
if "$weft" config "$at/my.txt" 2>&1 | grep -q 'built without libcurl'; then
    finish
    skip "built without libcurl"
fi
other="expected text in UTF-8, token ids or the folder of a model"
refused "$at/page.html is an HTML page, $other" "$at/page.html"
refused "$at/fake.txt is an HTML page, $other" "$at/fake.txt"
refused "$at/texts is an HTML page, $other" "$at/texts"
refused "$at/it.tar is a tar archive, $other" "$at/it.tar"
refused "$at/book.ipynb is a Jupyter notebook (jupyter nbconvert --to markdown FILE writes it as text), $other" \
    "$at/book.ipynb"
for name in nothere nothere.txt; do
    refused "could not fetch $at/$name: the server answers 404" "$at/$name"
done
refused "$at/run.yaml is the address of a run file, expected one on this machine: fetch it first" "$at/run.yaml"
refuses "s3://b/x is an address, expected a run folder of this machine; weft train ADDRESS --resume brings the run and \
compares its bytes" "$weft" watch s3://b/x
refused "ftp://x/y.txt is an address that is not known, expected https://, http://, s3:// or a file" ftp://x/y.txt
refuses "$at/page.html is an HTML page, $text" "$weft" train data.path="$at/page.html" "${small[@]}" --folder new
expect 0 "$weft" plan "$at/my.txt" "${cluster[@]}"
expect 0 "$weft" train "$at/my.txt" "${small[@]}" --folder fetched
expect 0 "$weft" train my.txt "${small[@]}" --folder read
for run in fetched read; do grep -o '"loss":[^,]*' $run/metrics.jsonl >$run.losses; done
same fetched.losses read.losses

# a folder with a model is one, also right after it was fetched as a text
refuses "$at/model is an HTML page, $text" "$weft" train data.path="$at/model" "${small[@]}" --folder new
prints "  width: 16" "$weft" config model.init="$at/model"
refuses "$at/my.txt is data, expected a model" "$weft" config model.init="$at/my.txt"
expect 0 "$weft" eval "$at/model" --data my.txt
expect 0 "$weft" eval web/model --data my.txt
cp out there
expect 0 "$weft" eval "$at/model" --data my.txt
same there out
expect 0 "$weft" train "$at/model" my.txt "${small[@]}" --folder begun
grep -q "init: \"$at/model\"" begun/config.yaml || fail "not begun from the model: $(grep init: begun/config.yaml)"
expect 0 "$weft" plan web/model "${cluster[@]}"
cp out there
expect 0 "$weft" plan "$at/model" "${cluster[@]}"
same there out
finish
