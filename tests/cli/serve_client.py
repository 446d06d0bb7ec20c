#!/usr/bin/env python3
"""What mltrain-serve.bats asks `mltrain serve`, beyond what curl does.

usage: serve_client.py answers PORT IMAGES COUNT CLIENTS SECONDS   requests of one to nine images from many clients;
                                                    a line of JSON for each image with its logits: one, or it fails
       serve_client.py cached PORT IMAGES FILE      the same few requests until there is that file; "HITS MISSES FAILURES"
       serve_client.py idle PORT COUNT PID          so many connections that wait; bytes of the server's memory for each
       serve_client.py slow PORT header|body|answer SECONDS   one byte at a time, or an answer not taken; seconds until it was cut
       serve_client.py garbage PORT                 requests that are none
       serve_client.py drain PORT PID               requests in flight when the server is told to end
"""
import http.client
import json
import os
import random
import resource
import signal
import socket
import sys
import threading
import time

SIZE = 784


def images_of(path):
    data = open(path, "rb").read()[16:]
    return [data[i:i + SIZE] for i in range(0, len(data), SIZE)]


def infer(connection, images, outputs=("logits",)):
    body = json.dumps({"inputs": [{"name": "images", "shape": [len(images), 1, 28, 28], "datatype": "UINT8",
                                   "parameters": {"binary_data_size": len(images) * SIZE}}],
                       "outputs": [{"name": name} for name in outputs]}).encode()
    connection.request("POST", "/v2/models/net/infer", body + b"".join(images),
                       {"Inference-Header-Content-Length": str(len(body))})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError("%d %s" % (answer.status, text))
    data = json.loads(text)["outputs"][0]["data"]
    classes = len(data) // len(images)
    return answer, [data[i * classes:(i + 1) * classes] for i in range(len(images))]


def in_threads(count, work):
    failures = []

    def run(i):
        try:
            work(i)
        except Exception as e:  # pylint: disable=broad-except
            failures.append("%s: %s" % (type(e).__name__, e))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failures


def answers(port, path, count, clients, seconds):
    images, seen = images_of(path)[:int(count)], {}
    end = time.monotonic() + float(seconds)

    def work(seed):
        pick = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", int(port))
        while time.monotonic() < end or len(seen) < len(images):
            which = [pick.randrange(len(images)) for _ in range(pick.randrange(1, 10))]
            for i, logits in zip(which, infer(connection, [images[i] for i in which])[1]):
                seen.setdefault(i, set()).add(json.dumps(logits))

    failures = in_threads(int(clients), work)
    for i in range(len(images)):
        print(*sorted(seen.get(i, ["none"])))
    sys.exit("\n".join(failures) if failures else 0)


def cached(port, path, file):
    images, counts, lock = images_of(path)[:4], {"Hit": 0, "Miss": 0}, threading.Lock()

    def work(i):
        connection = http.client.HTTPConnection("127.0.0.1", int(port))
        while not os.path.exists(file):
            answer = infer(connection, [images[i]])[0]
            with lock:
                counts[answer.getheader("X-MLAPI-Cache")] += 1

    failures = in_threads(4, work)
    print(counts["Hit"], counts["Miss"], len(failures))
    sys.exit("\n".join(failures) if failures else 0)


def memory_of(pid):
    for line in open("/proc/%s/smaps_rollup" % pid):
        if line.startswith("Pss_Anon:") or line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    return 0


