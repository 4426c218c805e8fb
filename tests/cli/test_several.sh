#!/bin/bash
# SPDX-License-Identifier: MIT
# Processes that were told of each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT train
# together over TCP: the bits of one process, one sentence when something goes wrong.
. "$2/tests/cli/helpers.sh"
empty_here
write_sentences >text.txt
cat >run.yaml <<'Y'
data: {path: [text.txt], length: 16}
model: {kind: gpt2, layers: 2, width: 32, heads: 2}
batch: {tokens_per_step: 192}
run: {steps: 6, eval_every: 0, tensorboard: false}
mesh: {threads: 1, nodes: 3, timeout: 3}
schedule: {warmup: 2}
method: flexdemo
Y
together() { # number of ranks, then what each runs; the ranks' exit codes in codes
    local n=$1 r pids=()
    shift
    free_port
    for ((r = n - 1; r >= 0; r--)); do
        RANK=$r WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$@" >out.$r 2>log.$r &
        pids[r]=$!
    done
    codes=
    for ((r = 0; r < n; r++)); do
        wait "${pids[r]}"
        codes+="$? "
    done
}
timeout 60 "$weft" train run.yaml run.folder=threads --quiet >/dev/null || fail "threads"
together 3 "$weft" train run.yaml run.folder=processes --quiet
[ "$codes" = "0 0 0 " ] || fail "codes $codes: $(cat log.*)"
grep -q "^validation loss" out.0 || fail "rank 0 says $(cat out.0)"
[ ! -s out.1 ] && [ ! -s log.1 ] || fail "rank 1 speaks: $(cat out.1 log.1)"
for file in model replica-00000 replica-00001 replica-00002; do
    cmp "threads/checkpoints/step-00000006/$file.safetensors" \
        "processes/checkpoints/step-00000006/$file.safetensors" || fail "$file differs"
done

# the same with a key, which each machine may call by another name
"$weft" key new >run.key || fail "no key"
[ "$(stat -c %a run.key)" = 600 ] || fail "others can read the key"
grep -qxE '[0-9a-f]{64}' run.key || fail "the key is $(cat run.key)"
WEFT_KEY_FILE=run.key together 3 "$weft" train run.yaml run.folder=encrypted --quiet
[ "$codes" = "0 0 0 " ] || fail "with a key: codes $codes: $(cat log.*)"
cmp threads/checkpoints/step-00000006/model.safetensors \
    encrypted/checkpoints/step-00000006/model.safetensors || fail "with a key the model differs"
together 2 "$weft" train run.yaml run.folder=two mesh.nodes=2 mesh.key=run.key --quiet
[ "$codes" = "0 0 " ] || fail "mesh.key: codes $codes: $(cat log.*)"
chmod 644 run.key
together 2 "$weft" train run.yaml run.folder=no mesh.nodes=2 mesh.key=run.key --quiet
case $codes in *"0 "*) fail "a key that others read: codes $codes" ;; esac
grep -q "chmod 600 run.key" log.0 || fail "a key that others read: $(cat log.0)"
chmod 600 run.key
RANK=1 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 timeout 60 "$weft" train run.yaml >out 2>log && fail "no key"
grep -q "but there is no key; expected mesh.key" log || fail "no key: $(cat log)"
WEFT_ENCRYPT=off RANK=1 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 timeout 3 "$weft" train run.yaml >out 2>log && fail "nobody is there"
grep -q "no key" log && fail "WEFT_ENCRYPT=off: $(cat log)"
WEFT_ENCRYPT=no RANK=1 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 timeout 60 "$weft" train run.yaml >out 2>log && fail "WEFT_ENCRYPT=no"
grep -q "WEFT_ENCRYPT is 'no', expected on or off" log || fail "WEFT_ENCRYPT=no: $(cat log)"
RANK=1 "$weft" train run.yaml >out 2>log && fail "RANK alone is not refused"
grep -q "RANK=1 is set, but not WORLD_SIZE" log || fail "RANK alone: $(cat log)"

