#!/bin/bash
# SPDX-License-Identifier: MIT
# weft watch: the page follows a run while it is written, only this machine is answered, and
# the terminal's view says the same numbers.
. "$2/tests/cli/helpers.sh"
empty_here
need_python
lines() { # FROM TO
    awk -v a="$1" -v b="$2" 'BEGIN {
        for (i = a; i <= b; i++)
            printf "{\"step\":%d,\"loss\":%.4f,\"tokens\":1000,\"tokens_per_s\":5000,\"wire_bytes_out\":2000000,\"compute_s\":0.15,\"exchange_s\":0.1,\"wait_s\":0.04,\"step_s\":0.2,\"elapsed_s\":%.1f}\n",
                i, 3 + 4 * exp(-i / 50), i / 5}'
}
mkdir run
lines 1 50 >run/metrics.jsonl
printf 'method: flexdemo\nrun:\n  steps: 400\n' >run/config.yaml

# bad input
refuses "an argument is missing, expected: weft watch RUN [RUN ...] [--port N | --text]" "$weft" watch
refuses "could not open the run folder none: No such file or directory" "$weft" watch none --text --once
: >err # of the command before
"$weft" watch later --text --every 0.1 >out 2>err &
for ((i = 0; i < 300; i++)); do grep -q . err && break || sleep 0.1; done
grep -qx "waiting for the run folder later" err || fail "no waiting: $(cat err)"
cp -r run before && mv before later
for ((i = 0; i < 300; i++)); do grep -q . out && break || sleep 0.1; done
kill $! && wait $! || fail "watch of a folder that came: code $?"
grep -q '^later  flexdemo   step 50/400' out || fail "it came: $(cat out err)"
refuses "run/config.yaml is a file, expected a run folder" "$weft" watch run/config.yaml
refuses "--once goes with --text" "$weft" watch run --once
refuses "--port is of the page, --text shows none" "$weft" watch run --text --port 1

# the terminal
expect 0 env LC_ALL=C "$weft" watch run --text --once
grep -q '^  [56][.0-9]* #[-#*+~,._]*_ 4\.' out || fail "curve in ASCII: $(cat out)"
LC_ALL=C grep -q '[^ -~]' out && fail "other characters than ASCII: $(cat out)"
if command -v script >/dev/null; then
    script -qec "TERM=dumb timeout 5 '$weft' watch run --text" /dev/null </dev/null >dumb
    grep -q '^run  flexdemo' dumb || fail "on a dumb terminal: $(cat dumb)"
    grep -q "$(printf '\033')" dumb && fail "escape codes on a dumb terminal"
fi
expect 0 env LC_ALL=C.UTF-8 "$weft" watch run --text --once
grep -q '^run  flexdemo   step 50/400 12%   10 s, 70 s left$' out || fail "head: $(head -1 out)"
grep -q '^  5\.\?[0-9]* █.*▁ 4\.' out || grep -q '^  6\.9[0-9]* █.*▁ 4\.' out || fail "curve: $(cat out)"
grep -q '^  5k tokens/s   step 200 ms: computing 150 ms, waiting 40 ms, the rest 10 ms$' out || fail "speed: $(cat out)"
grep -q '^  wire 2 MB/step out of a node, 60% of the exchange hidden, 100 MB so far$' out || fail "wire: $(cat out)"
# evaluations count in what is left; what is only rounding is not said
mkdir slow
lines 1 20 | sed 's/"compute_s":0.15/"compute_s":0.16/' >slow/metrics.jsonl
echo '{"step":20,"elapsed_s":22.2,"validation_loss":5}' >>slow/metrics.jsonl
printf 'method: flexdemo\nrun:\n  steps: 40\n' >slow/config.yaml
expect 0 "$weft" watch slow --text --once
grep -q '^slow  flexdemo   step 20/40 50%   22.2 s, 23.2 s left$' out || fail "head: $(head -1 out)"
grep -q '^  loss [0-9.]*, mean of the last 20 steps   validation 5.0000' out || fail "which loss: $(cat out)"
grep -q '^  5k tokens/s   step 200 ms: computing 160 ms, waiting 40 ms$' out || fail "speed: $(cat out)"
view() { # RANKS STEP: a line of views.jsonl
    echo "{\"run\":\"716e3fbc1e240e1b\",\"view\":$2,\"step\":$2,\"time\":1,\"stall_s\":null,\"first_row\":0,\"rows_per_rank\":4,\"micro\":4,\"shards\":1,\"threads\":1,\"kernels\":\"avx512\",\"members\":[$1],\"lost\":[],\"joined\":[]}"
}
view '[0,"0000000000000000","a"],[1,"0000000000000000","b"]' 1 >slow/views.jsonl
view '[0,"0000000000000000","a"]' 16 >>slow/views.jsonl
expect 0 "$weft" watch slow --text --once # since the change: 4 steps and the evaluation in 19 s
grep -q '^slow  flexdemo   step 20/40 50%   22.2 s, 95 s left$' out || fail "since the change: $(cat out err)"
# a program of PyTorch: steps alone, and what was said of them
mkdir program
echo '{"step":60,"step_s":0.2,"steps":60}' >program/metrics.jsonl
form() { # STEP FORM WHY: a line of views.jsonl
    view '[0,"0000000000000000","a"],[1,"0000000000000001","b"]' "$1" | sed "s/\"members\"/\"form\":\"$2\",\"shared\":true${3:+,\"why\":\"$3\"},&/"
}
{ form 1 'full f32'; form 5 'full f32' 'one process alone is faster'; form 6 'outer f32 50' 'from step 6 on'; } >program/views.jsonl
expect 0 "$weft" watch program --text --once
[[ $(sed 1d out) == $'  step 200 ms\n  one process alone is faster\n  2 ranks since step 6: outer f32 50; 1 change in all' ]] ||
    fail "a program's: $(cat out)"
