#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server that does wrong, for tests: http://127.0.0.1:PORT/WRONG/NAME is the file TEXT, served as WRONG says.

    hostile_server.py TEXT LOG      prints the port; heads of requests are added to LOG, one a line

A bucket's name is a wrong, too. Two ports listen: what is asked at the second one is another host."""
import hashlib
import pathlib
import re
import socket
import sys
import threading
import time

text, log_file = pathlib.Path(sys.argv[1]).read_bytes(), pathlib.Path(sys.argv[2])
tries, lock = {}, threading.Lock()
listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2)]
ports = [listener.getsockname()[1] for listener in listeners]
PAGE = "<?xml version='1.0'?><Error><Code>%s</Code><Message>m &amp; m</Message>%s</Error>"


def tag(of=text):
    return f'ETag: "{hashlib.md5(of).hexdigest()}"'


def head(status, *lines):
    return ("\r\n".join([f"HTTP/1.1 {status} x", "Connection: close", *lines]) + "\r\n\r\n").encode()


def whole(body, *lines):
    return head(200, f"Content-Length: {len(body)}", *lines) + body


def refusal(status, code, more="", *lines):
    body = (PAGE % (code, more)).encode()
    return head(status, f"Content-Length: {len(body)}", *lines) + body


def cut(*lines):
    """The head of all and a third of the text."""
    return whole(text, *lines)[:-(len(text) - len(text) // 3)]


def part(start, total, body, *lines):
    return head(206, f"Content-Range: bytes {start}-{start + len(body) - 1}/{total}",
                f"Content-Length: {len(body)}", *lines) + body


def forever(piece, pause=0.0):
    while True:
        yield piece
        time.sleep(pause)


other = text.replace(b"cat", b"cow")
# after the first answer, which is cut: `from` is what Range asks for
ranges = {
    "shifted": lambda start: part(start + 5, len(text), text[start + 5:], tag()),
    "longer": lambda start: part(start, len(text) + 7, text[start:], tag()),
    "unranged": lambda start: part(0, len(text), text, tag()),
    "replaced": lambda start: part(start, len(other), other[start:], tag(other)),
    "untagged": lambda start: part(start, len(other), other[start:]),
    "stops": lambda start: part(start, len(text), text[start:start + 100], tag()),
    "whole": lambda start: whole(other, tag(other)),
    "unknown": lambda start: head(206, "Content-Range: bytes */*", tag()) + text[start:],
    "shrunk": lambda start: refusal(416, "InvalidRange"),
}
fixed = {
    "negative": head(200, "Content-Length: -5") + text,
    "overflow": head(200, "Content-Length: 99999999999999999999") + text,
    "two": head(200, f"Content-Length: {len(text)}", "Content-Length: 10") + text,
    "unsaid": head(200) + text,
    "long": head(200, f"Content-Length: {len(text) + 9}", tag()) + text,
    "always-cut": cut(),
    "packed": whole(text, "Content-Encoding: br"),
    "unasked304": head(304, tag()),
    "unasked206": part(0, len(text), text, tag()),
    "always416": refusal(416, "InvalidRange"),
    "later": refusal(503, "SlowDown", "", "Retry-After: 9999"),
    "old": b"hello, this is no HTTP\n" * 9,
    "nul": head(200, "X-A: a\0b", f"Content-Length: {len(text)}") + text,
    "to-file": head(302, "Location: file:///etc/passwd", "Content-Length: 0"),
    "to-self": head(302, "Location: /to-self/again.txt", "Content-Length: 0"),
    "to-other": head(302, f"Location: http://localhost:{ports[1]}/good/a.txt", "Content-Length: 0"),
    "denied": refusal(403, "AccessDenied"),
    "expired": refusal(400, "ExpiredToken"),
    "region": refusal(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
    "moved": refusal(301, "PermanentRedirect", "", "x-amz-bucket-region: eu-south-2"),
    "bomb": refusal(403, "&a;" * 99, "", "x-amz-bucket-region: \x1b[31m" + "r" * 900),
    "nobucket": refusal(404, "NoSuchBucket"),
    "skewed": refusal(403, "RequestTimeTooSkewed"),
    "good": whole(text, tag()),
}
streams = {
    "endless-body": lambda: (head(200, tag()), forever(b"a" * 65536)),
    "endless-chunks": lambda: (head(200, "Transfer-Encoding: chunked", f"Content-Length: {len(text)}"),
                               forever(b"10\r\n" + b"b" * 16 + b"\r\n")),
    "endless-head": lambda: (b"HTTP/1.1 200 x\r\n", forever(b"X-Again: " + b"c" * 900 + b"\r\n")),
    "endless-103": lambda: (b"", forever(b"HTTP/1.1 103 x\r\nLink: a\r\n\r\n" * 99)),
    "enormous": lambda: (head(200, "Content-Length: 1152921504606846976", tag()), forever(b"f" * 65536)),
    "endless-page": lambda: (head(404), forever(b"<Error>" * 999)),
    "drip": lambda: (head(200, f"Content-Length: {len(text)}", tag()), forever(b"d", 1.0)),
    "drip-head": lambda: (b"HTTP/1.1 200 x\r\nX-Long: ", forever(b"e", 1.0)),
}


def answer(wrong, request, number):
    """The bytes to send, and what is sent after them until the other side hangs up."""
    if wrong in streams:
        return streams[wrong]()
    if wrong in ranges:
        start = re.search(rb"^Range: bytes=(\d+)-", request, re.M | re.I)
        if number == 0:
            return cut(tag()), ()
        return (ranges[wrong](int(start[1])) if start else whole(text, tag())), ()
    if wrong == "same-second":  # is replaced within the second in which its beginning was read
        date = "Mon, 02 Nov 2026 10:00:00 GMT"
        lines = [f"Last-Modified: {date}", f"Date: {date}"]
        start = re.search(rb"^Range: bytes=(\d+)-", request, re.M | re.I)
        if number == 0:
            return cut(*lines), ()
        return (part(int(start[1]), len(other), other[int(start[1]):], *lines) if start else whole(other, *lines)), ()
    if wrong == "busy" and number == 0:
        return refusal(429, "TooManyRequests", "", "Retry-After: 3"), ()
    return fixed.get(wrong, fixed["good"]), ()


def serve(connection, port):
    request = b""
    try:
        while b"\r\n\r\n" not in request:
            got = connection.recv(65536)
            if not got:
                return
            request += got
        wrong = request.split(b" ")[1].decode().split("/")[1]
        with lock:
            number = tries.get(request.split(b" ")[1], 0)
            tries[request.split(b" ")[1]] = number + 1
            with log_file.open("ab") as log:
                log.write(b"%d " % (port == ports[1]) + request.partition(b"\r\n\r\n")[0].replace(b"\r\n", b" | ") + b"\n")
        first, more = answer(wrong, request, number)
        connection.sendall(first)
        for piece in more:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    finally:
        connection.close()


def listen(listener, port):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], port), daemon=True).start()


print(*ports, flush=True)
threading.Thread(target=listen, args=(listeners[1], ports[1]), daemon=True).start()
listen(listeners[0], ports[0])
