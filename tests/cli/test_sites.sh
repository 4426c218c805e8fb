#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs over several sites lose nodes: the others go on to the end with equal models (compared after
# each step), and a replay has the same bits. A site's messages that its lost node was to bring are
# brought by another of its nodes.
. "$2/tests/cli/helpers.sh"
steps=40
. "$2/tests/cli/losing.sh"

# As losing, in $sites (2); and what was trained is played again.
lost() {
    losing "$@" mesh.sites="${sites:-2}"
    [ -f run/checkpoints/step-00000040/model.safetensors ] || fail "$*: no last checkpoint"
    [ "$(grep -c '"members"' run/views.jsonl)" -ge 2 ] || fail "$*: views.jsonl is $(cat run/views.jsonl)"
    "$weft" train --replay run --quiet >out 2>err || fail "$*: $(cat err); $(cat run/views.jsonl)"
    grep -q "^the same bits .*every number of checkpoint 40$" out || fail "$*: it says $(cat out)"
}

# A node of a site of two; the first, who leads; inside and between sites all sums, and few numbers.
lost 4 1 3 7 method=hsdp site_replicator.kind=full
lost 4 1 0 9 method=hsdp site_replicator.kind=demo
lost 4 1 1 11 method=flexdemo site_replicator.kind=demo site_replicator.exchange=all_gather
lost 6 1 "0 4" 8 method=dadam replicator.kind=full # sites gossip, each with equal replicas
# Each site is one copy of the model, of which the whole is lost; at last one site is left.
sites=3 lost 3 1 1 9 method=diloco mixer.outer_every=5
lost 4 2 2 7 method=hsdp replicator.kind=none site_replicator.kind=demo

# A site of several nodes that is lost as a whole, where one is left: by all routes between sites.
at_once=1 lost 4 1 "2 3" 9 method=hsdp site_replicator.kind=demo
at_once=1 lost 4 1 "3 2" 7 method=hsdp site_replicator.kind=full
at_once=1 lost 4 1 "3 2" 8 method=flexdemo site_replicator.kind=demo site_replicator.exchange=all_gather

# Where two are left it ends the run, with one sentence.
before=$failures # of those that losing expects to go on
losing 6 1 "2 3" 9 method=hsdp site_replicator.kind=demo mesh.sites=3 2>/dev/null
failures=$before
grep -q "site 2 of 3 has lost all its nodes" log.0 log.1 || fail "a whole site: they say $(cat log.0 log.1)"
finish
