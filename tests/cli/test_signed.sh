#!/bin/bash
# SPDX-License-Identifier: MIT
# Addresses that are signed (presigned ones of S3, others with a token), which nothing may repeat; servers
# without TLS and with the wrong certificate; what killed processes leave in a store.
. "$2/tests/cli/helpers.sh"
empty_here
need_python
unset http_proxy https_proxy all_proxy AWS_CA_BUNDLE
export WEFT_CACHE=$PWD/cache AWS_REGION=eu-test-1
mkdir -p store/plain store/texts
some_text >store/texts/a.txt
cp store/texts/a.txt here.txt

stores=()
# begins [CERT KEY]: another server over the same files, at $port.
begins() {
    rm -f port.txt
    python3 "$source_dir/tests/cli/store.py" "$PWD/store" 0 "$@" >port.txt 2>store.err &
    stores+=($!)
    await_text port.txt
    port=$(cat port.txt)
    [[ -n $port ]] || fail "the store does not start: $(cat store.err)"
}
trap 'kill -9 "${stores[@]}" 2>/dev/null' EXIT
begins
plain=$port
base=http://127.0.0.1:$plain
if "$weft" train "$base/plain/none" "${tiny[@]}" 2>&1 | grep -q 'built without libcurl'; then
    echo "skipped: built without libcurl"
    exit 77
fi
presign() { python3 "$source_dir/tests/cli/store.py" "$PWD/store" presign "127.0.0.1:$plain" "$1"; }
# hidden TEXT FILES...: no file of these, or in these folders, has it.
hidden() {
    local text=$1
    shift
    ! grep -rqaF -- "$text" "$@" || fail "kept: $(grep -rlaF -- "$text" "$@")"
}