sed -i 's/"form":"outer f32 50"/&,"name":"diloco H=50"/; s/"form":"full f32"/"name":"full sync"/' program/views.jsonl
expect 0 "$weft" watch program --text --once
[[ $(sed 1,3d out) == '  2 ranks since step 6: diloco H=50; 1 change in all' ]] || fail "names: $(cat out)"
# with a plan: of the first form, then of the one that was changed to
echo '{"prediction":{"step_s":{"low":0.18,"median":0.2,"high":0.25}}}' >program/plan.json
for expects in "0.3,0.05,3,2,4,1e6 since step 6" "0,0,0,0,0,0"; do
    sed -i -E '3s/,"expected":\[[^]]*\]//; 3s/,"members"/,"expected":['"${expects%% *}"']&/' program/views.jsonl
    expect 0 "$weft" watch program --text --once
    case $expects in
    *since*) grep -qx '  predicted 50 ms/step since step 6' out ;;
    *) ! grep -q predicted out ;;
    esac || fail "the prediction after a change: $(cat out)"
done
sed -i '2,$d' program/views.jsonl
expect 0 "$weft" watch program --text --once
grep -qx '  predicted 200 ms/step (180 ms to 250 ms)' out || fail "before a change: $(cat out)"
mkdir empty hostile
expect 2 "$weft" watch empty --text --once
expect 2 timeout 60 "$weft" watch empty --text
mapfile -t many < <(yes run | head -70)
refuses_like "70 arguments are [0-9]* too many, expected: weft watch RUN .*" "$weft" watch "${many[@]}"
# once on a terminal clears nothing; a run that reads its text still is waited for, and one whose folder
# goes is named below what was seen of it
python3 - "$weft" <<'E2' || fail "the text view of a run that begins or goes"
import os, pty, shutil, subprocess, sys
def in_terminal(*args):
    ours, its = pty.openpty()
    p = subprocess.Popen([sys.argv[1], 'watch', *args], stdout=its, stderr=its, stdin=its)
    os.close(its)
    return p, ours
def until(word, ours, text=b''):
    while word not in text:
        try: got = os.read(ours, 4096)
        except OSError: got = b''
        assert got, (word, text)
        text += got
    return text
p, ours = in_terminal('run', '--text', '--once')
assert b'\033' not in until(b'so far', ours) and p.wait(20) == 0
os.mkdir('begins')
open('begins/lease', 'w').close()
p, ours = in_terminal('begins', '--text', '--every', '0.1')
until(b'could not open begins/metrics.jsonl: No such file or directory', ours)
with open('begins/new', 'w') as f: f.write('{"step":7,"loss":2.5}\n')
os.rename('begins/new', 'begins/metrics.jsonl')
assert b'step 7' in until(b'loss 2.5000', ours)
os.rename('begins', 'gone')
until(b'could not open begins/metrics.jsonl', ours)
assert p.poll() is None
p.terminate()
assert p.wait(20) == 0
E2
printf '{"step":1,"loss":2}\n' >hostile/metrics.jsonl
printf 'method: \033[31mx\n' >hostile/config.yaml
expect 0 "$weft" watch hostile --text --once
! grep -q $'\033' out || fail "an escape code reached the terminal"

# the page's server
"$weft" watch run --port 0 --every 0.2 >address 2>errors &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for ((i = 0; i < 100; i++)); do
    [[ -s address ]] && break
    sleep 0.1
