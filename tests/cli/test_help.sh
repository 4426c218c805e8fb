#!/bin/bash
# SPDX-License-Identifier: MIT
# The frame of the program: help, exit codes, error sentences, configuration, documentation,
# man page, completion.
. "$2/tests/cli/helpers.sh"

# -- the program itself
prints "usage: weft COMMAND ..." "$weft"
prints "usage: weft COMMAND ..." "$weft" --help
prints "usage: weft COMMAND ..." "$weft" help
version() { sed -n 's/^#define WEFT_VERSION_M[AI][JN]OR \|^#define WEFT_VERSION_PATCH //p' "$source_dir/include/weft/version.h"; }
prints "weft $(version | paste -sd .)" \
    "$weft" --version
for form in -V version; do
    prints "weft $(version | paste -sd .)" "$weft" $form
done
refuses "unknown command 'confg' (did you mean 'config'?)" "$weft" confg
refuses "unknown command 'zzz', see weft --help" "$weft" zzz
refuses "unknown command 'zzz', see weft --help" "$weft" help zzz
refuses "unknown flag --verbose, see weft --help" "$weft" --verbose

# -- every command has help, a line in the overview, flags in the man page
mapfile -t commands < <("$weft" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
((${#commands[@]} >= 6)) || fail "only ${#commands[@]} commands in the overview"
"$weft" man >weft.1
for command in "${commands[@]}"; do
    expect 0 "$weft" "$command" --help
    [[ ! -s err ]] || fail "something on stderr: $command --help"
    grep -q "^usage: weft $command" out || fail "$command --help has no usage"
    grep -q "^  --help " out || fail "$command --help has no flags"
    awk -v c="$command" 'length > 100 { print c ": " $0 }' out >long
    [[ ! -s long ]] || fail "long line: $(head -1 long)"
    cp out help.txt
    [[ $command == config ]] || (($(wc -l <out) <= 60)) || fail "$command --help has $(wc -l <out) lines"
    expect 0 "$weft" help "$command"
    same out help.txt
    grep -q "^\.SS \"weft $command\"" weft.1 || fail "$command is not in the man page"
    for flag in $(sed -n '/^Examples:/,/^$/p' out | grep -oE -- '--[a-z-]+'); do
        grep -qE -- "^  (.*, )?$flag( |,|\$)" out || fail "$command: no flag $flag of its example"
    done
    refuses "unknown flag --nonsense of 'weft $command', see weft $command --help" \
        "$weft" "$command" --nonsense
done

prints "  data.path=                            training data: texts, token shards, folders of" "$weft" config --help

# -- configuration
cat >run.yaml <<'YAML'
method: hsdp
optimizer:
  lr: 2e-3
mesh:
  nodes: 2
  link: 100Mbit,10ms
YAML
prints "  lr: 0.002" "$weft" config run.yaml
prints "  lr: 0.003" "$weft" config run.yaml optimizer.lr=3e-3
prints "  lr: 0.003" "$weft" config optimizer.lr=3e-3 run.yaml
prints "  link: \"100Mbit,10ms\"" "$weft" config run.yaml
prints "  lr: 0.002                       # run.yaml:3" "$weft" config run.yaml --origins
prints "  nodes: 3                        # override" \
    "$weft" config --origins run.yaml mesh.nodes=3 batch.tokens_per_step=7680
prints "  steps: 1000                     # length of the run in optimizer steps" \
    "$weft" config --comments
# The rate with its origin is the one that a run has; the width keeps its own origin.
for width in model.layers=6 model.width=768; do
    rate=$("$weft" config $width | grep '^  lr: ')
    "$weft" config --origins $width | grep -q "^$rate *# method " || fail "$width: not $rate with --origins"
done
prints "$(printf '%-33s # default' '  width: 384')" "$weft" config --origins
prints "$(printf '%-33s # override' '  width: 768')" "$weft" config --origins model.width=768
"$weft" config run.yaml >resolved.yaml
"$weft" config resolved.yaml >again.yaml
same resolved.yaml again.yaml
prints "$(printf 'optimizer.lr\t6e-4\ta number from 0 to 1000\tpeak rate; unset: by method and width, adamw 5.6e-3 * min(1, 82.3/width)')" \
    "$weft" config --keys

refuses "could not open nowhere.yaml: No such file or directory" "$weft" config nowhere.yaml
refuses "unknown key 'optimizer.lrr' (did you mean 'optimizer.lr'?)" \
    "$weft" config optimizer.lrr=1
refuses "optimizer.beta1 is '2', expected a number from 0 to below 1" \
    "$weft" config run.yaml optimizer.beta1=2
printf 'optimizer: {beta1: 0.5}\nmodel: {layers: 3}\n' >one.yaml
printf 'optimizer: {beta1: 0.6}\n' >two.yaml
prints "  beta1: 0.6" "$weft" config one.yaml two.yaml
prints "  layers: 3" "$weft" config one.yaml two.yaml
prints "  beta1: 0.5" "$weft" config two.yaml one.yaml
prints "  beta1: 0.7" "$weft" config optimizer.beta1=0.7 one.yaml two.yaml
printf 'optimizer: {beta1: 2}\n' >two.yaml
refuses "two.yaml:1: optimizer.beta1 is '2', expected a number from 0 to below 1" \
    "$weft" config one.yaml two.yaml
refuses_like "replicator.delay is 1 with replicator.exchange sharded, .* expected auto or all_gather" \
    "$weft" config method=async-demo replicator.exchange=sharded
refuses_like "replicator.delay is 1 with mesh.sites 2, expected 0, or one site.*" \
    "$weft" config method=async-demo mesh.nodes=4 mesh.sites=2 site_replicator.kind=full
refuses "method is ddp, which needs mesh.ranks_per_node 1, found 2 (hsdp shards the \
model inside a node)" "$weft" config run.yaml method=ddp mesh.ranks_per_node=2
printf 'mesh:\n  link: 100Mbitt\n' >bad.yaml
refuses "bad.yaml:2: mesh.link is '100Mbitt', expected 'none' or RATE,LATENCY such as \
'100Mbit,10ms'" "$weft" config bad.yaml
printf 'data:\n  path: [\n' >bad.yaml
expect 2 "$weft" config bad.yaml
grep -q "^weft: bad.yaml:3: not valid YAML: " err || fail "no syntax error: $(cat err)"
refuses "unknown flag --orgins of 'weft config' (did you mean --origins?)" "$weft" config --orgins
refuses "--origins takes no value, found 'x'" "$weft" config --origins=x
refuses "--help takes no value, found 'x'" "$weft" config --help=x
refuses "--origins and --json are two forms, expected one of them" "$weft" config --json --origins
refuses "--json and --keys are two forms, expected one of them" "$weft" config --json --keys
refuses "--keys goes with no other flag" "$weft" config --keys --nodes 2
refuses "'run.yaml' is one argument too many, expected: weft config [run.yaml] \
[section.key=value ...] [flags]" "$weft" config --keys run.yaml

# -- odd combinations are said on stderr and run
expect 0 "$weft" config run.steps=5
grep -q "^weft: warning: schedule.warmup (100) is longer" err || fail "no warning: $(cat err)"

# -- values as people write them; the flags of weft train
prints "  steps: 500" "$weft" config --steps 500 --nodes 2 --link 100mbit,10ms
prints "  link: \"100mbit,10ms\"" "$weft" config --nodes 2 mesh.link=100mbit,10ms
prints "  timeout: 300" "$weft" config mesh.timeout=5min
prints "  validation: 0.1" "$weft" config data.validation=10%
prints "  memory_limit: 4GB" "$weft" config mesh.memory_limit=4G
refuses_like "optimizer.lr is '5%', expected .*" "$weft" config optimizer.lr=5%

# -- examples
for example in "$source_dir"/examples/*.yaml; do
    expect 0 "$weft" config "$example"
    [[ ! -s err ]] || fail "$example: $(head -1 err)"
done

# -- documentation is what the program prints
"$weft" config --markdown >configuration.md
same configuration.md "$source_dir/docs/configuration.md"

# -- lists
prints "models (model.kind)" "$weft" list
"$weft" list models | awk '{ print $1 }' | sort >models.txt
"$weft" config --keys | sed -n 's/^model.kind\t[^\t]*\t\([^\t]*\).*/\1/p' |
    sed 's/ or /, /' | tr -d ' ' | tr ',' '\n' | sort >choices.txt
same models.txt choices.txt
prints "adamw          Adam with decoupled weight decay" "$weft" list optimizers
for topic in $("$weft" list | awk '/^[a-z]/ { print $1 }'); do
    "$weft" list "$topic" >topic.txt
    [ -s topic.txt ] || fail "nothing is listed for $topic"
done
for pair in compressors:replicators presets:methods mixer.values:codecs; do
    cmp <("$weft" list "${pair%:*}") <("$weft" list "${pair#*:}") || fail "$pair"
done
prints "split          each part continues on its own: two runs, which are never merged" \
    "$weft" list elastic.partition
refuses "nothing to list for 'optimizer.lr' (did you mean 'optimizers'?)" \
    "$weft" list optimizer.lr
refuses "s3://b/x is an address, expected a topic or a key, see weft list; the newest checkpoint of a run in a store is \
named in s3://BUCKET/RUN/latest" "$weft" list s3://b/x
refuses "nothing to list for 'model' (did you mean 'models'?)" "$weft" list model

# -- output that cannot be written is an error
if [[ -c /dev/full ]]; then
    code=0
    "$weft" config >/dev/full 2>err || code=$?
    [[ $code == 1 ]] || fail "exit code $code on a full disk, expected 1"
    why="weft: could not write the output: No space left on device"
    grep -qxF "$why" err || fail "a full disk is not said: $(cat err)"
    # a command that is one process of several flushes before it ends
    some_text >text.txt
    code=0
    rm -rf full_output # of an earlier test
    "$weft" train text.txt "${tiny[@]}" --folder full_output --quiet >/dev/full 2>err || code=$?
    [[ $code == 1 ]] && grep -qxF "$why" err || fail "train on a full disk: $code, $(cat err)"
    ls full_output/checkpoints/step-* >/dev/null || fail "and it was not saved"
fi

# -- manual page
if command -v groff >/dev/null; then
    groff -man -ww -Tutf8 -z weft.1 2>warnings || fail "groff fails"
    [[ ! -s warnings ]] || fail "groff: $(head -1 warnings)"
fi
if command -v mandoc >/dev/null; then
    mandoc -Tlint -W error weft.1 >warnings || fail "mandoc: $(head -1 warnings)"
fi

# -- completion
"$weft" completion bash >completion.bash
bash -n completion.bash || fail "the completion script does not parse"
if command -v shellcheck >/dev/null; then
    shellcheck -s bash completion.bash >warnings || fail "shellcheck: $(head -5 warnings)"
fi
refuses "no completion for 'ksh', expected bash, fish or zsh" "$weft" completion ksh
# fish and zsh complete a command, a key, a choice of a key, a flag and a topic
"$weft" completion fish >weft.fish
"$weft" completion zsh >_weft
if command -v fish >/dev/null; then
    fishes() { # LINE WORD
        HOME=$PWD fish --no-config -c "source weft.fish; complete -C '$1'" 2>&1 | cut -f1 | grep -qxF -- "$2" ||
            fail "fish does not complete '$1' by '$2'"
    }
    fishes "weft pl" plan
    fishes "weft train mesh.nod" mesh.nodes=
    fishes "weft train method=flex" method=flexdemo
    fishes "weft report -" -o
    fishes "weft list mix" mixers
    fishes "weft watch --te" --text
    fishes "weft plan --failur" --failures
fi
if command -v zsh >/dev/null; then
    cat >complete.zsh <<'E2'
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'autoload -U compinit; compinit -u -D; source ./_weft; PS1=""; bindkey "^I" complete-word; echo RE""ADY'
out=''; while [[ $out != *READY* ]]; do zpty -r z part || exit 1; out+=$part; done
zpty -w -n z "$1"$'\t'
out=''; for ((i = 0; i < 200; i++)); do
    while zpty -r -t z part; do out+=$part; done
    [[ $out == *$2* ]] && exit 0
    sleep 0.1
done
print -r -- $out; exit 1
E2
    zshes() { # LINE WHAT THE LINE BECOMES
        HOME=$PWD TERM=dumb timeout 60 zsh -f complete.zsh "$1" "$2" >zsh.out || fail "zsh does not complete '$1': $(cat -v zsh.out)"
    }
    zshes "weft train method=flex" flexdemo
    zshes "weft list mix" ers
    zshes "weft train mesh.nod" es=
fi
# shellcheck source=/dev/null
. ./completion.bash

# completes EXPECTED WORD...: what follows the words (cut at '=' as bash does), the last one
# being typed. EXPECTED must be among the answers.
completes() {
    local expected=$1
    shift
    COMP_WORDS=(weft "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _weft 2>/dev/null
    [[ " ${COMPREPLY[*]} " == *" $expected "* ]] ||
        fail "completing '$*': no $expected in: ${COMPREPLY[*]}"
}
completes config co
completes --version --v
completes --origins config --or
completes --help list --
completes schedule.kind= config sch
completes cosine config schedule.kind =
completes cosine config schedule.kind = cos
completes false config mesh.overlap = f
completes run.yaml config ru
completes run.yaml config data.path = ru
completes models list mo
completes bash completion ""

finish