def idle(port, count, pid):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = min(int(count), hard - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 100), hard))
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.request("GET", "/health")
    connection.getresponse().read()
    before, held = memory_of(pid), []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", int(port)))
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.recv(4096)
        held.append(s)
    print(count, (memory_of(pid) - before) // count)
    connection.request("GET", "/health")
    assert connection.getresponse().read() == b'{"status":"healthy"}'


def slow(port, what, seconds):
    start, s = time.monotonic(), socket.socket()
    if what == "answer":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.connect(("127.0.0.1", int(port)))
    text = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
    if what != "header":
        text += b"Content-Length: 100000\r\n\r\n"
    if what == "answer":
        # Answers that nobody takes: more than sockets hold.
        text = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
    s.settimeout(float(seconds) * 10 + 20)
    try:
        if what == "answer":
            s.sendall(text)
            time.sleep(float(seconds) + 1)
            while s.recv(1 << 16):
                pass
        else:
            s.sendall(text)
            while True:
                s.sendall(b"x")
                time.sleep(0.05)
    except OSError:
        pass
    print("%.1f" % (time.monotonic() - start))


def garbage(port):
    texts = [b"\r\n\r\n", b"\x1b[2J /\x1b HTTP/1.1\r\n\r\n", b"GET /\x1b[31m%1b%0a HTTP/1.1\r\nHost: localhost\r\n\r\n",
             b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", os.urandom(4000),
             b"GET / HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n", b"GET /" + b"b" * 100000,
             b"POST /v2/models/net/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 99999999999999999999\r\n"
             b"Content-Length: 2\r\n\r\n{}",
             b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    for text in texts:
        s = socket.create_connection(("127.0.0.1", int(port)))
        s.settimeout(20)
        try:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            while s.recv(1 << 16):
                pass
        except OSError:
            pass
        s.close()


def ask(port, text):
    """What comes back until the server closes, or nothing more comes for a while."""
    s = socket.create_connection(("127.0.0.1", int(port)))
    s.settimeout(0.5)
    s.sendall(text)
    got = b""
    try:
        while block := s.recv(1 << 16):
            got += block
        return got, True
    except TimeoutError:
        return got, False


def strict(port):
    """Requests that two readers of HTTP could take for different ones."""
    host, body = b"Host: localhost\r\n", b"Content-Length: 2\r\n\r\n{}"
    get, post = b"GET /health HTTP/1.1\r\n", b"POST /predict HTTP/1.1\r\n"
    hidden = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    rows = [
        # what, the request, status, closes
        ("the absolute form", b"GET http://localhost/health HTTP/1.1\r\n" + host + b"\r\n", 200, False),
        ("HTTP/1.0 without Host", b"GET /health HTTP/1.0\r\n\r\n", 200, True),
        ("a body as it is", post + host + b"Content-Encoding: identity\r\n" + body, 422, False),
        ("a port", get + b"Host: [::1]:65535\r\n\r\n", 200, False),
        ("no Host", get + b"\r\n", 400, True),
        ("two Hosts", get + host + host + b"\r\n", 400, True),
        ("a Host with a path", get + b"Host: localhost/y\r\n\r\n", 400, True),
        ("a port that is none", get + b"Host: localhost:99999\r\n\r\n", 400, True),
        ("a blank before the colon", get + host + b"Content-Length : 2\r\n\r\n{}" + hidden, 400, True),
        ("a bare CR", get + host + b"X: a\rContent-Length: 2\r\n\r\n", 400, True),
        ("two lengths", post + host + b"Content-Length: 2\r\n" + body + hidden, 400, True),
        ("length and chunks", post + host + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
         400, True),
        ("chunks twice", post + host + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n" + hidden, 400, True),
        ("another coding", post + host + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + hidden, 501, True),
        ("a compressed body", post + host + b"Content-Encoding: gzip\r\n" + body, 415, True),
        ("a NUL in the path", b"GET /health%00.html HTTP/1.1\r\n" + host + b"\r\n", 400, True),
    ]
    for what, text, status, closes in rows:
        got, closed = ask(port, text)
        assert got.startswith(b"HTTP/1.1 %d " % status), (what, got)
        assert got.count(b"HTTP/1.1 ") == 1, (what, got)
        assert closed == closes, (what, got)
        if status != 200:
            assert b"application/json" in got, (what, got)


def aside(port, file):
    """The order of answers: a large picture's, which came first, and one to /health."""
    picture, order = open(file, "rb").read(), []
    one = http.client.HTTPConnection("127.0.0.1", int(port))
    one.request("POST", "/predict", picture, {"Content-Type": "image/png"})

    def wait():
        answer = one.getresponse()
        answer.read()
        order.append("picture %d" % answer.status)

    waiting = threading.Thread(target=wait)
    waiting.start()
    two = http.client.HTTPConnection("127.0.0.1", int(port))
    two.request("GET", "/health")
    two.getresponse().read()
    order.append("health")
    waiting.join()
    print(*order, sep="\n")


def halves(port, pid):
    """Requests that are half sent when the server is told to end: statuses, and what a later one meets."""
    body = b'{"images": [' + b"[" + b",".join([b"0"] * SIZE) + b"]]}"
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for n in (40, len(head) + 100):
        s = socket.create_connection(("127.0.0.1", int(port)))
        s.sendall((head + body)[:n])
        yield s, (head + body)[n:]


def half(port, pid):
    begun = list(halves(port, pid))
    time.sleep(0.3)
    os.kill(int(pid), signal.SIGTERM)
    time.sleep(0.3)
    for s, rest in begun:
        s.sendall(rest)
        s.settimeout(20)
        print(s.recv(1 << 16).split(b"\r\n")[0].decode())


def closes_after(port):
    """The number of requests on one connection after which the server closes it."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    for n in range(1, 5000):
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        if answer.getheader("Connection") == "close":
            print(n)
            return


def drain(port, pid):
    images, done, lock = [bytes([i]) * SIZE for i in range(64)], [], threading.Lock()
    ready = threading.Barrier(9)

    def work(_):
        connection = http.client.HTTPConnection("127.0.0.1", int(port))
        connection.connect()
        ready.wait()
        infer(connection, images)
        with lock:
            done.append(1)

    def end():
        ready.wait()
        deadline = time.monotonic() + 60
        while not waiting(port) and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(int(pid), signal.SIGTERM)

    other = threading.Thread(target=end)
    other.start()
    failures = in_threads(8, work)
    other.join()
    # What came too late was refused in words, or found nobody.
    late = "503", "Refused", "Disconnected", "Reset", "BrokenPipe"
    assert all(any(word in f for word in late) for f in failures), failures
    print(len(done))


def waiting(port):
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return "mltrain_queue_images 0\n" not in text


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
