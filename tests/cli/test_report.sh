#!/bin/bash
# SPDX-License-Identifier: MIT
# The report's page in a real browser: what it draws of one run, of several, of broken and of
# hostile ones; switches, zoom, themes, the width of a phone. report_page.js has the claims.
. "$2/tests/cli/helpers.sh"
empty_here
need_browser

# metrics STEPS BYTES [LOSS]: a run as training would write it, with 3 evaluations.
metrics() {
    awk -v n="$1" -v bytes="$2" -v end="${3:-3}" 'BEGIN {
        for (i = 1; i <= n; i++) {
            loss = end + 4 * exp(-5 * i / n) + 0.1 * ((i * 7919) % 13) / 13
            s = 0.2 + 0.01 * (i % 5)
            t += s
            printf "{\"step\":%d,\"loss\":%.4f,\"lr\":0.001,\"grad_norm\":1.5,\"tokens\":1000,", i, loss
            printf "\"tokens_per_s\":%.1f,\"mfu\":0.4,\"memory_bytes\":5000000,", 1000 / s
            printf "\"wire_bytes_out\":%d,\"wire_bytes_in\":%d,\"compute_s\":0.15,", bytes, bytes
            printf "\"exchange_s\":0.1,\"wait_s\":%.3f,\"step_s\":%.3f,\"elapsed_s\":%.3f}\n", s - 0.16, s, t
            if (i % int(n / 3) == 0)
                printf "{\"step\":%d,\"elapsed_s\":%.3f,\"validation_loss\":%.4f%s}\n", i, t, loss + 0.2,
                    (i + int(n / 3) > n ? ",\"bigram_loss\":4.5" : "")
        }
    }'
}
spans() { # FACTOR: a timeline's list
    awk -v f="$1" 'BEGIN {
        for (i = 0; i < 200; i++)
            printf "%s{\"lane\":\"%s\",\"index\":%d,\"what\":\"%s\",\"begin_s\":%.6f,\"end_s\":%.6f}", i ? "," : "",
                i % 2 ? "exchange" : "compute", i / 2, i % 2 ? "begin" : i < 100 ? "forward" : "backward",
                f * i / 1000, f * (i + 0.9) / 1000
    }'
}
config() { printf 'method: %s\nmesh:\n  nodes: 2\n  link: "%s"\nrun:\n  seed: 1\n' "$1" "$2"; }

mkdir -p one two three "empty" begun "evaluated" nan lone long slow
metrics 300 2000000 >one/metrics.jsonl
config flexdemo 100Mbit >one/config.yaml
for step in 100 200 300; do
    for node in 0 1; do
        echo "{\"step\":$step,\"elapsed_s\":1,\"node\":$node,\"host\":\"host$node\",\"ranks\":2,\"cores\":4,\"cpu_cores\":$((node + 1)).5,\"busy_share\":0.5,\"memory_bytes\":3e9,\"rank_bytes\":1e9,\"net_out\":${step}000,\"net_in\":null,\"wire_out\":5000,\"wire_in\":6000}"
    done
done >one/nodes.jsonl
echo "{\"step\":21,\"timeline\":[$(spans 1)]}" >one/timeline.json
echo "{\"prediction\":{\"step_s\":{\"low\":0.18,\"median\":0.2,\"high\":0.25},\"mean_step_s\":0.21,
\"compute_s\":0.15,\"exchange_s\":0.1,\"wait_s\":0.06,\"wait_wire_s\":0.05,\"hidden_share\":0.4,
\"tokens_per_s\":5000,\"wire_bytes\":2e6},\"timeline\":[$(spans 1.1)]}" >one/plan.json
metrics 200 400000000 3.2 >two/metrics.jsonl
config hsdp 100Mbit >two/config.yaml
metrics 90 2000000 3.4 >three/metrics.jsonl
config flexdemo 1Gbit >three/config.yaml
: >empty/metrics.jsonl
echo '{"step":1,"loss":4.5,"tokens":5,"step_s":0.1}' >begun/metrics.jsonl
echo '{"step":0,"validation_loss":5}' >evaluated/metrics.jsonl
awk 'BEGIN {for (i = 1; i <= 50; i++) printf "{\"step\":%d,\"loss\":%s,\"tokens\":5}\n", i, (i > 30 ? "null" : 5 - i / 20)}' >nan/metrics.jsonl
awk 'BEGIN {for (i = 1; i <= 20; i++) printf "{\"step\":%d,\"loss\":4}\n", i}' >lone/metrics.jsonl
printf 'run:\n  steps: 40\n' >lone/config.yaml
metrics 100000 2000000 >long/metrics.jsonl
# 20 steps of 0.1 s, an evaluation of 5 s behind the tenth and the last
awk 'BEGIN {for (i = 1; i <= 20; i++) {
    t += 0.1
    printf "{\"step\":%d,\"loss\":4,\"compute_s\":0.07,\"wait_s\":0.03,\"exchange_s\":0.05,\"step_s\":0.1,\"elapsed_s\":%.3f}\n", i, t
    if (i % 10 == 0) printf "{\"step\":%d,\"elapsed_s\":%.3f,\"validation_loss\":4}\n", i, t += 5
}}' >slow/metrics.jsonl
hostile=$'<img src=x onerror=top.pwned=1>"\'&\x01<!--<script>'
mkdir "$hostile"
metrics 20 1000 >"$hostile/metrics.jsonl"
echo '{"step":1,"node":0,"host":"<img src=x onerror=top.pwned=1>"}' >"$hostile/nodes.jsonl"
printf 'a: "</script><script>top.pwned=1</script>"\nb<i>: \x02 <img src=x onerror=top.pwned=1>\n' >"$hostile/config.yaml"
echo '{"timeline":[{"lane":"<svg onload=top.pwned=1>","index":1,"what":"</script><b>","begin_s":0,"end_s":1}]}' >"$hostile/timeline.json"

