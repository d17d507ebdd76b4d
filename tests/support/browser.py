"""Chromium without a window, steered over its debugging pipe (file descriptors 3 and 4, messages that end in a zero byte).

    with Browser(name) as browser:          # name: find_browser()
        browser.open(path, width, height, "dark")
        browser.evaluate("document.title"); browser.press("ArrowRight"); browser.complaints()

https://chromedevtools.github.io/devtools-protocol/ describes the messages.
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120  # seconds for one answer; a busy machine starts a browser slowly
COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


def find_browser():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp()
        theirs_in, self.to = os.pipe()
        self.out_of, theirs_out = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   "--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile}", "about:blank"]
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(["sh", "-c", shell, "sh", *command], pass_fds=(theirs_in, theirs_out),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.unread, self.number, self.events, self.session = b"", 0, [], None
        page = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(timeout=20)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _read(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.unread:
            if not select.select([self.out_of], [], [], max(0.0, end - time.monotonic()))[0]:
                raise RuntimeError(f"the browser has said nothing for {PATIENCE} s")
            more = os.read(self.out_of, 1 << 20)
            if not more:
                raise RuntimeError("the browser has gone")
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def open(self, page, width, height, scheme="light", fragment="", with_scripts=True):
        """Loads the file `page` anew."""
        self.call("Emulation.setScriptExecutionDisabled", value=not with_scripts)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        for url in ("about:blank", pathlib.Path(page).resolve().as_uri() + fragment):
            self.events = []
            self.call("Page.navigate", url=url)
            while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
                self.events.append(self._read())

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key):
        text = {"text": " "} if key == " " else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def complaints(self):
        """What the console and the page's policy have to say since open()."""
        self.evaluate("0")
        return [event for event in self.events if event.get("method") in COMPLAINTS]

    def picture(self, file):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))
        return data
