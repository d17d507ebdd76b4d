#!/usr/bin/env python3
"""The page of `tutti report` in a real browser: light and dark, without an error on the console.

    page_in_browser.py TUTTI [PAGE [FOLDER]]

Makes a short run and its page, or takes PAGE. Then looks at what the page says of a run that is made up. Screenshots
are written to FOLDER if it is given. Needs Chromium or Chrome; else it skips (77).
"""

import html
import json
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


HOSTILE = "</script><script>console.error('hostile')</script><img src=x onerror=console.error('hostile')>"


def write_made_up_run(folder):
    """Three ranks of which the last is slow, two buckets, a trace, and a class with a hostile name."""
    os.makedirs(folder)

    def write(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    epochs = [{"epoch": e, "train_loss": 0.6 - e / 10, "test_loss": 0.3 - e / 20, "test_accuracy": 0.7 + e / 20,
               "seconds": 2} for e in (1, 2)]
    write("report.json", json.dumps({
        "task": "mercer", "model": "resnet18", "device": "cpu", "world_size": 3, "threads": 1, "batch_size": 32,
        "global_batch": 96, "generated_data": True, "epochs": epochs, "seconds_training": 4,
        "samples_per_second": 12345.6, "final_test_accuracy": 0.8,
        "confusion_matrix": [[40, 10, 0], [5, 45, 0], [0, 0, 7]], "class_names": ["forest", "river", HOSTILE],
        "parameter_sha256": "ab12"}))
    write("options.json", json.dumps({"model": "resnet18", "lr": "0.05", "trace": os.path.join(folder, "trace.json")}))
    write("buckets.json", json.dumps([{"bytes": 159168, "start_seconds": 0.001, "wait_seconds": 0},
                                      {"bytes": 4096, "start_seconds": 0.002, "wait_seconds": 0.0005}]))
    write("run.json", json.dumps({"started": "2026-03-01 12:00:00", "host": "node7", "cpu": "A CPU", "cpus": "16",
                                  "version": "1.2.3", "command": "tutti train mercer --data " + "a/long/path/" * 20}))
    write("log.txt", "hello from the log\n" + HOSTILE + "\n")
    for rank in range(3):
        waiting = 0 if rank == 2 else 0.001
        write(f"steps-rank-{rank}.jsonl" if rank else "steps.jsonl", "".join(json.dumps(
            {"epoch": 1 + step // 100, "step": step % 100, "global_step": step, "loss": 2 / (step + 1),
             "learning_rate": 0.001 / (step + 1), "samples": 32, "seconds": 0.002,
             "wait_seconds": waiting}) + "\n" for step in range(200)))
    spans = [{"ph": "X", "name": "all_reduce", "cat": "collective", "pid": i % 3, "tid": 0, "ts": 100 * i, "dur": 50.25,
              "args": {"operation": f"all_reduce seq {i} (sum float32 x 100)", "bytes": 400, "state": "done",
                       "algorithm": "ring"}} for i in range(1200)]
    write("trace.json", '{"traceEvents":[\n' + ",\n".join(
        json.dumps(span, separators=(",", ":")) for span in spans) + "\n]}\n")


def check_texts(browser, tutti, folder):
    run_dir = os.path.join(folder, "made-up")
    write_made_up_run(run_dir)
    subprocess.run([tutti, "report", run_dir], check=True, stdout=subprocess.DEVNULL)
    dom, console = browse(browser, os.path.join(run_dir, "report.html"), folder, "light", "--dump-dom")
    check(not console, f"on the console: {console}")
    drawn = dom[dom.index("<main>"):dom.index("</main>")]
    check("<img" not in drawn and "<script" not in drawn, "a text has become markup")
    text = html.unescape(re.sub("<[^>]*>", "", drawn))
    for part in ("resnet18 on mercer", "made-up · trained on generated data", "80.00 %final test accuracy",
                 "12,346samples a second", "3 × 32ranks × batch", "Loss, logarithmic", "Test accuracy", "Learning rate",
                 "forest was taken for river, 10 times; river was taken for forest, 5 times", HOSTILE,
                 "started2026-03-01 12:00:00", "hostnode7", "machineA CPU, 16 CPUs", "versionTutti 1.2.3",
                 "commandtutti train mercer --data a/long/path/",
                 "Rank 2 is a straggler: of a step it takes 2 ms", "2 times what the other ranks take",
                 "100 % of the steps", "Own work per step, rank by rank", "rank 1: 1 ms, 1 times the usual",
                 "159 KiB of gradients travel in 2 buckets a step", "waited 500 us for them on average, 25.0 % of a step",
                 "1,200 operations were traced", "(sum float32 x 100), 400 bytes by ring, 50.3 us",
                 "15 % in collectives", "lr0.05", "hello from the log", "ab12"):
        check(part in text, f"the page does not say: {part}")
    check_narrow(browser, os.path.join(run_dir, "report.html"), folder)


def check_narrow(browser, page, folder):
    """On a small screen nothing is wider than the page: wide tables and strips scroll within their own boxes."""
    frame = os.path.join(folder, "narrow.html")
    with open(frame, "w", encoding="utf-8") as file:
        file.write(f"<!DOCTYPE html><iframe src='file://{page}' width=480 height=2000 style='border:0'></iframe>"
                   "<p id=width></p><script>onload = () => {"
                   "const page = document.querySelector('iframe').contentDocument;"
                   "for (const details of page.querySelectorAll('details')) details.open = true;"
                   "document.querySelector('#width').textContent = page.documentElement.scrollWidth;}</script>")
    dom, _ = browse(browser, frame, folder, "light", "--allow-file-access-from-files", "--dump-dom")
    width = int(re.search(r'<p id="?width"?>(\d+)</p>', dom).group(1))
    check(width <= 480, f"the page is {width} pixels wide on a screen of 480")


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
        check_texts(browser, sys.argv[1], folder)
    print("the page is shown in light and dark, and the console is empty")
    return 0


if __name__ == "__main__":
    sys.exit(main())
