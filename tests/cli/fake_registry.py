"""A registry that misbehaves on demand: it serves one OCI layout (as umoci makes it) under every
repository name and tag, on 127.0.0.1, with a token server of its own and a store of blobs on
127.0.0.2, so that redirects lead to another host.

    fake_registry.py LAYOUT LOG [OPTION...]

Prints "REGISTRY AUTH STORAGE" (host:port each) when it listens. LOG gets a line a request:
"WHO METHOD PATH auth=... range=..." with WHO one of registry, auth, storage. Ends with its stdin.
"""

import argparse
import hashlib
import json
import os
import ssl
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("layout")
    p.add_argument("log")
    p.add_argument("--tls", metavar="PEM", help="speak https with this certificate and key")
    p.add_argument("--auth", choices=["bearer", "basic"], help="demand it for everything")
    p.add_argument("--token-uses", type=int, default=0, help="a token is refused after so many requests")
    p.add_argument("--realm", help="the token server that the challenge names")
    p.add_argument("--deny-token", action="store_true", help="the token server answers 401")
    p.add_argument("--redirect-blobs", action="store_true", help="to the storage on another host")
    p.add_argument("--redirect-to", help="blobs redirect to this very URL")
    p.add_argument("--cut", type=int, default=0, help="a blob's connection breaks after so many bytes")
    p.add_argument("--cuts", type=int, default=1 << 30, help="… but only so many times")
    p.add_argument("--no-range", action="store_true", help="Range is not understood")
    p.add_argument("--wrong-range", type=int, default=0, help="Range is answered with bytes so far from there")
    p.add_argument("--range-416", action="store_true", help="Range is answered with 416")
    p.add_argument("--no-length", action="store_true", help="blobs end with the connection")
    p.add_argument("--refuse", type=int, default=0, help="answer so many blob requests with --status")
    p.add_argument("--status", type=int, default=503)
    p.add_argument("--retry-after", help="sent with --status")
    p.add_argument("--content-type", default=MANIFEST, help="of manifests")
    p.add_argument("--digest", help="Docker-Content-Digest of manifests")
    p.add_argument("--tail", type=int, default=0, help="append so many bytes to each layer")
    return p.parse_args()


class State:
    lock = threading.Lock()
    tokens = 0
    uses = 0
    refused = 0
    cuts = 0


def read(path):
    with open(path, "rb") as f:
        return f.read()


def blob(digest):
    name = digest.removeprefix("sha256:")
    if len(name) != 64 or not os.path.exists(f"{args.layout}/blobs/sha256/{name}"):
        return None
    return read(f"{args.layout}/blobs/sha256/{name}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, who):
        auth = self.headers.get("Authorization", "-").replace(" ", "_")
        span = self.headers.get("Range", "-")
        with State.lock, open(args.log, "a", encoding="utf-8") as f:
            f.write(f"{who} {self.command} {self.path} auth={auth} range={span}\n")

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, status, code, **headers):
        body = json.dumps({"errors": [{"code": code, "message": f"fake {code.lower()}"}]}).encode()
        self.answer(status, body, Content_Type="application/json", **headers)

    def send_blob(self, data):
        begin = 0
        span = self.headers.get("Range")
        if span and not args.no_range:
            if args.range_416:
                return self.answer(416)
            begin = int(span.removeprefix("bytes=").rstrip("-")) + args.wrong_range
        rest = data[begin:]
        headers = {"Content_Type": "application/octet-stream"}
        if begin:
            headers["Content_Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        if args.no_length:
            headers["Connection"] = "close"
        self.send_response(206 if begin else 200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if not args.no_length:
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        cut = args.cut and len(rest) > args.cut and State.cuts < args.cuts
        if cut:
            rest = rest[: args.cut]
            State.cuts += 1
        self.wfile.write(rest)
        self.wfile.flush()
        if cut or args.no_length:
            self.close_connection = True


class Registry(Handler):
    def challenge(self):
        if args.auth == "basic":
            self.fail(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="fake"')
            return
        realm = args.realm or f"http://{address(auth)}/token"
        self.fail(401, "UNAUTHORIZED", WWW_Authenticate=f'Bearer realm="{realm}",service="fake",'
                  'scope="repository:x:pull"')

    def is_allowed(self):
        if not args.auth:
            return True
        with State.lock:
            State.uses += 1
            if args.token_uses and State.uses > args.token_uses:
                return False
            return self.headers.get("Authorization") == f"Bearer token-{State.tokens}"

    def do_GET(self):
        self.note("registry")
        if not self.is_allowed():
            return self.challenge()
        parts = self.path.split("/")
        if "manifests" in parts:
            return self.manifest(parts[-1])
        if "blobs" in parts:
            return self.blob(parts[-1])
        return self.fail(404, "NAME_UNKNOWN")

    do_HEAD = do_GET

    def manifest(self, reference):
        index = json.loads(read(f"{args.layout}/index.json"))
        digest = index["manifests"][0]["digest"]
        if reference == "nosuch":
            return self.fail(404, "MANIFEST_UNKNOWN")
        if "vnd.oci.image.manifest.v1+json" not in self.headers.get("Accept", ""):
            return self.fail(404, "MANIFEST_UNKNOWN")
        body = blob(reference if reference.startswith("sha256:") else digest)
        if body is None:
            return self.fail(404, "MANIFEST_UNKNOWN")
        real = "sha256:" + hashlib.sha256(body).hexdigest()
        return self.answer(200, body, Content_Type=args.content_type,
                           Docker_Content_Digest=args.digest or real)

    def blob(self, digest):
        with State.lock:
            refuse = State.refused < args.refuse
            State.refused += refuse
        if refuse:
            wait = {"Retry_After": args.retry_after} if args.retry_after else {}
            return self.fail(args.status, "TOOMANYREQUESTS", **wait)
        if args.redirect_to:
            return self.answer(307, Location=args.redirect_to)
        data = blob(digest)
        if data is None:
            return self.fail(404, "BLOB_UNKNOWN")
        if args.redirect_blobs:
            return self.answer(307, Location=f"http://{address(storage)}/{digest}?signature=secret")
        if data[:2] == b"\x1f\x8b":
            data += b"x" * args.tail
        return self.send_blob(data)


class Auth(Handler):
    def do_GET(self):
        self.note("auth")
        if args.deny_token:
            return self.fail(401, "DENIED")
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if query.get("service") != ["fake"] or query.get("scope") != ["repository:x:pull"]:
            return self.fail(400, "UNSUPPORTED")
        with State.lock:
            State.tokens += 1
            State.uses = 0
            body = json.dumps({"token": f"token-{State.tokens}", "expires_in": 60}).encode()
        return self.answer(200, body, Content_Type="application/json")


class Storage(Handler):
    def do_GET(self):
        self.note("storage")
        return self.send_blob(blob(self.path.lstrip("/").partition("?")[0]))


def address(server):
    return "%s:%d" % server.server_address


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # clients that break off are what this is for


def serve(host, handler, pem=None):
    server = Server((host, 0), handler)
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        # The handshake is the connection's thread's, so that one who does not speak TLS delays nobody.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


args = arguments()
registry, auth, storage = serve("127.0.0.1", Registry, args.tls), serve("127.0.0.1", Auth), serve("127.0.0.2", Storage)
print(address(registry), address(auth), address(storage), flush=True)
sys.stdin.read()