done
[[ $(cat address) =~ ^http://127\.0\.0\.1:[0-9]+/$ ]] || fail "address: $(cat address) $(cat errors)"
cat >ask.py <<'E2'
import json, os, sys, urllib.error, urllib.request
base = open('address').read().strip()
def ask(path='', method='GET', **headers):
    request = urllib.request.Request(base + path, method=method,
                                     headers={k.replace('_', '-'): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as a:
            return a.status, a.headers, a.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()
E2
python3 - <<'E2' || fail "the server"
exec(open('ask.py').read())
code, headers, page = ask()
assert code == 200 and b'"refresh_s":0.2' in page and b'<html' in page, code
code, headers, data = ask('data.json')
assert code == 200 and json.loads(data)['runs'][0]['summary']['steps'] == 50
tag = headers['ETag']
assert ask('data.json', If_None_Match=tag)[0] == 304
assert ask('', If_None_Match=tag)[0] == 200, 'the page has another tag than the data'
for host in ('evil.example', '127.0.0.1.evil.example', 'localhostx', '', 'localhost:80.evil.example',
             'localhost:80:', '[::1', '127.0.0.1:x'):
    assert ask('data.json', Host=host)[0] in (400, 403), host
for host in 'localhost:8085', 'LocalHost', '[::1]:8085', '127.0.0.1':
    assert ask('data.json', Host=host)[0] == 200, host
os.rename('run/metrics.jsonl', 'aside') # as when a run has just been started: the browser asks again
code, headers, text = ask()
assert code == 503 and headers['Refresh'] == '1' and b'metrics.jsonl' in text, (code, text)
os.rename('aside', 'run/metrics.jsonl')
assert ask()[0] == 200
assert ask('', method='POST')[0] == 405
assert ask('../../etc/passwd')[0] == 404 and ask('metrics.jsonl')[0] == 404
E2
lines 51 60 >>run/metrics.jsonl
printf '{"step":61,"lo' >>run/metrics.jsonl # a line that is being written
python3 -c 'exec(open("ask.py").read())
code, _, data = ask("data.json")
assert code == 200 and json.loads(data)["runs"][0]["summary"]["steps"] == 60, (code, data[:300])' ||
    fail "what was appended"
refuses_like "could not listen on port $(grep -o '[0-9]*/$' address | tr -d /) of 127.0.0.1: .*; --port 0 takes a free one" \
    "$weft" watch run --port "$(grep -o '[0-9]*/$' address | tr -d /)"

# the page in a browser, while the run goes on
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [[ -n $browser ]]; then
    lines 61 90 >more
    sed -i '$d' run/metrics.jsonl
    HOME=$PWD timeout 120 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage \
        --user-data-dir="$PWD/profile" --remote-debugging-port=0 "$(cat address)" 2>browser.log &
    tab=$!
    python3 - <<'E2' || fail "the page in a browser: $(tail -3 browser.log)"
import base64, json, os, re, socket, struct, time, urllib.request, zlib
for _ in range(300):
    found = re.search(r'ws://127.0.0.1:(\d+)/', open('browser.log').read())
    if found: break
    time.sleep(0.1)
tabs = json.load(urllib.request.urlopen(f'http://127.0.0.1:{found[1]}/json'))
target = next(t for t in tabs if t['type'] == 'page')['webSocketDebuggerUrl']
s = socket.create_connection(('127.0.0.1', int(found[1])), timeout=30)
path = '/' + target.split('/', 3)[3]
s.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{found[1]}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n'.encode())
f = s.makefile('rb')
while f.readline() != b'\r\n': pass
def call(method, **params):
    body = json.dumps({'id': 1, 'method': method, 'params': params}).encode()
    s.sendall(b'\x81' + bytes([0xfe]) + struct.pack('>H', len(body)) + b'\0\0\0\0' + body)
    while True:
        head = f.read(2)
        n = head[1]
        n = struct.unpack('>H', f.read(2))[0] if n == 126 else struct.unpack('>Q', f.read(8))[0] if n == 127 else n
        answer = json.loads(f.read(n))
        if answer.get('id') == 1: return answer['result']
def evaluate(text):
    return call('Runtime.evaluate', expression=text, returnByValue=True)['result'].get('value')
def colours(png):
    """How many pixels of a picture have each colour, from the PNG's bytes."""
    assert png[:8] == b'\x89PNG\r\n\x1a\n'
    at, data = 8, b''
    while at < len(png):
        n, kind = struct.unpack('>I4s', png[at:at + 8])
        if kind == b'IHDR': wide, high, depth, colour = struct.unpack('>IIBB', png[at + 8:at + 18])
        if kind == b'IDAT': data += png[at + 8:at + 8 + n]
        at += 12 + n
    size = {2: 3, 6: 4}[colour]
    assert depth == 8 and wide > 300 and high > 300, (depth, wide, high)
    raw, line, found = zlib.decompress(data), bytearray(wide * size), {}
    for y in range(high):
        kind, row = raw[y * (wide * size + 1)], bytearray(raw[y * (wide * size + 1) + 1:(y + 1) * (wide * size + 1)])
        for x in range(wide * size):
            left, up = row[x - size] if x >= size else 0, line[x]
            corner = line[x - size] if x >= size else 0
            if kind == 4:
                p = left + up - corner
                a, b, c = abs(p - left), abs(p - up), abs(p - corner)
            guess = (0, left, up, (left + up) // 2, left if kind == 4 and a <= b and a <= c else up if kind == 4 and b <= c else corner)[kind]
            row[x] = (row[x] + guess) & 255
        line = row
        for x in range(0, wide * size, size):
            key = bytes(row[x:x + 3])
            found[key] = found.get(key, 0) + 1
    return found
seen = []
for _ in range(200):
    now = evaluate("(d => [d.live, d.errors, !!document.body && document.body.innerText.includes('180 MB')].join(' '))(document.documentElement.dataset)")
    if not seen or seen[-1] != now: seen.append(now)
    if now == 'yes 0 true': break
    if now == 'yes 0 false' and os.path.exists('more'): # the page is there: the run goes on
        open('run/metrics.jsonl', 'a').write(open('more').read())
        os.remove('more')
    time.sleep(0.1)
assert seen[-1] == 'yes 0 true' and 'yes 0 false' in seen, seen
# a screenshot: paper, words and curves, not a blank page
call('Emulation.setDeviceMetricsOverride', width=500, height=900, deviceScaleFactor=1, mobile=False)
evaluate("location.hash = '#theme=light'")
found = colours(base64.b64decode(call('Page.captureScreenshot')['data']))
most = max(found.values()) / sum(found.values())
vivid = sum(n for c, n in found.items() if max(c) - min(c) > 90)
assert len(found) > 30 and most < 0.98 and vivid > 200, (len(found), most, vivid)
E2
    kill $tab 2>/dev/null
    wait $tab 2>/dev/null
else
    echo "no chromium: the page was not tried in a browser"
fi

# several runs beside each other, from another machine as ssh -L shows them: the browser asks a port
# that is not the server's, and what forwards it only copies bytes
mkdir second
lines 1 40 >second/metrics.jsonl
printf 'method: hsdp\nrun:\n  steps: 400\n' >second/config.yaml
"$weft" watch run second --port 0 --every 5 >both 2>errors.both &
pair=$!
cat >forward.py <<'E2'
import socket, sys, threading
def copy(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError: pass
endpoint = socket.create_server(('127.0.0.1', 0))
print(endpoint.getsockname()[1], flush=True)
while True:
    a = endpoint.accept()[0]
    b = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    for one, other in (a, b), (b, a): threading.Thread(target=copy, args=(one, other), daemon=True).start()
E2
until [[ -s both ]]; do kill -0 $pair || { fail "two runs: $(cat errors.both)"; break; }; done
python3 forward.py "$(grep -o '[0-9]*/$' both | tr -d /)" >endpoint &
forward=$!
trap 'kill $server $pair $forward 2>/dev/null' EXIT
until [[ -s endpoint ]]; do kill -0 $forward || { fail "no forwarding"; break; }; done
python3 - <<'E2' || fail "two runs through a forwarded port"
import json, urllib.request
text = urllib.request.urlopen(f"http://localhost:{int(open('endpoint').read())}/data.json", timeout=20).read()
runs = json.loads(text)['runs']
assert [r['name'] for r in runs] == ['run', 'second'], [r['name'] for r in runs]
assert runs[1]['summary']['steps'] == 40
E2
if [[ -n $browser ]]; then
    browse --window-size=1200,900 "http://localhost:$(<endpoint)/" >dom
    grep -q '<html[^>]* data-errors="0"' dom || fail "two runs, forwarded: $(grep -o '<html[^>]*>' dom) $(tail -2 browser.log)"
    grep -q '<html[^>]* data-live="yes"' dom || fail "not live through the forwarded port: $(grep -o '<html[^>]*>' dom)"
    curves=$(python3 -c 'import re, sys
loss = re.search(r"data-chart=\"loss\".*?</svg>", sys.stdin.read(), re.S)
print(len(re.findall(r"class=\"curve", loss[0])) if loss else 0)' <dom)
    ((curves >= 2)) || fail "$curves curves of loss, expected one of each run"
fi
kill $pair $forward
wait $pair $forward 2>/dev/null
trap 'kill $server 2>/dev/null' EXIT

# the run's folder goes: the reader is told, the server lives; a signal ends it
mv run gone
python3 -c 'exec(open("ask.py").read())
code, _, text = ask("data.json")
assert code == 503 and b"run" in text, (code, text)' || fail "a run that is gone"
mv gone run
kill -INT $server
wait $server
[[ $? == 0 ]] || fail "the end by a signal"
[[ ! -s errors ]] || fail "on stderr: $(cat errors)"
trap - EXIT
finish
