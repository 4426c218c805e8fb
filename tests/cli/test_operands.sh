#!/bin/bash
# SPDX-License-Identifier: MIT
# No operand is silently another thing: a folder with config.yaml is a run, one with config.json a
# model, files are told apart by their names and beginnings.
. "$2/tests/cli/helpers.sh"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
empty_here
write_sentences >my.txt
small=(model.layers=1 model.width=16 model.heads=2 data.length=16 batch.tokens_per_step=64 schedule.warmup=0)

# says LINE FILE: the line is in it
says() { grep -qxF -- "$1" "$2" || fail "no line '$1' in: $(head -3 "$2")"; }
# once TEXT: one line of err holds it
once() { [[ $(grep -cF -- "$1" err) == 1 ]] || fail "not once '$1': $(cat err)"; }

# -- numbers in JSON have the fewest digits that read back to them
expect 0 "$weft" config data.path='a"0.050000000000000003\' optimizer.lr=0.12345678901234567 --json
python3 - <<'P' || fail "config --json: $(cat out)"
import json
read = json.loads(open("out").read(), parse_float=lambda text: (text, float(text)))
numbers = [v for section in read.values() if isinstance(section, dict) for v in section.values() if isinstance(v, tuple)]
assert len(numbers) > 20 and all(len(text) <= len(repr(x)) for text, x in numbers), numbers
assert read["optimizer"]["lr"][1] == 0.12345678901234567 and read["data"]["path"] == ['a"0.050000000000000003\\'], read["data"]
P

# -- a run folder, also with = in its name
expect 0 "$weft" train my.txt "${small[@]}" run.steps=3 --folder a=b
prints "  lr: 0.0012" "$weft" config # as a run with a text has it
prints "  width: 16" "$weft" config a=b/
says "  folder: a=b" out
expect 0 "$weft" plan a=b --nodes 2 --link 1Gbit,1ms --node-flops 100G
mv a=b moved
mkdir elsewhere
expect 0 "$weft" train moved --resume run.steps=5
grep -q "resumes  after step 3" err || fail "not resumed: $(cat err)"
[[ ! -e a=b ]] || fail "the run was continued where it had been"

expect 0 "$weft" train my.txt "${tiny[@]}" run.steps=2 --resume --folder none_yet
once "resumes  nothing: the folder has no run, a new one begins"

(cd elsewhere && run "$weft" train ../moved --resume run.steps=6 && grep -q "resumes  after step 5" err) ||
    fail "not resumed from another folder: $(cat elsewhere/err)"

# another text than the run began with is named, the same one at another place is not
cp my.txt moved.txt
expect 0 "$weft" train moved --resume run.steps=7 data.path=moved.txt
! grep -q "other data" err || fail "the same text: $(cat err)"
sed 's/e/a/' my.txt >changed.txt
expect 0 "$weft" train moved --resume run.steps=8 data.path=changed.txt
once "moved/checkpoints/step-00000007 was trained on other data than data.path and data.validation_path name now"

# -- a second run of the same name has a folder of its own, and one warning
some_text >text.txt
for i in 1 2; do
    expect 0 "$weft" train text.txt "${tiny[@]}" run.steps=2 schedule.warmup=3
    once "longer than run.steps"
done
[[ -e runs/weft-2/metrics.jsonl ]] || fail "no second folder: $(ls runs)"
expect 0 "$weft" verify runs/weft
grep -q "views.jsonl  *1 line\$" out || fail "not one line: $(grep views out)"

# -- a model folder
mkdir model
cp "$(ls -d moved/checkpoints/* | tail -1)"/{config.json,model.safetensors} model
prints "  init: model" "$weft" config model
expect 0 "$weft" plan model --nodes 2 --link 1Gbit,1ms --node-flops 100G
expect 0 "$weft" eval model --data my.txt
# without a tokenizer it reads bytes, if those are its ids
sed 's/"vocab_size": 256/"vocab_size": 300/' model/config.json >c && mv c model/config.json
grep -q '"vocab_size": 300' model/config.json || fail "no vocabulary of 300 in config.json"
why="model has no tokenizer.json, and its model has 300 ids: without one it would be 256, the bytes; put it there, or set data.tokenizer"
refuses "$why" "$weft" train model my.txt --folder new
refuses "$why" "$weft" eval model --data my.txt
no_files new

