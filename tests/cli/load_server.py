#!/usr/bin/env python3
"""A server that answers as its path says, for tests of mltrain load.

usage: load_server.py SOCKET|PORT [CERTIFICATE]

Prints its port, or "ready". /ok answers 200 with {"prediction":[7]}; /hit too, with the header X-MLAPI-Cache:
Hit where a body came before and Miss elsewhere; /chunked in chunks; /slow after 50 ms; /sick every second time
with 503; /interim after an interim answer with that header; /reset closes at once; /half after half a body; /cut resets a
body without a length; /garbage is no HTTP; /endless has no end;
/header none to its headers; /stall never answers; /once closes each connection, /tired without a
word of it; /hold answers nothing for a
second, once. SIGTERM ends it. Every body that came stands in a line of bodies.log, where that file exists.
"""
import asyncio
import os
import socket
import ssl
import struct
import sys

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n%s\r\n{"prediction":[7]}'
seen, count, held = set(), 0, False


async def answer(path, body, writer):
    global count, held
    write = writer.write
    count += 1
    if path == "/tired":
        write(ANSWER % b"")
        await asyncio.sleep(0.01)
        return False
    if path == "/hit":
        write(ANSWER % (b"X-MLAPI-Cache: %s\r\n" % (b"Hit" if body in seen else b"Miss")))
        seen.add(body)
    elif path == "/chunked":
        write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"pre\r\n')
        await asyncio.sleep(0.002)
        write(b'd\r\ndiction":[7]}\r\n0\r\n\r\n')
    elif path == "/sick" and count % 2:
        write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    elif path == "/cut":
        write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await asyncio.sleep(0.01)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    elif path == "/interim":
        write(b"HTTP/1.1 103 Early Hints\r\nX-MLAPI-Cache: Hit\r\n\r\n" + ANSWER % b"")
    elif path == "/reset":
        return False
    elif path == "/half":
        write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        return False
    elif path == "/garbage":
        write(b"220 mail.example.org ESMTP\x1b[31m\r\n" * 3)
    elif path == "/endless":
        write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            write(b"x" * 65536)
            await asyncio.sleep(0)
    elif path == "/header":
        write(b"HTTP/1.1 200 OK\r\n")
        while True:
            write(b"a: b\r\n" * 1000)
            await asyncio.sleep(0)
    elif path == "/stall":
        await asyncio.sleep(600)
    elif path == "/once":
        write(ANSWER % b"Connection: close\r\n")
        return False
    elif path == "/early":
        write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return False
    else:
        if path == "/slow":
            await asyncio.sleep(0.05)
        if path == "/hold" and not held and count > 20:
            held = True
            import time
            time.sleep(0.5)  # all of it stands still
        write(ANSWER % b"")
    return True


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            length = [line[15:] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            body = b""
            if path != "/early":
                body = await reader.readexactly(int(length[0])) if length else b""
            if os.path.exists("bodies.log"):
                with open("bodies.log", "ab") as log:
                    log.write(head.replace("\r\n", "|").encode() + body + b"\n")
            if not await answer(path, body, writer):
                break
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def main():
    tls = None
    if len(sys.argv) > 2:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(sys.argv[2])
    if "/" in sys.argv[1]:
        server = await asyncio.start_unix_server(serve, sys.argv[1])
        print("ready", flush=True)
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), ssl=tls, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
