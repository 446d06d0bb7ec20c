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
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
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
    text = b"POST /predict HTTP/1.1\r\nHost: x\r\n"
    if what != "header":
        text += b"Content-Length: 100000\r\n\r\n"
    if what == "answer":
        # Answers that nobody takes: more than sockets hold.
        text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
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
    texts = [b"\r\n\r\n", b"\x1b[2J /\x1b HTTP/1.1\r\n\r\n", b"GET /\x1b[31m%1b%0a HTTP/1.1\r\nHost: x\r\n\r\n",
             b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", os.urandom(4000),
             b"GET / HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n", b"GET /" + b"b" * 100000,
             b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 99999999999999999999\r\n"
             b"Content-Length: 2\r\n\r\n{}",
             b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
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