# -- files: what is not there, what the name does not say
refuses "could not open nothere.txt: No such file or directory" "$weft" plan nothere.txt
cp my.txt notes.rst
cp my.txt a=b.txt
expect 0 "$weft" train notes.rst "${small[@]}" run.steps=1 --folder rst
once "notes.rst is read as text, because it begins with no section of a run file; data.path=notes.rst says so, a run file is named *.yaml"
expect 0 "$weft" train a=b.txt "${small[@]}" run.steps=1 --folder equals
[[ $(grep -c warning err) == 0 ]] || fail "a warning: $(cat err)"
for command in plan train config; do
    refuses "model/config.json describes a model, expected the folder that it is in; weft plan --hf model/config.json reads it alone" \
        "$weft" $command model/config.json
done
printf '# keys\n\nmodel:\n  width: 48\n' >keys
prints "  width: 48" "$weft" config keys
printf 'modell:\n  width: 48\n' >keys.yaml
refuses_like "keys.yaml:1: unknown .*modell.*" "$weft" config keys.yaml

# -- an old encoding is told once
for i in 1 2 3; do printf 'caf\xe9 noir\n%.0s' {1..300} >latin$i.txt; done
expect 0 "$weft" train latin{1,2,3}.txt "${small[@]}" run.steps=1 --folder latin
once "latin1.txt is not UTF-8 from byte 4 on (0xe9): its bytes are taken as they are; convert it, as by iconv -f LATIN1 -t UTF-8"
once "UTF-8"

finish

refuses "rtx-4090 is an accelerator and no file here, expected weft plan --accelerator rtx-4090 --link 1Gbit,1ms" \
    "$weft" plan rtx-4090

# -- train, plan and config refuse the same texts and ids
: >empty.txt
gzip -c empty.txt >packed.txt.gz
echo "{\"body\": \"$(printf '%400s')a\"}" >body.jsonl
printf 'a,b\n1,%400s\n' 2 >body.csv
printf '%2000s' | tr ' ' '\377' >ids.bin
printf '%2001s' >odd.bin
alike() { # alike SENTENCE ARGUMENTS..
    for command in config plan train; do refuses "$1" "$weft" "$command" "${@:2}"; done
}
alike "empty.txt is empty, expected text" empty.txt
alike "empty.txt is empty, expected text" data.path=empty.txt
alike "packed.txt.gz is empty, expected text" packed.txt.gz
alike "body.jsonl, line 1: there is no field 'text', but body; set data.field" my.txt body.jsonl
alike "body.csv: none of the 2 columns is named 'text'; set data.column" body.csv
alike "token 0 of ids.bin has the id 65535, expected 0 to 255: the file was written with another tokenizer, or holds no tokens" ids.bin
alike "odd.bin has 2001 bytes, which is no known format and not a whole number of uint16" odd.bin
alike "my.txt is text, expected token ids in a shard (.bin): the tokenizer is ids" my.txt data.tokenizer=ids
printf 'one two three one two three one two' >few.txt
alike "data.length is 16 but few.txt has only 8 training tokens, expected at least 17" few.txt \
    data.tokenizer=bpe data.vocab=300 data.length=16
expect 0 "$weft" config body.jsonl data.field=body data.length=16
expect 0 "$weft" config body.csv data.column=b data.length=16
expect 0 "$weft" config ids.bin data.tokenizer=ids data.vocab=65536 data.length=16
expect 0 "$weft" config body.jsonl data.rows=prompts # what a row has to hold follows from its form
expect 0 "$weft" config data.path=on_another_machine.txt
# only a short file is read to its end: this one's last line, in what follows, is cut off
{ for _ in $(seq 2000); do echo '{"text": "a b c"}'; done && printf '{"te'; } >cut.jsonl
expect 0 "$weft" config cut.jsonl data.length=16
alike "cut.jsonl, line 2001: not a JSON object: line 1, column 4: premature end of input near '\"te'" cut.jsonl

# -- a width beside a model is compared with that model
refuses "model.width is 64, but the model in $(ls -d moved/checkpoints/* | tail -1) has 16; leave the key out" \
    "$weft" config model.init=moved model.width=64

# -- a server that says nothing is named while it is waited for
python3 - <<'P' &
import socket
listener = socket.create_server(("127.0.0.1", 0))
open("port.new", "w").write(str(listener.getsockname()[1]))
__import__("os").rename("port.new", "port")
kept = []
while True:
    kept.append(listener.accept())
P
server=$!
until [[ -e port ]]; do kill -0 $server || fail "no server"; done
address=http://127.0.0.1:$(cat port)/a.txt
"$weft" config "$address" >out 2>err &
waiting=$!
until grep -q "waits for $address" err; do kill -0 $waiting || fail "not named: $(cat err)"; done
kill $waiting $server
wait
