#!/usr/bin/env python3
"""The page of `tutti report` in a real browser: light and dark, without an error on the console.

    page_in_browser.py TUTTI [PAGE [FOLDER]]

Makes a short run and its page, or takes PAGE. Screenshots are written to FOLDER if it is given. Needs Chromium or
Chrome; else it skips (77).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import small_run  # noqa: E402

SKIPPED = 77
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCHEMES = {"light": 1, "dark": 0}  # what Chromium calls preferredColorScheme


def check(condition, text):
    if not condition:
        sys.exit(f"page_in_browser: {text}")


def browse(browser, page, folder, scheme, *actions):
    """What the browser prints, and what the page's console says."""
    profile = tempfile.mkdtemp(dir=folder)
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
               "--disable-dev-shm-usage", "--disable-extensions", f"--user-data-dir={profile}",
               "--enable-logging=stderr", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
               "--window-size=1280,2400", *actions, "file://" + os.path.abspath(page)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=110, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def check_the_check(browser, folder):
    """A console error would be seen."""
    page = os.path.join(folder, "bad.html")
    with open(page, "w", encoding="utf-8") as file:
        file.write("<!DOCTYPE html><script>console.error('seen')</script>")
    _, console = browse(browser, page, folder, "light", "--dump-dom")
    check(any("seen" in line for line in console), "the browser does not tell what stands on the console")


def main():
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("skipped: there is neither Chromium nor Chrome")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        page = sys.argv[2] if len(sys.argv) > 2 else os.path.join(folder, "run", "report.html")
        screens = sys.argv[3] if len(sys.argv) > 3 else folder
        if len(sys.argv) <= 2:
            data, run_dir = os.path.join(folder, "data"), os.path.join(folder, "run")
            small_run.write_small_mnist(data)
            small_run.train(sys.argv[1], data, run_dir, "--epochs", "2", "--trace", os.path.join(run_dir, "trace.json"))
            subprocess.run([sys.argv[1], "report", run_dir], check=True, stdout=subprocess.DEVNULL)
        check_the_check(browser, folder)
        pictures = {}
        for scheme in SCHEMES:
            picture = os.path.join(screens, f"report-{scheme}.png")
            _, console = browse(browser, page, folder, scheme, f"--screenshot={picture}")
            check(not console, f"on the console: {console}")
            with open(picture, "rb") as file:
                pictures[scheme] = file.read()
        check(pictures["light"] != pictures["dark"], "dark looks like light")
        dom, _ = browse(browser, page, folder, "light", "--dump-dom")
        for part in ("curves", "confusion", "ranks", "buckets", "timeline", "options"):
            check(f'<section id="{part}">' in dom, f"the part {part} is missing")
        check(len(re.findall("<svg", dom)) >= 4, "there are too few pictures")
    print("the page is shown in light and dark, and the console is empty")
    return 0


if __name__ == "__main__":
    sys.exit(main())
