#!/usr/bin/env python3
"""Pages of `tutti lab show` in a real browser: steps, keys, light and dark, a narrow screen, an empty console.

    lab_show_in_browser.py TUTTI SUBMISSIONS [FOLDER]

SUBMISSIONS is tests/labs. Screenshots go to FOLDER if it is given. Needs Chromium or Chrome; else it skips (77).
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ("support", "labs")]
import browser as browsers  # noqa: E402
import submissions  # noqa: E402

SKIPPED = 77
TEXT = "document.body.innerText"
LISTS = "[...document.querySelectorAll('.messages')].map(e => e.textContent)"
STATES = "[...document.querySelectorAll('#side0 .state')].map(e => e.textContent)"
WHO = "[...new Set([...document.querySelectorAll('#side0 .buffer:first-child .cell i')].map(e => e.textContent))]"
WHERE = "document.getElementById('where').textContent"


def check(condition, text):
    if not condition:
        sys.exit(f"lab_show_in_browser: {text}")


def show(tutti, folder, lab, source, *options, status=0):
    """The page of one submission."""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    (place / f"{lab}.cc").write_text(submissions.text_of(source, lab))
    done = subprocess.run([tutti, "lab", "show", lab, place, *options], capture_output=True, text=True, timeout=300)
    check(done.returncode == status, f"tutti lab show {lab} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return place / "show.html", done.stdout + done.stderr


def looks_right(browser, page, name, screens):
    """In both colours and on both screens."""
    for width in (1280, 390):
        pictures = []
        for scheme in ("light", "dark"):
            browser.open(page, width, 900, scheme, "#step=1")
            check(browser.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than {width}")
            pictures.append(browser.picture(os.path.join(screens, f"{name}-{scheme}-{width}.png")))
            check(not browser.complaints(), f"{name}, on the console: {browser.complaints()}")
        check(pictures[0] != pictures[1], f"{name}: dark looks like light")


def plays(browser, page):
    """A right ring on four ranks: six rounds, of a message and, in the first three, a sum."""
    browser.open(page, 1280, 900)
    check(browser.evaluate(WHERE).startswith("step 0 of "), browser.evaluate(WHERE))
    last = int(browser.evaluate("document.getElementById('slider').max"))
    check(last >= 6, f"only {last} steps")
    check(browser.evaluate(STATES + "[0]").startswith("sends to 1"), browser.evaluate(STATES))
    check(browser.evaluate(WHO) == ["0", "1", "2", "3"], browser.evaluate(WHO))
    browser.press("ArrowRight")
    check(browser.evaluate(WHERE).startswith("step 1 of "), "the right arrow does not step")
    check("step 1 of" in browser.evaluate("document.getElementById('said').textContent"), "nothing is said aloud")
    browser.press("End")
    check(browser.evaluate(WHERE).startswith(f"step {last} of {last}"), "End does not go to the end")
    check(browser.evaluate(WHO) == ["all"], browser.evaluate(WHO))
    check(set(browser.evaluate(STATES)) == {"done"}, browser.evaluate(STATES))
    browser.press("ArrowLeft")
    check(browser.evaluate(WHERE).startswith(f"step {last - 1} of"), "the left arrow does not step")
    browser.press("Home")
    browser.press(" ")
    check(browser.evaluate("document.getElementById('run').textContent") == "Stop", "space does not play")
    browser.evaluate("new Promise(done => { const look = () => document.getElementById('slider').value > 1 ? done() : "
                     "setTimeout(look, 20); look(); })")
    browser.press(" ")
    check(browser.evaluate("document.getElementById('run').textContent") == "Play", "space does not stop")
    check(browser.evaluate("document.querySelectorAll('#side0 .arc').length") > 0, "no arrow is drawn")
    check(not browser.complaints(), f"on the console: {browser.complaints()}")


def draws(browser, page):
    """Two messages, 1 -> 0 and 2 -> 0, beside the library's."""
    browser.open(page, 1280, 900)
    for part, count in (("section[id^=side]", 2), ("svg.spacetime", 2), ("#side0 .flight", 2), ("#side0 .b-send", 2),
                        ("#side0 .b-add", 2), ("#side0 tr[data-first]", 2), ("#side0 .plain.bars tr", 4)):
        found = browser.evaluate(f"document.querySelectorAll('{part}').length")
        check(found == count, f"{found} times {part}, not {count}")
    said = browser.evaluate(LISTS)[0]
    for text in ("All 2 messages as a list", "2 → 0", "30 (of 2), 31 (of 2)"):
        check(text in said, f"the list of messages says {said}, without {text}")
    check("Your submission" in browser.evaluate(TEXT) and "The library" in browser.evaluate(TEXT), "a side has no name")
    check("is wrong" not in browser.evaluate(TEXT), "a right result is called wrong")


