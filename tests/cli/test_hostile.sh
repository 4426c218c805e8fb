#!/bin/bash
# SPDX-License-Identifier: MIT
# A server that does wrong (hostile_server.py): each wrong ends in the right text or in one sentence,
# in bounded time, and no file is written outside the cache and the run folder.
. "$2/tests/cli/helpers.sh"
empty_here
need_python
unset http_proxy https_proxy all_proxy AWS_REGION AWS_DEFAULT_REGION AWS_SESSION_TOKEN
export WEFT_CACHE=$PWD/cache
some_text >a.txt
python3 "$source_dir/tests/cli/hostile_server.py" a.txt requests >ports.txt 2>server.err &
server=$!
trap 'kill -9 "$server" 2>/dev/null' EXIT
await_text ports.txt
read -r port _ <ports.txt || fail "the server does not start: $(cat server.err)"
base=http://127.0.0.1:$port
if "$weft" train "$base/good/a.txt" "${tiny[@]}" run.folder=first 2>&1 | grep -q 'built without libcurl'; then
    skip "built without libcurl"
fi

# Those that end only when patience does, beside the others: one that always breaks off at the same
# place and one that sends a byte each second would go on for ever.
slow=(long always-cut drip drip-head)
for wrong in "${slow[@]}"; do
    timeout 300 "$weft" train "$base/$wrong/a.txt" "${tiny[@]}" run.folder="$wrong" \
        >"$wrong.out" 2>"$wrong.err" </dev/null &
    pids+=($!)
done

expect 0 "$weft" train a.txt "${tiny[@]}" run.folder=file
sed s/cat/cow/ a.txt >other.txt
expect 0 "$weft" train other.txt "${tiny[@]}" run.folder=other

# After an answer that broke off, another part than was asked for, or one of a file that has been
# replaced meanwhile: the whole of one of them, never halves of two.
for wrong in shifted longer unranged replaced untagged stops unknown shrunk busy good; do
    begun=$SECONDS
    expect 0 "$weft" train "$base/$wrong/a.txt" "${tiny[@]}" run.folder="$wrong"
    [[ $(losses "$wrong") == "$(losses file)" ]] || fail "$wrong: another text"
    [[ $wrong != busy ]] || ((SECONDS - begun >= 2)) || fail "Retry-After: 3 was not waited for"
done
for wrong in whole same-second; do
    expect 0 "$weft" train "$base/$wrong/a.txt" "${tiny[@]}" run.folder="$wrong"
    [[ $(losses "$wrong") == "$(losses other)" ]] || fail "$wrong: not the text that it was replaced by"
done

# ends WRONG SENTENCE: what is fetched from there ends in that sentence, at once.
ends() {
    refuses_like "$2" timeout 40 "$weft" train "$base/$1/a.txt" "${tiny[@]}" run.folder=none
}
answers() { ends "$1" "could not fetch $base/$1/a.txt: $2"; }
unsaid="does not say how many bytes it has: half of it would look like all"
ends two "the server of $base/two/a.txt says two numbers of bytes, expected one Content-Length"
ends unsaid "the server of $base/unsaid/a.txt $unsaid"
ends endless-body "the server of $base/endless-body/a.txt $unsaid"
ends endless-chunks "$base/endless-chunks/a.txt has more bytes than were announced"
ends endless-head "the answer for $base/endless-head/a.txt has a head of more than 256 KiB"
ends enormous "$base/enormous/a.txt has 1152922 TB, and the disk of $PWD/cache/.*/a.txt has room for .*"
ends overflow "$base/overflow/a.txt has 9223372 TB, and the disk of $PWD/cache/.*/a.txt has room for .*"
ends endless-103 "the answer for $base/endless-103/a.txt has a head of more than 256 KiB"
ends packed "$base/packed/a.txt comes with Content-Encoding br, expected none, gzip or zstd"
answers negative "Invalid Content-Length: value"
answers nul "Nul byte in header"
answers old "Received HTTP/0.9 when not allowed"
answers unasked304 "the server answers 304, but was not asked whether the file is the same"
answers unasked206 "the server answers 206, but was asked for the whole file"
answers always416 "the server answers 416"
answers endless-page "the server answers 404"
answers later "the server answers 503; it asks for a pause of 9999 s"
answers to-file 'Protocol "file" not supported or disabled in libcurl'
answers to-self "Maximum \(5\) redirects followed"

