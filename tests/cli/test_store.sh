#!/bin/bash
# SPDX-License-Identifier: MIT
# Texts, models and checkpoints at https:// and s3:// addresses, with a store (store.py) that checks
# signatures, ends answers in the middle and is killed while a run uploads.
. "$2/tests/cli/helpers.sh"
empty_here
need_python
unset http_proxy https_proxy all_proxy
export WEFT_CACHE=$PWD/cache AWS_REGION=eu-test-1
mkdir -p store/plain store/texts

# store_begins: on the port that it had before, if it had one.
store_begins() {
    rm -f port.txt
    python3 "$source_dir/tests/cli/store.py" "$PWD/store" ${port:+"$port"} >port.txt 2>store.err &
    store=$!
    await_text port.txt
    port=$(cat port.txt)
    [[ -n $port ]] || fail "the store does not start: $(cat store.err)"
}
store_ends() {
    kill -9 "$store"
    wait "$store" 2>/dev/null
}
trap 'kill -9 "$store" 2>/dev/null' EXIT
port=""
store_begins
export AWS_ENDPOINT_URL=http://127.0.0.1:$port

some_text >store/plain/a.txt
cp store/plain/a.txt store/texts/'a b+c.txt'
cp store/plain/a.txt here.txt
key=(env AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=test/secret+key)

if "$weft" train "http://127.0.0.1:$port/plain/none" "${tiny[@]}" 2>&1 | grep -q 'built without libcurl'; then
    refuses_like "http://.*/plain/a.txt is an address, and this weft was built without libcurl .*" \
        "$weft" train "http://127.0.0.1:$port/plain/a.txt" "${tiny[@]}"
    finish
    skip "built without libcurl"
fi

# A text is the same from a file, by http and from a bucket, though an answer ends in the middle; what
# has come is not fetched again.
expect 0 "$weft" train here.txt "${tiny[@]}" run.folder=file run.upload=
printf 'cut a.txt 3000\nfail a%%20b 2\n' >tricks
expect 0 "$weft" train "http://127.0.0.1:$port/plain/a.txt" "${tiny[@]}" run.folder=http
expect 0 "${key[@]}" "$weft" train "s3://texts/a b+c.txt" "${tiny[@]}" run.folder=bucket
for run in http bucket; do
    [[ $(losses $run) == "$(losses file)" ]] || fail "another text by $run"
done
grep -q 'GET /plain/a.txt bytes=3000-' requests || fail "the rest was not asked for: $(cat requests)"
[[ $(grep -c 'GET /plain/a.txt' requests) == 2 ]] || fail "fetched again: $(cat requests)"
grep -q "s3://texts/a b+c.txt" bucket/config.yaml || fail "config.yaml does not name the address"

