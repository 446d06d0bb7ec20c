"""Stands before a real registry and breaks uploads on demand.

    upload_proxy.py BACKEND LOG [OPTION...]

BACKEND is host:port of a registry that speaks plain HTTP. Prints "HOST:PORT OTHER" when it listens: the registry's
address, and one of another host that forwards uploads as well. LOG gets a line a request: "WHO METHOD PATH auth=...
bytes=N", N being the bytes of its body that were passed on. Ends with its stdin.
"""

import argparse
import base64
import http.client
import json
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 1 << 16


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("backend")
    p.add_argument("log")
    p.add_argument("--cut", type=int, default=0, help="an upload's connection breaks after so many bytes")
    p.add_argument("--cuts", type=int, default=1 << 30, help="… but only so many times")
    p.add_argument("--lose", action="store_true", help="… and the bytes are lost")
    p.add_argument("--real", action="store_true", help="… and the registry behind answers for itself")
    p.add_argument("--forget", type=int, default=0, help="so many questions about uploads are answered with 404")
    p.add_argument("--limit", type=int, default=0, help="a body of more bytes is answered with 413")
    p.add_argument("--refuse", type=int, default=0, help="so many uploads are answered with --status")
    p.add_argument("--status", type=int, default=503)
    p.add_argument("--doubt", type=int, default=0, help="so many manifests are answered with 400, DIGEST_INVALID")
    p.add_argument("--stall", type=int, default=0, help="so many uploads are not read on")
    p.add_argument("--slow", type=float, default=0, help="seconds between an upload's pieces")
    p.add_argument("--bearer", action="store_true", help="demand tokens, whose scopes are checked")
    p.add_argument("--user", help="NAME:PASSWORD for the token server")
    p.add_argument("--elsewhere", action="store_true", help="uploads go to the other host")
    p.add_argument("--relative", action="store_true", help="Location is a path")
    return p.parse_args()


class State:
    lock = threading.Lock()
    cuts = refused = forgotten = doubts = stalls = 0
    kept = {}  # by upload: what arrived before the connection broke


def count(name, limit):
    """True for the first `limit` calls."""
    with State.lock:
        n = getattr(State, name)
        setattr(State, name, n + 1)
        return n < limit


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    who = "registry"

    def log_message(self, *_):
        pass

    def note(self, passed):
        auth = self.headers.get("Authorization", "-").replace(" ", "_")
        with State.lock, open(args.log, "a", encoding="utf-8") as f:
            f.write(f"{self.who} {self.command} {self.path} auth={auth} bytes={passed}\n")

    def pieces(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left and (data := self.rfile.read(min(left, PIECE))):
            left -= len(data)
            yield data

    def fail(self, status, code, **headers):
        body = json.dumps({"errors": [{"code": code, "message": f"fake {code.lower()}"}]}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True

    def is_upload(self):
        return "/blobs/uploads/" in self.path and self.command in ("PATCH", "PUT")

    def scopes(self):
        """What a token must hold for this request."""
        url = urllib.parse.urlsplit(self.path)
        name = re.match(r"/v2/(.*)/(manifests|blobs|tags)/", url.path)
        if not name:
            return []
        actions = "pull" if self.command in ("GET", "HEAD") and "uploads" not in url.path else "pull,push"
        source = urllib.parse.parse_qs(url.query).get("from")
        return [f"repository:{name[1]}:{actions}"] + [f"repository:{s}:pull" for s in source or []]

    def is_allowed(self):
        if not args.bearer or self.who != "registry":
            return True
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        has = base64.urlsafe_b64decode(token).decode().split() if token else None
        return has is not None and all(
            any(h.rpartition(":")[0] == s.rpartition(":")[0] and s.rpartition(":")[2] in h.rpartition(":")[2]
                for h in has) for s in self.scopes())

    def token(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self.note(0)
        if args.user and self.headers.get("Authorization") != "Basic " + base64.b64encode(args.user.encode()).decode():
            return self.fail(401, "DENIED")
        text = base64.urlsafe_b64encode(" ".join(["token"] + query.get("scope", [])).encode()).decode()
        body = json.dumps({"token": text, "expires_in": 60}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return self.wfile.write(body)

    def handle_one(self):
        if self.path.startswith("/token?"):
            return self.token()
        if not self.is_allowed():
            self.note(0)
            scope = " ".join(self.scopes())
            realm = f"http://{address(registry)}/token"
            return self.fail(401, "UNAUTHORIZED",
                             WWW_Authenticate=f'Bearer realm="{realm}",service="fake",scope="{scope}"')
        if self.is_upload() and self.command == "PATCH":
            if args.limit and int(self.headers.get("Content-Length", 1 << 60)) > args.limit:
                self.note(0)
                return self.fail(413, "SIZE_INVALID")
            if count("stalls", args.stall):
                self.note(0)
                time.sleep(3600)
        if "/blobs/uploads/" in self.path and self.command != "GET" and count("refused", args.refuse):
            self.note(0)
            return self.fail(args.status, "UNAVAILABLE")
        if "/manifests/" in self.path and self.command == "PUT" and count("doubts", args.doubt):
            self.note(0)
            return self.fail(400, "DIGEST_INVALID")
        if "/blobs/uploads/" in self.path and self.command == "GET" and count("forgotten", args.forget):
            self.note(0)
            return self.fail(404, "BLOB_UPLOAD_UNKNOWN")
        if "/blobs/uploads/" in self.path and self.command == "GET" and not args.real:
            return self.tell_kept()
        return self.forward()

    def upload(self):
        return urllib.parse.urlsplit(self.path).path

    def tell_kept(self):
        self.note(0)
        self.send_response(204)
        self.send_header("Location", self.location(self.path))
        self.send_header("Range", f"0-{max(len(State.kept.get(self.upload(), b'')) - 1, 0)}")
        self.end_headers()

    def forward(self):
        body, cut = b"", False
        for data in self.pieces():
            body += data
            time.sleep(args.slow if self.is_upload() else 0)
            if self.command == "PATCH" and args.cut and len(body) > args.cut and count("cuts", args.cuts):
                body, cut = body[: args.cut], True
                break
        passed = len(body)
        if cut and not args.real:
            if not args.lose:
                State.kept[self.upload()] = State.kept.get(self.upload(), b"") + body
            self.note(passed)
            self.close_connection = True
            return
        body = State.kept.pop(self.upload(), b"") + body
        headers = {n: v for n, v in self.headers.items()
                   if n.lower() not in ("host", "content-length", "transfer-encoding", "connection", "authorization",
                                        "content-range")}
        back = http.client.HTTPConnection(args.backend)
        back.request(self.command, self.path, body if body or self.command in ("POST", "PUT", "PATCH") else None, headers)
        answer = back.getresponse()
        data = answer.read()
        self.note(passed)
        if cut:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() == "location":
                value = self.location(value)
            if name.lower() not in ("connection", "transfer-encoding", "date", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def location(self, value):
        url = urllib.parse.urlsplit(value)
        path = url.path + ("?" + url.query if url.query else "")
        if args.relative:
            return path
        return f"http://{address(other if args.elsewhere and '/uploads/' in path else registry)}{path}"

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one


class Other(Proxy):
    who = "other"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that break off are what this is for


def address(server):
    return "%s:%d" % server.server_address


args = arguments()
registry, other = Server(("127.0.0.1", 0), Proxy), Server(("127.0.0.2", 0), Other)
for server in registry, other:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(address(registry), address(other), flush=True)
sys.stdin.read()
