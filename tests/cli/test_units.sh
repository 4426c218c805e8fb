#!/bin/bash
# SPDX-License-Identifier: MIT
# Numbers on command lines: what is of one kind takes the same texts in every flag and key.
. "$2/tests/cli/helpers.sh"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
empty_here

# try KIND TEXT: every command line of the kind, with the text for @. Each ends soon, because a key
# or a file that is not there ends it, if the text does not.
try() {
    local line word words
    while IFS= read -r line; do
        words=()
        for word in $line; do words+=("${word//@/$2}"); done
        run timeout 20 "$weft" "${words[@]}"
        line="weft ${words[*]}"
        [[ $code != 124 ]] || fail "$line does not end"
        if grep -qE "(is '[^']*|--listen )$2.*expected" err; then
            [[ $3 == refused ]] || fail "$line: $(cat err)"
        else
            [[ $3 == taken ]] || fail "$line takes it: $(cat err)"
        fi
    done <<<"${commands[$1]}"
}
# kind KIND 'TAKEN...' 'REFUSED...'
kind() {
    local text
    for text in $2; do try "$1" "$text" taken; done
    for text in $3; do try "$1" "$text" refused; done
}

declare -A commands
plan="plan --link 1Gbit,1ms --node-flops 1T no.key=1"
simulate="simulate --link 1Gbit,1ms --node-flops 1T no.key=1"
commands[count]="config --steps @
config run.steps=@
config batch.tokens_per_step=@ no.yaml
plan --tokens @ no.key=1
plan --critical-batch @ --batch per-rank no.key=1
plan --lora @ no.key=1
plan --top @ no.key=1
plan --parameters @ --link 1Gbit,1ms --node-flops 1T --nodes 2 --sites 3
plan --flop-per-token @ --link 1Gbit,1ms --node-flops 1T --nodes 2 --sites 3
plan --nodes @ --link 1Gbit,1ms --node-flops 1T --sites 7
simulate --nodes @ no.key=1
simulate --steps @ no.key=1
simulate --save-every @ no.key=1
topology ring --nodes @ --links no.yaml
topology ring --nodes 4 --steps @ --links no.yaml
bench optimizers --parameters @ no.key=1
bench train --steps @ no.key=1
sample no --tokens @
eval no --tokens @
audit no --step @
tune --trials @ no.key=1
data train-tokenizer no.txt --vocab @ -o no.json"
kind count "2k 2K 2000 2e3 2.0k" "2kk 2kB 2x 0x10 2.5 2% 2min -1k"

commands[plain]="train --listen @ data.path=nothere.txt
up --listen @ no.key=1
up --invite-port @ no.key=1
witness --listen @ no.key=1
watch no --once --port @
doctor no.yaml --port @
plan --write no.yaml --pick @ no.key=1"
kind plain "2000" "2k 2K 2e3 2.0 2kB 0x10 -1 2%"

commands[price]="plan --price @ no.key=1"
kind price "2.10 2.10/h \$2.10/h €2/hour 2e1 2€/h 2.10USD/h" "0 -1 much 2.10/min 2.10/d dollar2 2k 2K 2min 2/h/h"

commands[time]="$plan --failures @
$plan --failures 1h --restart @
$plan --failures 1h --save @
$simulate --failures @
$simulate --failures 1h --restart @
$simulate --failures 1h --save @
$plan --busy @,30%
$simulate --busy @,30%
plan --link 1Gbit,@ --nodes 2 --sites 3 --node-flops 1T
plan --link 1Gbit,1ms --wire-jitter @ --nodes 2 --sites 3 --node-flops 1T
plan --link 1Gbit,1ms --launch @ --nodes 2 --sites 3 --node-flops 1T
plan --link 1Gbit,1ms --stall 1%,@ --nodes 2 --sites 3 --node-flops 1T
config mesh.link=1Gbit,@"
kind time "90s 1.5min 0.02h 90000ms 9e7us 0.001d" "5m 90 5sec 5x -5s 5minutes"

commands[seconds]="probe --seconds @ no.key=1
watch no --every @ --once
doctor --timeout @ --hostfile no
join --wait @
config run.save_time=@
config elastic.silence=@
config mesh.timeout=@"
kind seconds "90 90s 1.5min 0.02h 90000ms" "5m 5sec 5x -5 2k 5%"

commands[share]="plan --accelerator H100 --effort @ no.key=1
plan --trainable @ no.key=1
plan --link 1Gbit,1ms --loss @ --nodes 2 --sites 3 --node-flops 1T
plan --link 1Gbit,1ms --jitter @ --nodes 2 --sites 3 --node-flops 1T
$plan --busy 8h,@
$simulate --busy 8h,@
$simulate --slow-nodes @,2
$simulate --slow-links @,2
plan --link 1Gbit,1ms --stall @,2s --nodes 2 --sites 3 --node-flops 1T
config schedule.final=@
config decide.loss=@
config mixer.gamma=@"
kind share "5% 0.05 5e-2 0.5%" "5pct 5x -5% 5k 5%%"

commands[bytes]="topology ring --nodes 4 --bytes @ --links no.yaml
up --text @ no.key=1
join --text @
plan --link 1Gbit,1ms --node-memory @ --nodes 2 --sites 3 --node-flops 1T
config mesh.memory_limit=@
config mesh.min_message=@"
kind bytes "4M 4m 4MB 4mb 4MiB 4mib 4000000 4000kB" "4Mbit 4Mb 4x 4MBps 4% -4M"

commands[link]="plan --link @ --nodes 2 --sites 3 --node-flops 1T
plan --link @,1ms --nodes 2 --sites 3 --node-flops 1T
plan --link 1Gbit,1ms --up @ --nodes 2 --sites 3 --node-flops 1T
plan --link 1Gbit,1ms --node-link @ --ranks-per-node 2 --nodes 2 --sites 3 --node-flops 1T
config mesh.link=@,1ms
config mesh.site_link=@,1ms
config method=auto decide.busy=18:00-23:00,@"
kind link "100mbit 100Mbit 100MBIT/s 1gbit 1Gbit/s 1G 1g 100m 12.5MB/s 12.5MBps 100Mbps" "1Gb 1GB 100 1Xbit -1G 5% 5min"

[[ $failures == 0 ]]
