"""Chromium without a window, driven through its DevTools protocol on a pipe (file descriptors 3 and 4).

    with Browser("chromium") as b:
        b.open("file:///tmp/report.html", width=400, dark=True)
        b.value("document.title"), b.errors, b.screenshot("page.png")

Needs nothing but Python's own library. What the console says as an error, exceptions of scripts, what
the Content-Security-Policy forbids and requests for anything but the page are in `errors`.
"""
import base64
import fcntl
import json
import os
import shutil
import struct
import subprocess
import tempfile
import zlib


class Browser:
    def __init__(self, program):
        self.home = tempfile.mkdtemp(prefix="browser.")
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()

        def pipes():
            # Out of the way of 3 and 4 first, which may be among these.
            ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser, from_browser)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--user-data-dir=" + self.home, "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, HOME=self.home))
        os.close(to_browser)
        os.close(from_browser)
        self.write_to, self.read_from = from_us, to_us
        self.buffer, self.number, self.errors, self.loaded = b"", 0, [], False
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        shutil.rmtree(self.home, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.read_from, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.hear(message.get("method"), message.get("params", {}))
        return message

    def hear(self, method, p):
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(p["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = p["request"]["url"]
            if url != self.url and not url.startswith("data:"):
                self.errors.append("asks for " + url)
        elif method == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        number = self.number
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]

    def open(self, url, width=1280, height=900, dark=False, scripts=True):
        self.url, self.errors, self.loaded = url, [], False
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self.receive()

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def key(self, name):
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, x, to, y):
        self.point(x, y)
        self.button("mousePressed", x, y)
        for i in range(1, 6):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + (to - x) * i / 5, y=y, button="left", buttons=1)
        self.button("mouseReleased", to, y)

    def double_click(self, x, y):
        self.point(x, y)
        for count in 1, 2:
            for kind in "mousePressed", "mouseReleased":
                self.button(kind, x, y, count)

    def button(self, kind, x, y, count=1):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)

    def screenshot(self, path, whole=True):
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000),
                    "scale": 1}
            answer = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        else:
            answer = self.call("Page.captureScreenshot")
        with open(path, "wb") as f:
            f.write(base64.b64decode(answer["data"]))

    def pdf(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))



def colors(path):
    """How often each colour occurs in a PNG of 8 bits a channel without interlacing, as Chromium writes them."""
    data = open(path, "rb").read()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    channels = {2: 3, 6: 4}[kind]
    assert depth == 8
    packed, at = b"", 8
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        if name == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    raw, stride, count = zlib.decompress(packed), width * channels, {}
    before = bytearray(stride)
    for y in range(height):
        line = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        unfilter(raw[y * (stride + 1)], line, before, channels)
        for x in range(0, stride, channels * 3):  # every third is enough
            color = tuple(line[x:x + 3])
            count[color] = count.get(color, 0) + 1
        before = line
    return count


def unfilter(kind, line, up, step):
    """PNG specification, 9.2."""
    for i in range(len(line)):
        a = line[i - step] if i >= step else 0
        b, c = up[i], up[i - step] if i >= step else 0
        if kind == 1:
            line[i] = line[i] + a & 255
        elif kind == 2:
            line[i] = line[i] + b & 255
        elif kind == 3:
            line[i] = line[i] + (a + b) // 2 & 255
        elif kind == 4:
            p = a + b - c
            line[i] = line[i] + min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2] & 255
