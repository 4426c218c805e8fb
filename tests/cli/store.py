#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small store for tests: S3's PUT, GET, HEAD, DELETE and multipart uploads over a folder, and plain files under /plain/.

    store.py FOLDER [PORT [CERT KEY]]      prints the port; requests are lines of FOLDER/../requests
    store.py FOLDER presign HOST PATH      prints an address that lets everybody read the path

Each request to a bucket has a signature of AWS4-HMAC-SHA256, in its head or in its query, which is
computed again here; a wrong one gets 403. A PUT that ends in the middle leaves nothing. The file FOLDER/../tricks says what a server
may do wrong, a line each:

    cut NAME N      the answer for a path that holds NAME ends after N bytes, once
    fail NAME N     N requests for such a path get 503
    flip NAME N     N bodies that are put at such a path come with another bit
    slow NAME S     a request for such a path waits S seconds
    refuse NAME N   N requests for such a path get 400
    error NAME N    N completions of uploads answer 200, some spaces and an <Error>, and do nothing
    lose NAME N     N completions of uploads do their work, and hang up
    untag NAME N    N parts get no ETag
    list NAME N     N completions are refused, as of a list with another part
    forget NAME N   N requests for such a path lose their upload's parts before

With a CERT the first connection ends where its answer would begin.
A body that has not the SHA-256 of its head is refused.
The parts of an upload are in FOLDER/../parts/ID."""
import email.utils
import hashlib
import hmac
import http.server
import os
import pathlib
import shutil
import ssl
import sys
import time
import urllib.parse
import uuid

KEY, SECRET = "TESTKEY", "test/secret+key"
root = pathlib.Path(sys.argv[1])
tricks_file, log_file = root.parent / "tricks", root.parent / "requests"
parts, nonces = root.parent / "parts", root.parent / "nonces"
nonces.mkdir(exist_ok=True)
parts.mkdir(exist_ok=True)


def trick(word, path):
    """The number of the first such trick, which is then used up by one (cut: whole)."""
    if not tricks_file.exists():
        return None
    lines = tricks_file.read_text().splitlines()
    for i, line in enumerate(lines):
        kind, name, number = line.split()
        if kind != word or name not in path:
            continue
        left = int(float(number)) - 1 if word not in ("cut", "slow") else -1
        lines[i:i + 1] = [f"{kind} {name} {left}"] if left > 0 else [line] if word == "slow" else []
        tricks_file.write_text("".join(f"{line}\n" for line in lines))
        return float(number)
    return None


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature(command, url, headers, words):
    """Without x-amz-content-sha256 in `headers` the request is signed by its query."""
    names = words["SignedHeaders"].split(";")
    path, _, query = url.partition("?")
    parts = sorted(part for part in query.split("&") if part and not part.startswith("X-Amz-Signature="))
    canonical = "\n".join([
        command, path, "&".join(parts), *(f"{name}:{' '.join(headers[name].split())}" for name in names), "",
        ";".join(names), headers.get("x-amz-content-sha256", "UNSIGNED-PAYLOAD")])
    key_id, day, region, service, end = words["Credential"].split("/")
    if "host" not in names or key_id != KEY:
        return None
    key = ("AWS4" + SECRET).encode()
    for part in (day, region, service, end):
        key = sign(key, part)
    scope = f"{day}/{region}/{service}/{end}"
    text = "\n".join(["AWS4-HMAC-SHA256", headers.get("x-amz-date") or words["Date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def presign(host, path):
    """An address that lets everybody read the path for a while."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    words = {"Algorithm": "AWS4-HMAC-SHA256", "Credential": f"{KEY}/{now[:8]}/eu-test-1/s3/aws4_request",
             "Date": now, "Expires": "600", "SignedHeaders": "host"}
    query = "&".join(f"X-Amz-{name}={urllib.parse.quote(word, safe='')}" for name, word in words.items())
    return f"http://{host}{path}?{query}&X-Amz-Signature=" + signature("GET", f"{path}?{query}", {"host": host}, words)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, code, body=b"", headers=()):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def allowed(self):
        with log_file.open("a") as log:
            log.write(f"{self.command} {self.path} {self.headers.get('Range', '')}\n")
        time.sleep(trick("slow", self.path) or 0)
        if trick("fail", self.path) is not None:
            return self.refuse(500)
        if trick("refuse", self.path) is not None:
            return self.refuse(400)
        if self.path.startswith("/plain/"):
            return self.command in ("GET", "HEAD") or self.refuse(405)
        kind, _, rest = self.headers.get("Authorization", "").partition(" ")
        words = dict(word.strip().partition("=")[::2] for word in rest.split(","))
        if "X-Amz-Signature" in self.words():
            kind, words = "AWS4-HMAC-SHA256", {name[6:]: word for name, word in self.words().items()}
        in_query = "Date" in words and {"host": self.headers["Host"]}
        try:
            good = kind == "AWS4-HMAC-SHA256" and signature(
                self.command, self.path, in_query or self.headers, words) == words["Signature"]
        except (KeyError, AttributeError, ValueError):
            good = False
        known = words.get("Credential", "").startswith(KEY + "/")
        return good or self.refuse(403, "SignatureDoesNotMatch" if known else "InvalidAccessKeyId")

    def refuse(self, code, name="Other"):
        self.close_connection = True
        self.answer(code, f"<Error><Code>{name}</Code></Error>".encode(), [("Connection", "close")])
        return False

    def place(self):
        return root / urllib.parse.unquote(self.path.partition("?")[0]).lstrip("/")

    def do_GET(self):
        if not self.allowed():
            return
        if "uploads" in self.words():
            return self.list_uploads()
        if not self.place().is_file():
            return self.answer(404, b"<Error/>")
        body = self.place().read_bytes()
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        noted = nonces / hashlib.md5(bytes(self.place())).hexdigest()
        headers = [("x-amz-meta-weft-upload", noted.read_text())] if noted.exists() else []
        headers += [("ETag", tag), ("Last-Modified", email.utils.formatdate(self.place().stat().st_mtime, usegmt=True))]
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, b"", headers)
        start, code = 0, 200
        if self.headers.get("Range") and self.headers.get("If-Range") == tag:
            start, code = int(self.headers["Range"][6:].split("-")[0]), 206
            headers.append(("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}"))
        if start >= len(body) > 0:
            return self.answer(416)
        cut = trick("cut", self.path)
        if "endless" in self.path:  # one that does not say how long it is
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True
            return None
        if cut is None:
            return self.answer(code, body[start:], headers)
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:start + int(cut)])
        self.close_connection = True

    do_HEAD = do_GET

    def do_PUT(self):
        if not self.allowed():
            return
        n = int(self.headers["Content-Length"])
        body = self.rfile.read(n)
        if len(body) < n:
            self.close_connection = True
            return
        if trick("flip", self.path) is not None:
            body = bytes([body[0] ^ 1]) + body[1:]
        if self.headers["x-amz-content-sha256"] not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            self.refuse(400, "XAmzContentSHA256Mismatch")
            return
        tag = [("ETag", f'"{hashlib.md5(body).hexdigest()}"')]
        upload = self.upload()
        if not upload:
            self.write(self.place(), body, "")
        elif not upload.exists():
            return self.refuse(404, "NoSuchUpload")
        else:
            (upload / self.words()["partNumber"]).write_bytes(body)
            tag = [] if trick("untag", self.path) is not None else tag
        return self.answer(200, b"", tag)

    def write(self, place, body, nonce):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_name(place.name + "~").write_bytes(body)
        os.replace(place.with_name(place.name + "~"), place)
        (nonces / hashlib.md5(bytes(place)).hexdigest()).write_text(nonce)

    def words(self):
        return dict(urllib.parse.parse_qsl(self.path.partition("?")[2], keep_blank_values=True))

    def upload(self):
        """The folder of an upload's parts."""
        folder = parts / self.words()["uploadId"].replace("/", "~") if "uploadId" in self.words() else None
        if folder and trick("forget", self.path) is not None:
            shutil.rmtree(folder)
        return folder

    def list_uploads(self):
        bucket, words = self.path.partition("?")[0].strip("/"), self.words()
        found = [(key, (folder / "id").read_text()) for folder in sorted(parts.iterdir())
                 for key in [(folder / "key").read_text()] if key.startswith(f"{bucket}/{words['prefix']}")]
        listed = "".join(f"<Upload><Key>{urllib.parse.quote(key.partition('/')[2])}</Key><UploadId>{name}</UploadId></Upload>"
                         for key, name in found[:int(words["max-uploads"])])
        return self.answer(200, f"<ListMultipartUploadsResult>{listed}</ListMultipartUploadsResult>".encode())

    def do_POST(self):
        if not self.allowed():
            return None
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "uploads" in self.words():
            name = f"2~{uuid.uuid4().hex}+/=._-"
            (parts / name.replace("/", "~")).mkdir(parents=True)
            (parts / name.replace("/", "~") / "id").write_text(name)
            (parts / name.replace("/", "~") / "key").write_text(self.place().relative_to(root).as_posix())
            (parts / name.replace("/", "~") / "nonce").write_text(self.headers["x-amz-meta-weft-upload"])
            return self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>".encode())
        upload = self.upload()
        if not upload.exists():
            return self.refuse(404, "NoSuchUpload")
        if trick("error", self.path) is not None:
            return self.answer(200, b" " * 5000 + b"<Error><Code>InternalError</Code></Error>")
        bodies = [file.read_bytes() for file in sorted(upload.glob("[0-9]*"), key=lambda file: int(file.name))]
        listed = "".join(f'<Part><PartNumber>{i}</PartNumber><ETag>"{hashlib.md5(part).hexdigest()}"</ETag></Part>'
                         for i, part in enumerate(bodies, 1))
        if trick("list", self.path) is not None or body != f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>":
            return self.refuse(400, "InvalidPart")
        if min(map(len, bodies[:-1])) < 5 << 20:
            return self.refuse(400, "EntityTooSmall")
        self.write(self.place(), b"".join(bodies), (upload / "nonce").read_text())
        shutil.rmtree(upload)
        if trick("lose", self.path) is None:
            return self.answer(200, b" " * 5000 + b"<CompleteMultipartUploadResult/>")
        self.close_connection = True
        return None

    def do_DELETE(self):
        if not self.allowed():
            return
        if self.upload():
            shutil.rmtree(self.upload(), ignore_errors=True)
        else:
            self.place().unlink(missing_ok=True)
        self.answer(204)


if sys.argv[2:3] == ["presign"]:
    print(presign(*sys.argv[3:]))
    sys.exit()
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if sys.argv[2:] else 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
if sys.argv[3:]:
    hello = server.socket.accept()[0]
    hello.recv(65536)
    hello.close()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*sys.argv[3:])
    server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()
