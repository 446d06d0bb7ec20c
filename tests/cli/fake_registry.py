"""A registry that misbehaves on demand: it serves one OCI layout (as umoci makes it) under every
repository name and tag, on 127.0.0.1, with a token server of its own and a store of blobs on
127.0.0.2, so that redirects lead to another host.

    fake_registry.py LAYOUT LOG [OPTION...]

Prints "REGISTRY AUTH STORAGE" (host:port each) when it listens. LOG gets a line a request:
"WHO METHOD PATH auth=... range=..." with WHO one of registry, auth, storage, proxy. Ends with its
stdin. With --proxy a fourth address is that of a proxy that refuses every CONNECT.
"""

import argparse
import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
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
    p.add_argument("--short-tokens", type=int, default=1 << 30, help="… but only so many tokens are")
    p.add_argument("--token-life", type=int, default=0, help="seconds after which a token is refused; told as expires_in")
    p.add_argument("--user", help="NAME:PASSWORD that the token server, or --auth basic, wants")
    p.add_argument("--refresh-token", help="… or this one, by POST")
    p.add_argument("--deny", type=int, default=0, help="refuse a good token with this status")
    p.add_argument("--realm", help="the token server that the challenge names")
    p.add_argument("--deny-token", action="store_true", help="the token server answers 401")
    p.add_argument("--redirect-blobs", action="store_true", help="to the storage on another host")
    p.add_argument("--redirect-to", help="blobs redirect to this very URL")
    p.add_argument("--redirect-page", type=int, default=0, help="a redirect has a body of so many bytes")
    p.add_argument("--no-scope", action="store_true", help="the challenge names no scope, and the token server takes any")
    p.add_argument("--cut", type=int, default=0, help="a blob's connection breaks after so many bytes")
    p.add_argument("--cuts", type=int, default=1 << 30, help="… but only so many times")
    p.add_argument("--no-range", action="store_true", help="Range is not understood")
    p.add_argument("--wrong-range", type=int, default=0, help="Range is answered with bytes so far from there")
    p.add_argument("--range-416", action="store_true", help="Range is answered with 416")
    p.add_argument("--no-length", action="store_true", help="blobs end with the connection")
    p.add_argument("--refuse", type=int, default=0, help="answer so many blob requests with --status")
    p.add_argument("--status", type=int, default=503)
    p.add_argument("--quota", nargs=2, help="RateLimit-Limit and -Remaining, sent with --status")
    p.add_argument("--refuse-manifests", action="store_true", help="--refuse counts manifest requests")
    p.add_argument("--stall", type=int, default=0, help="a blob's connection falls silent after so many bytes")
    p.add_argument("--trickle", action="store_true", help="a manifest's bytes come one by one, with pauses")
    p.add_argument("--trickle-blobs", action="store_true", help="a blob's do as well")
    p.add_argument("--endless", choices=["headers", "trailers"], help="a blob's never end")
    p.add_argument("--delay", type=float, default=0, help="seconds between a blob's pieces of 256 KiB")
    p.add_argument("--expire", type=int, default=0, help="the storage refuses so many resumed requests with 403")
    p.add_argument("--storage-tls", metavar="PEM", help="the storage speaks https, and notes who shows a certificate")
    p.add_argument("--bad-blobs", action="store_true", help="blobs have other bytes")
    p.add_argument("--other-gzip", action="store_true", help="layers have other bytes that give the same tar")
    p.add_argument("--tags", type=int, default=0, help="so many tags, 10 a page")
    p.add_argument("--tags-endless", action="store_true", help="a page of some MB follows another")
    p.add_argument("--tags-circle", action="store_true", help="every page links to itself")
    p.add_argument("--proxy", type=int, default=0, help="a proxy that answers CONNECT with this status")
    p.add_argument("--client-ca", metavar="PEM", help="with --tls: demand a client's certificate of this CA")
    p.add_argument("--retry-after", help="sent with --status")
    p.add_argument("--content-type", default=MANIFEST, help="of manifests")
    p.add_argument("--page", type=int, default=0, help="manifests are a web page, with this status")
    p.add_argument("--denied-by-s3", action="store_true", help="blobs are 403, with S3's XML")
    p.add_argument("--digest", help="Docker-Content-Digest of manifests")
    p.add_argument("--resets", type=int, default=0, help="the registry takes so many connections and resets them")
    p.add_argument("--tail", type=int, default=0, help="append so many bytes to each layer")
    return p.parse_args()