# A text that S3 signs, as a word, as a key and in a file; what signs it is nowhere afterwards.
expect 0 "$weft" train here.txt "${tiny[@]}" run.folder=file
signed=$(presign /texts/a.txt)
signature=${signed##*=}
printf 'data:\n  path: ["%s"]\n' "$signed" >run.yaml
for way in "$signed" "data.path=$signed" run.yaml; do
    expect 0 "$weft" train "$way" "${tiny[@]}" run.folder=signed
    [[ $(losses signed) == "$(losses file)" ]] || fail "another text by $way"
    hidden "$signature" signed out err
    hidden TESTKEY signed out err
    grep -qF "[\"$base/texts/a.txt?...\"]" signed/config.yaml || fail "config.yaml: $(grep path: signed/config.yaml)"
    rm -rf cached
    [[ $way == run.yaml ]] || mv signed cached
done
for command in "config run.yaml" "config run.yaml --json" "config run.yaml --origins" "plan run.yaml --link 1Gbit,1ms --node-flops 1T" \
    "report signed" "verify signed"; do
    # shellcheck disable=SC2086
    expect 0 "$weft" $command
    hidden "$signature" out err signed
done
# The copy is taken for the run that goes on, though nobody can be asked; without one that is said.
touch -d '2 minutes ago' cache/*.whole
expect 0 "$weft" train signed --resume run.steps=12
rm -rf cache
refuses "the signature of $base/texts/a.txt?... was not kept, expected the whole address again, in the command" \
    "$weft" train signed --resume run.steps=16
expect 0 "$weft" train signed --resume run.steps=16 "data.path=$(presign /texts/a.txt)"
hidden X-Amz-Signature signed
# Another signature of the same file does not fetch it again; a wrong one is refused without being repeated.
touch -d '2 minutes ago' cache/*.whole
: >requests
sleep 1.1 # another second, another signature
expect 0 "$weft" train "$(presign /texts/a.txt)" "${tiny[@]}" run.folder=again
[[ $(losses again) == "$(losses file)" ]] || fail "another text"
rm -rf cache
refuses "could not fetch $base/texts/a.txt?...: the server answers 403" \
    "$weft" train "${signed%??}00" "${tiny[@]}" run.folder=none
refuses "$base/texts/a.txt?... is signed for one file, expected a folder: s3://, or https:// with a signature for all \
that is below it" "$weft" train here.txt --init "$signed" "${tiny[@]}" run.folder=none
# Other words of a query are kept, and two tokens are two files.
cp here.txt store/plain/a.txt
expect 0 "$weft" train "$base/plain/a.txt?version=3&sig=s3cret/x" "${tiny[@]}" run.folder=token
grep -qF "[\"$base/plain/a.txt?version=3&...\"]" token/config.yaml || fail "config.yaml: $(grep path: token/config.yaml)"
hidden s3cret/x token out err
expect 2 "$weft" train "$base/plain/a.txt?token=one" data.validation_path="$base/plain/b.txt?token=one" "${tiny[@]}" run.folder=none
[[ $(cat err) == "weft: could not fetch $base/plain/b.txt?...: the server answers 404" ]] || fail "$(cat err)"
# A query that signs a folder goes to all that is below it.
mkdir -p store/plain/model
cp file/checkpoints/step-*/{config.json,model.safetensors,tokenizer.json} store/plain/model
expect 0 "$weft" train here.txt --init "$base/plain/model?sig=s3cret" "${tiny[@]}" run.folder=init
grep -q 'GET /plain/model/model.safetensors?sig=s3cret' requests || fail "$(cat requests)"
hidden s3cret init out err

# What the first answer says of TLS all answers would say: no minute of waiting. A connection that breaks before
# (the first one to a server with TLS) says nothing.
openssl req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.cert -days 2 -subj /CN=store \
    -addext subjectAltName=DNS:localhost 2>/dev/null
begins "$PWD/tls.cert" "$PWD/tls.key"
tls=$port
at_once() { # SENTENCE COMMAND...: as refuses_like; the waits would be said after ten seconds, and end after 60
    refuses_like "$1" timeout 50 "${@:2}"
}
at_once "could not fetch https://127.0.0.1:$plain/plain/a.txt: the server answers without TLS, expected it for https:// .*" \
    "$weft" train "https://127.0.0.1:$plain/plain/a.txt" "${tiny[@]}" run.folder=none
at_once "could not fetch https://localhost:$tls/plain/a.txt: .*certificate.*, expected one of an authority that this \
machine or AWS_CA_BUNDLE knows" "$weft" train "https://localhost:$tls/plain/a.txt" "${tiny[@]}" run.folder=none
AWS_CA_BUNDLE=$PWD/tls.cert at_once "could not fetch https://127.0.0.1:$tls/plain/a.txt: .*127.0.0.1.*" \
    "$weft" train "https://127.0.0.1:$tls/plain/a.txt" "${tiny[@]}" run.folder=none
AWS_CA_BUNDLE=$PWD/none.cert at_once "could not fetch https://localhost:$tls/plain/a.txt: .*none.cert.*" \
    "$weft" train "https://localhost:$tls/plain/a.txt" "${tiny[@]}" run.folder=none
AWS_CA_BUNDLE=$PWD/tls.cert expect 0 "$weft" train "https://localhost:$tls/plain/a.txt" "${tiny[@]}" run.folder=secure
[[ $(losses secure) == "$(losses file)" ]] || fail "another text by TLS"

# A process that is killed while it uploads leaves parts: the next one removes them, and brings the checkpoint
# that is here and not there, though nothing is left to train.
key=(env AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=test/secret+key AWS_ENDPOINT_URL="$base")
large=("${tiny[@]}" model.width=256 model.ffn=33000 optimizer.kind=sgd run.steps=1)
echo 'slow partNumber=3 60' >tricks
: >requests
"${key[@]}" "$weft" train here.txt "${large[@]}" run.folder=big run.upload=s3://b/big >out 2>err </dev/null &
run=$!
for ((i = 0; i < 1200; i++)); do
    grep -q 'partNumber=3' requests && break
    sleep 0.1
done
kill -9 $run
wait $run 2>/dev/null
rm -f tricks
[[ -n $(ls parts) && ! -e store/b/big/latest ]] || fail "nothing was left"
"${key[@]}" "$weft" train here.txt "${tiny[@]}" run.folder=other run.upload=s3://b/big2 >out 2>err </dev/null ||
    fail "another run: $(cat err)"
[[ -n $(ls parts) ]] || fail "another run's parts were removed"
before=$(ls parts)
expect 0 "${key[@]}" "$weft" train big --resume
diff -r big/checkpoints/step-00000001 store/b/big/step-00000001 || fail "another checkpoint"
[[ $(cat store/b/big/latest) == step-00000001 ]] || fail "no latest"
[[ ! -e parts/$before && -z $(ls parts) ]] || fail "parts were left: $(ls parts)"
# A store that does not show its uploads is told of once, and nothing else changes.
echo 'refuse prefix=shy 1' >tricks
expect 0 "${key[@]}" "$weft" train here.txt "${tiny[@]}" run.folder=shy run.upload=s3://b/shy
[[ $(grep -c 'warning: parts that a killed process may have left are not looked for: could not list s3://b/shy/step-: ' err) == 1 ]] ||
    fail "shy: $(cat err)"
finish