mkdir ranks # three of them; the second began 20 ms late, and the third wrote nothing
metrics 30 2000000 >ranks/metrics.jsonl
config flexdemo 100Mbit >ranks/config.yaml
echo "{\"step\":21,\"rank\":0,\"begun_s\":0,\"timeline\":[$(spans 1)],\"others\":[
    {\"rank\":1,\"node\":1,\"begun_s\":0.02,\"timeline\":[$(spans 1)]},
    {\"rank\":2,\"node\":1,\"begun_s\":0,\"timeline\":[]}]}" >ranks/timeline.json
mkdir names alone # a timeline of 12 names, the longest first; one node, faster than `one`
echo '{"step":1,"loss":4}' >names/metrics.jsonl
awk 'BEGIN {
    printf "{\"step\":1,\"timeline\":["
    for (i = 0; i < 12; i++)
        printf "%s{\"lane\":\"compute\",\"index\":0,\"what\":\"what %d\",\"begin_s\":%d,\"end_s\":%d}", i ? "," : "", i,
            100 * i, 100 * i + 20 - i
    print "]}"
}' >names/timeline.json
metrics 300 0 2.5 | sed 's/"exchange_s":0.1/"exchange_s":0/; s/"step_s":0.2/"step_s":0.1/
    s/"tokens_per_s":[0-9.]*/"tokens_per_s":9000/; s/"memory_bytes":5/"memory_bytes":4/' |
    awk '{ if (match($0, /"elapsed_s":[0-9.]+/))
        printf "%s\"elapsed_s\":%.3f%s\n", substr($0, 1, RSTART - 1), substr($0, RSTART + 12, RLENGTH - 12) / 2, substr($0, RSTART + RLENGTH)
        else print }' >alone/metrics.jsonl
printf 'method: none\nmesh:\n  nodes: 1\nrun:\n  seed: 1\n' >alone/config.yaml
sed 's/"wire_out":5000,"wire_in":6000/"wire_out":0,"wire_in":0/' one/nodes.jsonl >alone/nodes.jsonl
sed 's/"wire_bytes":2e6/"wire_bytes":0/; s/"exchange_s":0.1,"wait_s":0.06,"wait_wire_s":0.05,"hidden_share":0.4/"exchange_s":0,"wait_s":0/' \
    one/plan.json >alone/plan.json
for run in one names alone two three ranks empty begun evaluated nan lone long slow; do expect 0 "$weft" report "$run" -o "$run.html"; done
expect 0 "$weft" report "$hostile" -o hostile.html
expect 0 "$weft" report one two three -o all.html
expect 0 "$weft" report alone one -o two_runs.html
expect 0 "$weft" report "$hostile" one empty -o hostiles.html
(($(wc -c <long.html) < 4000000)) || fail "the page of 100000 steps has $(wc -c <long.html) bytes"

# the page as a reader opens it
browse "file://$PWD/all.html" >dom || fail "the browser: $(tail -3 browser.log)"
grep -q '<html[^>]* data-ready="yes"' dom || fail "the page is not drawn: $(tail -3 browser.log)"
grep -q '<html[^>]* data-errors="0"' dom || fail "errors: $(grep -o '<html[^>]*>' dom)"
! grep -q 'CONSOLE' browser.log || fail "the console: $(grep CONSOLE browser.log)"

# everything else, in frames of one page
try_claims "$source_dir/tests/cli/report_page.js"
finish