# What a store says of keys, regions and buckets; words of its page are words. A model's tokenizer that
# a store hides may be missing; one that it refuses for the key may not.
export AWS_ENDPOINT_URL=$base AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=y AWS_SESSION_TOKEN=z
says() {
    refuses_like "could not fetch s3://$1/a.txt: the server answers $2" "$weft" train "s3://$1/a.txt" "${tiny[@]}" \
        run.folder=none
    refuses_like "could not fetch s3://$1/r/latest: the server answers $2" "$weft" train a.txt "${tiny[@]}" \
        run.folder=none run.upload="s3://$1/r" --resume
}
says expired "400: AWS_SESSION_TOKEN has expired"
says region "400: AWS_REGION is us-east-1, expected eu-west-1"
says moved "301: AWS_REGION is us-east-1, expected eu-south-2"
says skewed "403: the clocks of this machine and the store differ"
AWS_REGION=eu-west-1 refuses "could not fetch s3://region/a.txt: the server answers 400 (AuthorizationHeaderMalformed)" \
    "$weft" train s3://region/a.txt "${tiny[@]}" run.folder=none
for bucket in denied bomb nobucket; do
    expect 2 "$weft" train a.txt "${tiny[@]}" run.folder=none run.upload=s3://$bucket/r --resume
    cp err $bucket.err
done
grep -qx 'weft: warning: s3://denied/r/latest: the server answers 403, which is taken as: not there' denied.err || fail "$(cat denied.err)"
put="weft: run.upload: could not write"
[[ $(tail -n 1 denied.err) == "$put s3://denied/r/config.yaml: the server answers 403 (AccessDenied)" ]] ||
    fail "denied: $(cat denied.err)"
[[ $(tail -n 1 bomb.err) == "$put s3://bomb/r/config.yaml: the server answers 403" ]] || fail "bomb: $(cat bomb.err)"
[[ $(tail -n 1 nobucket.err) == "$put s3://nobucket/r/config.yaml: the server answers 404: the store has no such bucket" ]] ||
    fail "nobucket: $(cat nobucket.err)"
unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN

# A name and a password of ~/.netrc are for their host; in an address they are refused, and nothing repeats them.
with="http://user:secret@127.0.0.1:$port/good/a.txt" sentence="an address has a name or a password, which logs and config.yaml would keep: put them into ~/.netrc"
printf 'data:\n  path: ["%s"]\n' "$with" >own.yaml
for command in "train $with" "train data.path=$with" "train data.path=a.txt,${with/secret/secret,secret}" "train a.txt data.validation_path=a.txt,$with" "train a.txt --init $with" \
    "train a.txt --init ${with/user:secret/secret}" "train own.yaml" "train ${with%.txt}.yaml" "train s3://user:secret@b/r --resume" \
    "train a.txt run.upload=s3://user:secret@b/r" "plan $with" "plan --hf $with" "plan own.yaml" "report $with" "watch $with" "up $with" \
    "config own.yaml" "eval $with a b c d e"; do
    # shellcheck disable=SC2086
    refuses_like "(own.yaml:2: )?([a-z_.]+: )?$sentence" "$weft" $command
    ! grep -q secret out err || fail "$command repeats the password: $(cat out err)"
done
! grep -q secret requests || fail "the password was sent: $(grep secret requests)"
rm own.yaml
printf 'machine 127.0.0.1 login user password secret\n' >.netrc
chmod 600 .netrc
HOME=$PWD expect 0 "$weft" train "http://127.0.0.1:$port/to-other/a.txt" "${tiny[@]}" run.folder=led
expect 0 "$weft" report led
grep -q '^0 GET /to-other/a.txt.*Authorization' requests || fail "no password was sent: $(cat requests)"
grep -q '^1 GET /good/a.txt' requests || fail "nothing was asked at the other host"
! grep -q '^1 .*Authorization' requests || fail "the password went to the other host"

for i in "${!slow[@]}"; do
    code=0
    wait "${pids[i]}" || code=$?
    [[ $code == 2 ]] || fail "${slow[i]}: exit code $code: $(tail -n 2 "${slow[i]}.err")"
    [[ $(tail -n 1 "${slow[i]}.err") == "weft: could not fetch $base/${slow[i]}/a.txt: "* ]] ||
        fail "${slow[i]}: $(cat "${slow[i]}.err")"
done
finish