def main():
    program = browsers.find_browser()
    if program is None:
        print("skipped: there is neither Chromium nor Chrome")
        return SKIPPED
    tutti, labs = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, browsers.Browser(program) as browser:
        screens = sys.argv[3] if len(sys.argv) > 3 else folder
        bad = pathlib.Path(folder) / "bad.html"
        bad.write_text("<!DOCTYPE html><link rel=icon href='data:,'><script>console.error('seen')</script>")
        browser.open(bad, 800, 600)
        check(browser.complaints(), "the browser does not tell what stands on the console")

        ring, _ = show(tutti, folder, "ring", labs / "right" / "ring.cc", "--ranks", "4")
        plays(browser, ring)
        looks_right(browser, ring, "ring", screens)
        browser.open(ring, 1280, 900, with_scripts=False)
        check(not browser.evaluate("document.getElementById('controls').checkVisibility()"), "a player without scripts")
        check("let it run" in browser.evaluate(TEXT), "without scripts the page does not say what it needs")

        three, _ = show(tutti, folder, "reduce", labs / "right" / "reduce.cc", "--ranks", "3", "--count", "2")
        draws(browser, three)

        wrong, _ = show(tutti, folder, "broadcast", labs / "wrong" / "broadcast" / "without_the_last.diff", "--ranks", "2")
        browser.open(wrong, 1280, 900, fragment="#step=9999")
        said = browser.evaluate(TEXT)
        check("The result is wrong." in said, "a wrong result is not called wrong")
        check("rank 1, data[3]: 23 (of 1), and should be 13 (of 0)" in said, f"the page does not say what is wrong: {said}")
        check(browser.evaluate("document.querySelectorAll('#side0 .cell.bad').length") == 1, "the wrong cell is not marked")

        twice, _ = show(tutti, folder, "deadlock", labs / "wrong" / "deadlock" / "sends_twice.diff", "--ranks", "2", "--eager")
        browser.open(twice, 1280, 900)
        said = browser.evaluate(TEXT)
        check("and yet it is wrong: rank" in said and "was never received" in said, f"a left-over message is not told: {said}")
        check(browser.evaluate(LISTS)[0].count("never received") == 2, "the list does not name the messages left over")
        check(browser.evaluate("document.querySelectorAll('#side0 .b-recv').length") == 2, "what is left over is received")

        stuck, _ = show(tutti, folder, "deadlock", labs / "wrong" / "deadlock" / "all_receive_first.diff", "--ranks", "3")
        looks_right(browser, stuck, "deadlock", screens)
        browser.open(stuck, 1280, 900, fragment="#step=9999")
        check("0 waits for 2 in recv of" in browser.evaluate(TEXT), "the deadlock is not explained")
        check("never done" in browser.evaluate(TEXT), "the page does not say that the run never ends")
        check(browser.evaluate("document.querySelectorAll('#side0 svg.cycle .stuck-line').length") == 3, "no picture of the cycle")
        check(browser.evaluate("document.querySelectorAll('#side0 .b-wait.never').length") == 3, "no wait is drawn as endless")
        check(all("for ever" in state for state in browser.evaluate(STATES)), browser.evaluate(STATES))
        check(browser.evaluate("document.querySelectorAll('#side0 .arc.stuck').length") == 3, "the cycle is not drawn")

        sixteen, _ = show(tutti, folder, "reduce", labs / "right" / "reduce.cc", "--ranks", "16", "--root", "3")
        looks_right(browser, sixteen, "reduce16", screens)

        broken, said = show(tutti, folder, "barrier", labs / "harmful" / "does_not_compile.diff", status=1)
        check("error" in said, f"the compiler's messages are missing: {said}")
        browser.open(broken, 1280, 900)
        check("could not be run" in browser.evaluate(TEXT), "the page does not say that it does not compile")
        check(not browser.complaints(), f"on the console: {browser.complaints()}")
    print("the pages play, in light and dark, on wide and narrow screens, and the console is empty")
    return 0


if __name__ == "__main__":
    sys.exit(main())
