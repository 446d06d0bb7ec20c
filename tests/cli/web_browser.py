"""The page of mlrun web in Chromium: web_browser.py BROWSER LINK RUNS-DIRECTORY IMAGE.

The directory has a run of another program's, "a", whose names and texts are hostile. Starts one, follows and stops it.
"""
import sys
import time

from browser import Browser


class Page(Browser):
    """A browser whose page may ask its own server, and no other."""

    def hear(self, method, p):
        if method == "Network.requestWillBeSent" and p["request"]["url"].startswith((self.url.split("#")[0], "blob:")):
            return
        super().hear(method, p)

    def until(self, expression):
        end = time.monotonic() + 60
        while not self.value(expression):
            assert time.monotonic() < end, expression + "\n" + self.value("document.body.innerText") + repr(self.errors)
            time.sleep(0.05)

    def fill(self, id, text):
        self.value("{const e = document.getElementById('w-' + %r); e.value = %r; e.dispatchEvent(new Event('input', {bubbles: true}))}"
                   % (id, text))


program, link, runs, image = sys.argv[1:]
with Page(program) as b:
    b.open(link)
    b.until("document.querySelectorAll('tbody tr a').length === 1")
    assert "#k=" not in b.value("location.href"), b.value("location.href")
    assert "<img src=x onerror=alert(1)>" in b.value("document.querySelector('tbody tr a').innerText")
    assert b.value("document.querySelectorAll('main img').length") == 0
    # A run's page: charts, parameters, files.
    b.value("document.querySelector('tbody a').click()")
    b.until("document.querySelectorAll('figure.chart svg').length > 0")
    b.until("document.body.innerText.includes('</script>')")
    assert b.value("document.title").startswith("<img"), b.value("document.title")
    # A new one, from the form to its log.
    b.value("location.hash = '#/new'")
    b.until("document.getElementById('w-experiment') !== null")
    b.fill("experiment", "page")
    b.fill("name", "one")
    b.fill("image", image)
    b.fill("command", "sh -c 'trap \"exit 0\" TERM; echo \"it began\"; while :; do sleep 0.1; done'")
    b.until("document.getElementById('w-line').innerText.includes('mlrun run -d')")
    b.value("document.getElementById('w-start').click()")
    b.until("document.getElementById('w-state')?.innerText.includes('running')")
    b.until("document.getElementById('w-log').innerText.includes('it began')")
    b.value("document.getElementById('w-stop').click()")
    b.until("document.getElementById('w-sure').open")
    b.value("[...document.querySelectorAll('#w-sure button')].find((e) => /Stop|Yes/.test(e.innerText)).click()")
    b.until("document.getElementById('w-state').innerText.includes('stopped')")
    # The list has both; narrow and dark nothing is wider than the window.
    b.value("location.hash = '#/'")
    b.until("document.querySelectorAll('tbody tr a').length === 2")
    for page in "", "new", "machine":
        for dark in False, True:
            b.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=True)
            b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
            b.value("location.hash = '#/%s'" % page)
            b.until("document.querySelector('h1') !== null")
            assert b.value("document.documentElement.scrollWidth") <= 360, page
    assert not b.errors, b.errors
    print("fine")
