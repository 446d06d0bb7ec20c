"""An Internet of one directory, for scripts that fetch files by https: a proxy that answers CONNECT itself.

    loopback_internet.py ADDRESS DIR PEM

DIR has a directory for each host, "raw.githubusercontent.com". Prints its port when it listens. PEM is the certificate
and key of every host. Ends with its stdin.
"""

import http.server
import os
import ssl
import sys
import threading

address, root, pem = sys.argv[1:]
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(pem)


class Proxy(http.server.BaseHTTPRequestHandler):
    host = ""

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        """Speak as the host that the client wants, on the same connection."""
        self.host = self.path.split(":")[0]
        self.send_response(200)
        self.end_headers()
        self.connection = tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.close_connection = False

    def do_GET(self):
        try:
            with open(os.path.join(root, self.host, self.path.split("?")[0].lstrip("/")), "rb") as f:
                body = f.read()
        except OSError:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


server = http.server.ThreadingHTTPServer((address, 0), Proxy)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