# After a minute the server is asked, and says that nothing has changed; or that it has.
touch -d '2 minutes ago' cache/*.whole
expect 0 "$weft" train "http://127.0.0.1:$port/plain/a.txt" "${tiny[@]}" run.folder=http2
[[ $(losses http2) == "$(losses file)" ]] || fail "another text after a 304"
touch -d '2 minutes ago' cache/*.whole
head -c 9000 here.txt >store/plain/a.txt
expect 0 "$weft" train "http://127.0.0.1:$port/plain/a.txt" "${tiny[@]}" run.folder=http3
[[ $(losses http3) != "$(losses file)" ]] || fail "an old text"

# One sentence for what is wrong.
base=http://127.0.0.1:$port
refuses "could not fetch $base/plain/none.txt: the server answers 404" \
    "$weft" train "$base/plain/none.txt" "${tiny[@]}"
refuses "s3://texts/x.txt needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment" \
    "$weft" train s3://texts/x.txt "${tiny[@]}"
refuses "s3://texts/x.txt needs AWS_ACCESS_KEY_ID in the environment" \
    env AWS_ACCESS_KEY_ID= AWS_SECRET_ACCESS_KEY=y "$weft" train s3://texts/x.txt "${tiny[@]}"
refuses "could not fetch s3://texts/x.txt: the server answers 403: AWS_SECRET_ACCESS_KEY is not that of AWS_ACCESS_KEY_ID" \
    env AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=wrong "$weft" train s3://texts/x.txt "${tiny[@]}"
refuses_like "s3://texts/../x.txt is no address that is understood, expected .*" \
    "${key[@]}" "$weft" train s3://texts/../x.txt "${tiny[@]}"
refuses "ftp://x/y.txt is an address that is not known, expected https://, http://, s3:// or a file" \
    "$weft" train ftp://x/y.txt "${tiny[@]}"
cp here.txt store/plain/endless.txt
refuses "the server of $base/plain/endless.txt does not say how many bytes it has: half of it would look like all" \
    "$weft" train "$base/plain/endless.txt" "${tiny[@]}"
refuses "run.upload is https://x/y, expected s3://BUCKET/PREFIX" \
    "$weft" train here.txt "${tiny[@]}" run.folder=no run.upload=https://x/y
# a refusal of the key is not taken for a run that is not there
refuses "could not fetch s3://b/r/latest: the server answers 403: the store does not know AWS_ACCESS_KEY_ID" \
    env AWS_ACCESS_KEY_ID=X AWS_SECRET_ACCESS_KEY=y "$weft" train here.txt "${tiny[@]}" run.folder=no2 \
    run.upload=s3://b/r --resume

# Process 0 writes the run folder: an address that another one alone has is said to do nothing.
at=$(free_port && echo "$port") # $port is the store's
for rank in 1 0; do
    given=()
    ((rank == 0)) || given=(run.upload=s3://b/other)
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$at "$weft" train here.txt "${tiny[@]}" mesh.nodes=2 \
        mesh.encrypt=off run.folder=two "${given[@]}" >"out.$rank" 2>"err.$rank" &
    two[rank]=$!
done
wait "${two[0]}" || fail "process 0: $(cat err.0)"
wait "${two[1]}" || fail "process 1: $(cat err.1)"
grep -q 'run.upload is set in 1 of the processes, but not in this one, which writes the run folder: nothing is copied' err.0 ||
    fail "nothing is said of run.upload: $(cat err.0)"
[[ ! -e store/b/other ]] || fail "there is a copy"

# Checkpoints and records are there at the end, the newest one named; its bytes are those here.
whole=("${tiny[@]}" run.steps=12 run.save_every=4 run.compare_every=0)
echo 'flip step-00000012/model.safetensors 2' >tricks # on the way: what comes is what was sent
expect 0 "${key[@]}" "$weft" train here.txt "${whole[@]}" run.folder=up run.upload=s3://b/run
same up/uploaded store/b/run/latest
[[ $(cat store/b/run/latest) == step-00000012 ]] || fail "latest: $(cat store/b/run/latest)"
diff -r up/checkpoints/step-00000012 store/b/run/step-00000012 || fail "another checkpoint"
same up/metrics.jsonl store/b/run/metrics.jsonl
for step in store/b/run/step-*; do
    [[ -f $step/index.json ]] || fail "$step has no index"
done
# The index goes after all that it lists.
awk '/PUT .b.run.step-00000012/ {last = $2} END {exit last !~ /index.json$/}' requests ||
    fail "the index was not last: $(grep step-00000012 requests)"
refuses "s3://b/run holds a run already, up to step 12; continue it with --resume or name another run.upload" \
    "${key[@]}" "$weft" train here.txt "${whole[@]}" run.folder=up2 run.upload=s3://b/run

refuses "s3://b/run is a run: expected --resume to continue it, or --init s3://b/run for a new run that begins with its model" \
    "${key[@]}" "$weft" train s3://b/run

# On a machine that has nothing: the same bits as a run that goes on where it was.
cp -r up all
expect 0 "$weft" train all --resume run.steps=20 run.upload=
mkdir fresh
mv up first
mv here.txt fresh
(cd fresh && "${key[@]}" "$weft" train s3://b/run --resume run.steps=20) >out 2>err </dev/null ||
    fail "resuming from the address: $(cat err)"
for file in fresh/up/checkpoints/step-00000020/{model,optimizer}.safetensors; do
    same "$file" "all/${file#fresh/up/}"
done
mv fresh/here.txt .
[[ $(losses fresh/up) == "$(losses all)" ]] || fail "the records were not brought"
[[ $(cat store/b/run/latest) == step-00000020 ]] || fail "latest after resuming: $(cat store/b/run/latest)"

# What lies there does not choose where this machine is written to.
cp -r store/b/run store/b/outside
for place in "$PWD/outside" ../outside fresh/../../outside; do
    for name in folder prometheus; do
        sed "s|^\( *folder:\) .*|\1 here|; s|^\( *$name:\) .*|\1 $place|" store/b/run/config.yaml >store/b/outside/config.yaml
        rm -rf cache
        refuses "the config.yaml of s3://b/outside has run.$name $place, which is outside this folder: set run.$name in \
the command" "${key[@]}" "$weft" train s3://b/outside --resume
    done
done
[[ ! -e ../outside && ! -e outside ]] || fail "written outside"
expect 0 "${key[@]}" "$weft" train s3://b/outside --resume run.steps=24 run.folder=kept run.prometheus="$PWD/outside"
[[ -s outside ]] || fail "not written where the command says"
# Nor which of its files are read, in a list too, or under a name that only looks like an address.
for set in "data.path [$PWD/here.txt]" "data.path [s3://texts/x.txt, ../x/here.txt]" "data.validation_path [x://../here.txt]" \
    "data.tokenizer /etc" "model.init /outside" "adapter.init /a" "mesh.key /dev/null" "mesh.cert /c" "mesh.cert_key /k" \
    "mesh.ca /ca" "mixer.links ../l"; do
    name=${set%% *} path=${set##* }
    awk -v section="${name%.*}:" -v name="${name#*.}:" -v value="${set#* }" '/^[a-z]/ {here = $1 == section}
        here && $1 == name {$0 = "  " name " " value} {print}' store/b/run/config.yaml >store/b/outside/config.yaml
    rm -rf cache
    path=${path#[}
    refuses "the config.yaml of s3://b/outside has $name ${path%]}, which is outside this folder: set $name in the command" \
        "${key[@]}" "$weft" train s3://b/outside --resume run.folder=kept
done

# relisted NAME BYTES: store/b/wrong, whose index.json lists the model by that name and length.
relisted() {
    rm -rf store/b/wrong cache
    cp -r store/b/run store/b/wrong
    python3 - "$1" "$2" store/b/wrong/step-00000020/index.json <<'END'
import ctypes, json, sys
class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]
hash_of = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
hash_of.restype, hash_of.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
name, n, path = sys.argv[1:]
index = json.load(open(path))
del index["index_xxh3_128"]
for file in index["files"]:
    if file["name"] == "model.safetensors":
        file.update(name=name.replace("~", "\0"), n_bytes=int(n))
index["files"].sort(key=lambda file: file["name"])
text = json.dumps(index).rstrip("}").encode() + b",\n "
digest = hash_of(text, len(text))
open(path, "wb").write(text + b'"index_xxh3_128": "%016x%016x"\n}\n' % (digest.high, digest.low))
END
}
n=$(stat -c %s store/b/run/step-00000020/model.safetensors)
long=$(printf 'x%.0s' {1..10000})
for name in ../../../evil /tmp/evil .. .hidden a/b "$long"; do
    relisted "$name" "$n"
    refuses "s3://b/wrong/step-00000020 names a file '${name:0:80}', expected a plain name" \
        "${key[@]}" "$weft" train here.txt --init s3://b/wrong "${tiny[@]}" run.folder=none
done
relisted 'a~b' "$n"
refuses_like 's3://b/wrong/step-00000020.* \\u0000 .*' \
    "${key[@]}" "$weft" train here.txt --init s3://b/wrong "${tiny[@]}" run.folder=none
relisted model.safetensors 0
refuses_like 's3://b/wrong/step-00000020/model.safetensors has .* kB, expected at most 1 B' \
    "${key[@]}" "$weft" train here.txt --init s3://b/wrong "${tiny[@]}" run.folder=none
relisted model.safetensors "$n"
expect 0 "${key[@]}" "$weft" train here.txt --init s3://b/wrong "${tiny[@]}" run.folder=relisted
# An index of another step, under the name that `latest` has.
rm -rf cache store/b/wrong/step-00000020
cp -r store/b/run/step-00000012 store/b/wrong/step-00000020
refuses "s3://b/wrong/step-00000020 holds step 12, as its index.json says" \
    "${key[@]}" "$weft" train here.txt --init s3://b/wrong "${tiny[@]}" run.folder=none
[[ -z $(find . /tmp -maxdepth 1 -name 'evil*') ]] || fail "written outside"

# A model: of the run at the address, of a folder of another program.
expect 0 "${key[@]}" "$weft" train here.txt --init s3://b/run "${tiny[@]}" run.folder=init
cp -r fresh/up/checkpoints/step-00000020 store/plain/model
rm store/plain/model/index.json
expect 0 "$weft" train here.txt --init "$base/plain/model" "${tiny[@]}" run.folder=init2
[[ $(losses init) == "$(losses init2)" ]] || fail "another model"
# A text too short for it is refused alike before anything is fetched but two small files of it.
printf 'too short' >short.txt
rm -rf cache
for command in config "plan --link 1Gbit,1ms --node-flops 1T" "train ${tiny[*]} run.folder=short"; do
    # shellcheck disable=SC2086
    refuses_like "data.length is 16 but short.txt has only 9 training tokens, expected at least 17" \
        "$weft" $command data.path=short.txt data.length=16 model.init="$base/plain/model"
done
[[ -z $(find cache -name '*.safetensors') ]] || fail "the model was fetched for a text that is too short"
# Bytes that index.json does not list are refused.
flip store/b/run/step-00000020/model.safetensors 900
rm -rf cache
refuses "s3://b/run/step-00000020/model.safetensors has not the bytes that index.json lists" \
    "${key[@]}" "$weft" train here.txt --init s3://b/run "${tiny[@]}" run.folder=init3
flip store/b/run/step-00000020/model.safetensors 900
# and a copy that has lost a bit is fetched again.
expect 0 "${key[@]}" "$weft" train here.txt --init s3://b/run "${tiny[@]}" run.folder=init4
find cache -name model.safetensors | while read -r file; do flip "$file" 900; done
touch -d '2 minutes ago' cache/*.whole
expect 0 "${key[@]}" "$weft" train here.txt --init s3://b/run "${tiny[@]}" run.folder=init5
[[ $(losses init4) == "$(losses init5)" ]] || fail "a damaged copy was taken"

# A file of 64 MiB or more goes in parts: one that fails is sent again alone, and the upload goes on
# where it was after an error that ends a try, a completion that is withdrawn, and one whose answer is lost.
large=("${tiny[@]}" model.width=256 model.ffn=33000 optimizer.kind=sgd run.steps=1)
cat >tricks <<'END'
fail partNumber=2& 2
flip partNumber=3& 1
refuse partNumber=4& 1
untag partNumber=5& 1
error big/step-00000001/model.safetensors?uploadId 1
lose big/step-00000001/model.safetensors?uploadId 1
END
: >requests
expect 0 "${key[@]}" "$weft" train here.txt "${large[@]}" run.folder=big run.upload=s3://b/big
[[ ! -s tricks ]] || fail "did not happen: $(cat tricks)"
diff -r big/checkpoints/step-00000001 store/b/big/step-00000001 || fail "another checkpoint in parts"
asked() { grep -c "$1" requests; }
counts="$(asked 'POST.*uploads=') $(for k in 1 2 3 4 5 6; do asked "PUT.*partNumber=$k&"; done) $(asked 'POST.*uploadId=') $(asked HEAD)"
[[ ${counts//$'\n'/ } == "1 1 3 2 2 2 0 3 1" ]] || fail "begun, each part, completed, asked: $counts"
[[ -z $(ls parts) ]] || fail "parts were left"
# What the store no longer knows begins again, though another file is there; so does a list that it refuses.
mkdir -p store/b/big2/step-00000001
cp here.txt store/b/big2/step-00000001/model.safetensors
printf 'forget model.safetensors?uploadId 1\nlist uploadId 1\n' >tricks
: >requests
expect 0 "${key[@]}" "$weft" train here.txt "${large[@]}" run.folder=big2 run.upload=s3://b/big2
[[ ! -s tricks ]] || fail "did not happen: $(cat tricks)"
diff -r big2/checkpoints/step-00000001 store/b/big2/step-00000001 || fail "another checkpoint in parts"
[[ $(asked 'POST.*uploads=') == 3 ]] || fail "begun $(asked 'POST.*uploads=') times, expected 3"
[[ -z $(ls parts) ]] || fail "parts were left"
# An upload that is given up leaves no parts, and no file
echo 'refuse partNumber=2& 99' >tricks
expect 2 "${key[@]}" "$weft" train here.txt "${large[@]}" run.folder=big3 run.upload=s3://b/big3
[[ $(tail -n 1 err) == "weft: the last checkpoint is not at s3://b/big3: could not write \
s3://b/big3/step-00000001/model.safetensors: the server answers 400 (Other); it is whole in big3" ]] || fail "$(cat err)"
[[ -z $(ls parts) && ! -e store/b/big3/latest ]] || fail "parts were left"
rm -f tricks

# What run.keep removes on its way is given up for the next one without a word, and with one where no
# checkpoint gets there at all; then the last one does.
echo 'slow kept/step- 0.25' >tricks
expect 0 "${key[@]}" "$weft" train here.txt "${whole[@]}" run.steps=24 run.save_every=2 run.keep=1 mesh.compute_time=0.06 \
    run.folder=keeps run.upload=s3://b/kept
rm -f tricks
grep -q 'the checkpoint of step [0-9]* is not uploaded: run.keep has removed it before it was there, like the one before' err ||
    fail "nothing was said of checkpoints that never get there: $(cat err)"
! grep -q 'No such file\|the checkpoint of step 2 is' err || fail "a false alarm: $(cat err)"
diff -r keeps/checkpoints/step-00000024 store/b/kept/step-00000024 || fail "another checkpoint"

# The store is killed in the middle of uploads and comes back: nothing that is half there looks whole,
# and the end waits until all is there.
echo 'slow step-00000020 1' >tricks
"${key[@]}" "$weft" train here.txt "${whole[@]}" run.steps=20 run.folder=killed run.upload=s3://b/killed >out 2>err </dev/null &
run=$!
for ((i = 0; i < 600; i++)); do
    grep -q 'PUT /b/killed/step-00000020' requests && break
    sleep 0.1
done
store_ends
[[ ! -f store/b/killed/step-00000020/index.json ]] || fail "an index before the end"
[[ $(cat store/b/killed/latest 2>/dev/null) != step-00000020 ]] || fail "latest before the end"
rm -f tricks
sleep 11
store_begins
wait $run || fail "the run ended: $(cat err)"
grep -q 'waits until the last checkpoint is at s3://b/killed' err || fail "nothing was said of waiting"
[[ $(cat store/b/killed/latest) == step-00000020 ]] || fail "latest: $(cat store/b/killed/latest)"
diff -r killed/checkpoints/step-00000020 store/b/killed/step-00000020 || fail "another checkpoint after the kill"

# A store that refuses connections when a run is resumed from it is waited for, and that is said.
waiting=()
for command in train up; do
    AWS_ENDPOINT_URL=http://127.0.0.1:1 WEFT_CACHE=$PWD/cache.$command "${key[@]}" "$weft" $command s3://b/run --resume \
        >out.$command 2>err.$command </dev/null &
    waiting+=($!)
done
for command in train up; do
    for ((i = 0; i < 1200; i++)); do # said after 10 s of a machine that is not busy
        grep -q '^waits for s3://b/run/config.yaml: .* tried again after: ' err.$command && break
        sleep 0.1
    done
    grep -q '^waits for s3://b/run/config.yaml: ' err.$command || fail "$command waits without a word: $(cat err.$command)"
done
kill "${waiting[@]}"
wait "${waiting[@]}"
finish
