#!/bin/bash
# SPDX-License-Identifier: MIT
# What networks do to a run: firewalls that refuse, cables, restarts behind them. No trial may end
# with two parts that both train, and what can go on goes on.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/machines.sh"
empty_here
write_sentences >text.txt
tokens=1920 small_run "steps: 100000, eval_every: 0, save_every: 0" "compute_time: 0.02" "method: hsdp"
net_up 5
"$weft" key new >run.key
keyed="run.yaml mesh.key=run.key"

# stands FOLDER: no step in a second and a half.
stands() { local a; a=$(newest "$1"); sleep 1.5; [ "$(newest "$1")" = "$a" ]; }

# -- Of two machines one is killed: the other goes on at once.
# shellcheck disable=SC2086
founders 2 $keyed
until_true 60 "two begin" has_lines run0 20
kill -9 "${started[1]}"
until_true 20 "one of two, killed" says 0 "lost rank 1"
until_true 20 "the other one goes on" grows run0
end_all

# -- A firewall between two refuses with resets: neither goes on alone; without it both train
# together again.
for how in "reject with tcp reset" "reject"; do
    # shellcheck disable=SC2086
    founders 2 $keyed
    until_true 60 "two begin" has_lines run0 20
    firewall 0 "$how" 1
    sleep 4
    stands run0 || fail "$how: machine 0 goes on alone"
    [ ! -e run1/metrics.jsonl ] || fail "$how: machine 1 goes on alone"
    no_firewall 0
    until_true 60 "$how: both train again" grows run0
    [ ! -e run1/metrics.jsonl ] || fail "$how: machine 1 went on alone"
    ! has_ended 1 || fail "$how: machine 1 has ended: $(cat log.1)"
    end_all
done

# -- Between three and two: the three go on, the two wait, and come back.
# shellcheck disable=SC2086
founders 5 $keyed
until_true 60 "five begin" has_lines run0 20
for i in 3 4; do firewall $i "reject with tcp reset" 0 1 2; done
until_true 30 "three of five go on" says 0 "lost rank"
until_true 30 "three of five train" grows run0
[ ! -e run3/metrics.jsonl ] || fail "two of five go on, too"
# Two of the three are killed while the others can not know: the third goes on, by what their
# machines say; and the other two, to which these machines speak again, do not.
kill -9 "${started[0]}" "${started[1]}"
firewall 3 drop 2
firewall 4 drop 2
for i in 3 4; do on $i nft flush table inet wall; firewall $i drop 2; done
until_true 30 "the last of the three goes on" grows run2
sleep 3
[ ! -e run3/metrics.jsonl ] || fail "two of five go on beside the third one"
end_all
for i in 3 4; do no_firewall $i; done

# -- A process dies while its cable is out, and is started again before it is in.
for guard in with without; do
    # shellcheck disable=SC2086
    founders 2 $keyed
    until_true 60 "two begin" has_lines run0 20
    cable 1 down
    sleep 2
    kill -9 "${started[1]}"
    # shellcheck disable=SC2046 # several numbers
    [ $guard = with ] || kill -9 $(ip netns pids "$net-1")
    # shellcheck disable=SC2086
    start 1 again $keyed run.folder=again --join 10.97.0.1
    sleep 1
    cable 1 up
    until_true 60 "$guard guard: a restart behind a cable" says 0 "rank 1.* joined\|joined"
    until_true 30 "$guard guard: both train" grows run0
    ! has_ended again || fail "$guard guard: the new process has ended: $(cat log.again)"
    end_all
done
finish
