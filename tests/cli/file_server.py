"""A server of files that misbehaves on demand, for tests of downloads.

    file_server.py DIR LOG [OPTION...]

Prints its host:port when it listens, on 127.0.0.1. LOG gets a line a request:
"METHOD PATH STATUS range=... if-range=...". Ends with its stdin.
"""

import argparse
import hashlib
import os
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("log")
    p.add_argument("--cut", type=int, default=0, help="the connection breaks after so many bytes of a body")
    p.add_argument("--cuts", type=int, default=1 << 30, help="… but only so many times")
    p.add_argument("--refuse", type=int, default=0, help="answer so many requests with --status")
    p.add_argument("--status", type=int, default=503)
    p.add_argument("--no-range", action="store_true", help="Range is not understood")
    p.add_argument("--wrong-range", action="store_true", help="Range is answered with the bytes from the beginning")
    p.add_argument("--piece", type=int, default=1 << 30, help="Range is answered with so many bytes at most")
    p.add_argument("--half", action="store_true", help="without Range the second half is sent as a part")
    p.add_argument("--other-version", action="store_true", help="If-Range is not understood")
    p.add_argument("--no-etag", action="store_true")
    p.add_argument("--weak-etag", action="store_true")
    p.add_argument("--no-length", action="store_true", help="bodies end with the connection")
    p.add_argument("--stall", type=int, default=0, help="the first connection falls silent after so many bytes")
    p.add_argument("--tls", metavar="PEM", help="speak https with this certificate and key")
    p.add_argument("--redirect", help="every path redirects below this URL")
    return p.parse_args()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, status):
        with lock, open(args.log, "a") as f:
            f.write("%s %s %d range=%s if-range=%s\n" % (
                self.command, self.path, status, self.headers.get("Range", ""), self.headers.get("If-Range", "")))

    def answer(self, status, **headers):
        self.note(status)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers and not args.no_length:
            self.send_header("Content-Length", "0")
        if args.no_length:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()

    def send_body(self, body):
        global cuts
        with lock:
            cut = args.cut and cuts < args.cuts and len(body) > args.cut
            cuts += cut
            stall = args.stall
            args.stall = 0
        if stall:
            self.wfile.write(body[:stall])
            self.wfile.flush()
            time.sleep(3600)
        self.wfile.write(body[:args.cut] if cut else body)
        if cut:
            self.close_connection = True

    def do_GET(self):
        global refused
        with lock:
            refuse = refused < args.refuse
            refused += refuse
        if refuse:
            return self.answer(args.status)
        if args.redirect:
            return self.answer(302, Location=args.redirect + self.path)
        try:
            with open(os.path.join(args.dir, self.path.lstrip("/")), "rb") as f:
                body = f.read()
        except OSError:
            return self.answer(404)
        etag = '"%s"' % hashlib.md5(body).hexdigest()
        headers = {"Last_Modified": "Sat, 01 Jan 2022 00:00:00 GMT"}
        if args.weak_etag:
            headers["ETag"] = "W/" + etag
        elif not args.no_etag:
            headers["ETag"] = etag
        asked, wanted = self.headers.get("Range"), self.headers.get("If-Range")
        current = [headers.get("ETag") if not args.weak_etag else None, headers["Last_Modified"]]
        if asked and not args.no_range and (wanted is None or wanted in current or args.other_version):
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                return self.answer(416, Content_Range="bytes */%d" % len(body))
            at = 0 if args.wrong_range else first
            end = min(at + args.piece, len(body))
            headers["Content_Range"] = "bytes %d-%d/%d" % (at, end - 1, len(body))
            status, body = 206, body[at:end]
        elif args.half:
            at = len(body) // 2
            headers["Content_Range"] = "bytes %d-%d/%d" % (at, len(body) - 1, len(body))
            status, body = 206, body[at:]
        else:
            status = 200
        if not args.no_length:
            headers["Content_Length"] = str(len(body))
        self.answer(status, **headers)
        self.send_body(body)


args = arguments()
lock = threading.Lock()
cuts = refused = 0
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if args.tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.tls)
    server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("127.0.0.1:%d" % server.server_port, flush=True)
sys.stdin.read()