class State:
    lock = threading.Lock()
    tokens = 0
    issued = 0.0
    signatures = 0
    expired = 0
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
            f.write(f"{who} {self.command} {self.path} auth={auth} range={span}{self.shown()}\n")

    def shown(self):
        if not isinstance(self.connection, ssl.SSLSocket):
            return ""
        return " cert=shown" if self.connection.getpeercert() else " cert=-"

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

    def endless(self):
        self.send_response(200)
        if args.endless == "trailers":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"0\r\n")
        else:
            self.flush_headers()
        while True:
            self.wfile.write(b"X-More: and more\r\n" * 1000)

    def send_blob(self, data):
        if args.endless:
            return self.endless()
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
        stall = args.stall and len(rest) > args.stall and State.cuts < args.cuts
        if stall:
            State.cuts += 1
            self.wfile.write(rest[: args.stall])
            self.wfile.flush()
            time.sleep(3600)
        piece = 1 if args.trickle_blobs else 1 << 18
        for at in range(0, len(rest), piece):
            self.wfile.write(rest[at : at + piece])
            self.wfile.flush()
            time.sleep(0.1 if args.trickle_blobs else args.delay)
        if cut or args.no_length:
            self.close_connection = True


class Registry(Handler):
    def challenge(self):
        if args.auth == "basic":
            self.fail(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="fake"')
            return
        realm = args.realm or f"http://{address(auth)}/token"
        scope = "" if args.no_scope else ',scope="repository:x:pull"'
        self.fail(401, "UNAUTHORIZED", WWW_Authenticate=f'Bearer realm="{realm}",service="fake"{scope}')

    def is_allowed(self):
        if not args.auth:
            return True
        if args.auth == "basic":
            return bool(args.user) and self.headers.get("Authorization") == basic()
        with State.lock:
            State.uses += 1
            if args.token_life and time.monotonic() - State.issued > args.token_life:
                return False
            if args.token_uses and State.uses > args.token_uses and State.tokens <= args.short_tokens:
                return False
            return self.headers.get("Authorization") == f"Bearer token-{State.tokens}"

    def do_GET(self):
        self.note("registry")
        if not self.is_allowed():
            return self.challenge()
        parts = self.path.split("/")
        if args.deny:
            return self.fail(args.deny, "DENIED")
        if self.path == "/v2/":
            return self.answer(200, b"{}")
        if "tags" in parts:
            return self.tags()
        if "manifests" in parts:
            return self.manifest(parts[-1])
        if "blobs" in parts:
            return self.blob(parts[-1])
        return self.fail(404, "NAME_UNKNOWN")

    do_HEAD = do_GET

    def tags(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        last = int(query.get("last", ["-1"])[0])
        names = [str(i) for i in range(last + 1, min(last + 11, args.tags))]
        end = names and int(names[-1]) < args.tags - 1
        link = {"Link": f'</v2/x/tags/list?last={names[-1]}&n=10>; rel="next"'} if end else {}
        if args.tags_endless:
            names = ["x" * 7_000_000]
            link = {"Link": f'</v2/x/tags/list?last={last + 1}&n=10>; rel="next"'}
        if args.tags_circle:
            link = {"Link": f'<{self.path}>; rel="next"'}
        body = json.dumps({"name": "x", "tags": names}).encode()
        return self.answer(200, body, Content_Type="application/json", **link)

    def refused(self):
        with State.lock:
            refuse = State.refused < args.refuse
            State.refused += refuse
        if refuse:
            more = {"Retry_After": args.retry_after} if args.retry_after else {}
            if args.quota:
                more |= {"RateLimit-Limit": args.quota[0], "RateLimit-Remaining": args.quota[1]}
            self.fail(args.status, "TOOMANYREQUESTS", **more)
        return refuse

    def manifest(self, reference):
        if args.refuse_manifests and self.refused():
            return None
        if args.page:
            return self.answer(args.page, b"\n<!DOCTYPE html><title>Log in</title>", Content_Type="text/html")
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
        if args.trickle and self.command == "GET":
            self.send_response(200)
            self.send_header("Content-Type", args.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for i in range(len(body)):
                self.wfile.write(body[i : i + 1])
                self.wfile.flush()
                time.sleep(0.3)
            return None
        return self.answer(200, body, Content_Type=args.content_type,
                           Docker_Content_Digest=real if args.digest is None else args.digest)

    def blob(self, digest):
        if not args.refuse_manifests and self.refused():
            return None
        if args.denied_by_s3:
            return self.answer(403, b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied by policy</Message></Error>")
        if args.redirect_to:
            return self.answer(307, Location=args.redirect_to)
        data = blob(digest)
        if data is None:
            return self.fail(404, "BLOB_UNKNOWN")
        if args.redirect_blobs:
            with State.lock:
                State.signatures += 1
                scheme = "https" if args.storage_tls else "http"
                to = f"{scheme}://{address(storage)}/{digest}?signature=secret{State.signatures}"
            return self.answer(307, b"x" * args.redirect_page, Location=to)
        if data[:2] == b"\x1f\x8b":
            data += b"x" * args.tail
            if args.other_gzip:
                data = data[:4] + bytes([data[4] ^ 1]) + data[5:]  # the time in gzip's header
            if args.bad_blobs:
                data = data[:-1] + b"\x01"
        return self.send_blob(data)


class Auth(Handler):
    def is_known(self):
        return not args.user or self.headers.get("Authorization") == basic()

    def do_GET(self):
        self.note("auth")
        if args.deny_token or not self.is_known():
            return self.fail(401, "DENIED")
        return self.token(urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query))

    def do_POST(self):
        self.note("auth")
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = urllib.parse.parse_qs(body)
        if form.get("grant_type") != ["refresh_token"] or form.get("refresh_token") != [args.refresh_token]:
            return self.answer(400, b'{"error": "invalid_grant", "error_description": "fake refresh token"}')
        return self.token(form, "access_token")

    def token(self, query, name="token"):
        if query.get("service") != ["fake"] or not args.no_scope and query.get("scope") != ["repository:x:pull"]:
            return self.fail(400, "UNSUPPORTED")
        with State.lock:
            State.tokens += 1
            State.uses = 0
            State.issued = time.monotonic()
            body = json.dumps({name: f"token-{State.tokens}", "expires_in": args.token_life or 60}).encode()
        return self.answer(200, body, Content_Type="application/json")


class Storage(Handler):
    def do_GET(self):
        self.note("storage")
        with State.lock:
            old = self.headers.get("Range") and State.expired < args.expire
            State.expired += bool(old)
        if old:
            return self.answer(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        return self.send_blob(blob(self.path.lstrip("/").partition("?")[0]))


class Proxy(Handler):
    def do_CONNECT(self):
        self.note("proxy")
        self.answer(args.proxy)


def basic():
    return "Basic " + base64.b64encode(args.user.encode()).decode()


def address(server):
    return "%s:%d" % server.server_address


class Server(ThreadingHTTPServer):
    resets = 0

    # An RST, which goes out at once when there is nothing to linger for.
    def verify_request(self, request, client_address):
        if self.resets == 0:
            return True
        self.resets -= 1
        plain = socket.socket(fileno=request.detach())
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        plain.close()
        with open(args.log, "a") as log:
            log.write("reset\n")
        return False

    def handle_error(self, request, client_address):
        pass  # clients that break off are what this is for


def serve(host, handler, pem=None, demand=ssl.CERT_REQUIRED):
    server = Server((host, 0), handler)
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        if args.client_ca:
            context.load_verify_locations(args.client_ca)
            context.verify_mode = demand
        # The handshake is the connection's thread's, so that one who does not speak TLS delays nobody.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


args = arguments()
registry, auth, storage = serve("127.0.0.1", Registry, args.tls), serve("127.0.0.1", Auth), serve("127.0.0.2", Storage, args.storage_tls, ssl.CERT_OPTIONAL)
registry.resets = args.resets
names = [address(registry), address(auth), address(storage)]
if args.proxy:
    names.append(address(serve("127.0.0.1", Proxy)))
print(*names, flush=True)
sys.stdin.read()