# with certificates of one authority; one of another stays outside
if command -v openssl >/dev/null; then
    for ca in ca other; do
        openssl req -x509 -newkey rsa:2048 -nodes -keyout $ca.key -out $ca.pem -days 2 -subj /CN=$ca 2>/dev/null
        openssl req -newkey rsa:2048 -nodes -keyout node-$ca.key -out node-$ca.csr -subj /CN=node 2>/dev/null
        openssl x509 -req -in node-$ca.csr -CA $ca.pem -CAkey $ca.key -CAcreateserial -days 2 -out node-$ca.pem 2>/dev/null
    done
    together 2 "$weft" train run.yaml run.folder=three mesh.nodes=2 --quiet \
        mesh.cert=node-ca.pem mesh.cert_key=node-ca.key mesh.ca=ca.pem
    [ "$codes" = "0 0 " ] || fail "certificates: codes $codes: $(cat log.*)"
    free_port
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
    certificate() { echo mesh.cert=node-$1.pem mesh.cert_key=node-$1.key mesh.ca=ca.pem; }
    RANK=0 timeout 12 "$weft" train run.yaml run.folder=no mesh.nodes=2 $(certificate ca) >out.0 2>log.0 &
    RANK=1 timeout 8 "$weft" train run.yaml run.folder=no mesh.nodes=2 $(certificate other) >out.1 2>log.1 &&
        fail "another authority was accepted"
    wait $! && fail "another authority was accepted"
    grep -q "does not have this run's key" log.0 || fail "another authority: $(cat log.0)"
    unset WORLD_SIZE MASTER_ADDR MASTER_PORT
fi

# Names of files belong to a machine, what is in them does not; a key that differs is named.
each() { # what rank 0 has of its own, what rank 1 has
    free_port
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$weft" train run.yaml \
        mesh.nodes=2 --quiet run.folder=at0 $1 >out.0 2>log.0 &
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$weft" train run.yaml \
        mesh.nodes=2 --quiet run.folder=at1 $2 >out.1 2>log.1
    codes="$? "
    wait $!
    codes+="$? "
}
cp text.txt same.txt
tr a-c b-d <text.txt >other.txt
each "" "data.path=same.txt mesh.threads=2"
[ "$codes" = "0 0 " ] || fail "files of other names: $codes $(cat log.0 log.1)"
rm -r at0
each optimizer.lr=2e-3 optimizer.lr=1e-3
grep -q "optimizer.lr is 0.002 on rank 0 and 0.001 on rank 1" log.0 ||
    fail "another rate: $(cat log.0)"
each "" data.path=other.txt
grep -q "rank 1 .*: the text (data.path, data.validation_path) here is not that of rank 0" log.0 ||
    fail "other text: $(cat log.0)"
for seed in 1 2; do
    timeout 60 "$weft" train run.yaml mesh.nodes=1 run.steps=1 run.seed=$seed run.folder=begin$seed --quiet >log 2>&1 ||
        fail "begin$seed: $(cat log)"
done
each model.init=begin1 model.init=begin2
grep -q "the parameters that rank 1 begins with are not those of rank 0" log.0 ||
    fail "another model: $codes $(cat log.0)"

# what is wrong is said by rank 0
together 3 "$weft" train run.yaml run.folder=no data.path=nowhere.txt --quiet
case $codes in *"0 "*) fail "no text: codes $codes" ;; esac
grep -q "rank . (host .*nowhere.txt" log.0 || fail "no text: $(cat log.0)"
[ ! -s log.1 ] && [ ! -s log.2 ] || fail "several speak: $(cat log.1 log.2)"

# a rank that dies is missed at once; test_lost.sh has the runs that go on
free_port
for r in 0 1 2; do
    RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$weft" train run.yaml \
        mesh.on_loss=end run.folder=killed run.steps=1000000 run.save_every=10 run.keep=2 --quiet >out.$r 2>log.$r &
    pids[r]=$!
done
for ((i = 0; i < 300; i++)); do
    ls killed/checkpoints/step-*[0-9] >/dev/null 2>&1 && break
    sleep 0.1
done
pkill -KILL -P "${pids[1]}"
wait "${pids[0]}" && fail "success without rank 1"
wait "${pids[2]}" && fail "success without rank 1"
grep -qE "^weft: rank 1 \(host .*\) has (closed its connection|died)|rank 1 .*process [0-9]+\) has died" log.0 ||
    fail "rank 0 says $(cat log.0)"

# who is missing, and what makes no sense
export WORLD_SIZE=2
RANK=1 MASTER_ADDR= timeout 60 "$weft" train run.yaml >out 2>log && fail "no address"
grep -q "RANK=1 are set, but not MASTER_ADDR" log || fail "no address: $(cat log)"
RANK=2 MASTER_ADDR=127.0.0.1 timeout 60 "$weft" train run.yaml >out 2>log && fail "rank 2 of 2"
grep -q "RANK is '2', expected a whole number from 0 to 1" log || fail "rank 2 of 2: $(cat log)"
timeout 60 "$weft" train run.yaml >out 2>log && fail "no rank"
grep -q "WORLD_SIZE=2 is set, but not RANK" log || fail "no rank: $(cat log)"
finish
