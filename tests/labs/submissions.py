#!/usr/bin/env python3
"""Hands the submissions of this folder to `tutti lab check` and compares the diagnoses with those expected.txt lists.

    tests/labs/submissions.py TUTTI [GROUP...]           judge the groups (a lab's name, or "harmful"); all without
    tests/labs/submissions.py TUTTI --write [GROUP...]   write what is found into expected.txt instead, for people to read
    tests/labs/submissions.py --show LAB/NAME            print a wrong submission as it is handed in

right/LAB.cc must earn full marks. wrong/LAB/NAME.diff (right/LAB.cc with a mistake made in it), wrong/LAB/NAME.cc and
harmful/NAME.diff must get the diagnosis, and the text, of their line in expected.txt. Harmful ones are made in right/barrier.cc; nothing of theirs may be left on this machine. Ends with status 1 if anything is otherwise.
"""

import ctypes
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected.txt"
LONGEST_SECONDS = 300  # of one check, on a machine ten times slower than ours
LONGEST_OUTPUT = 100_000


def submissions(group):
    """(key in expected.txt, lab, source file) of each submission of a group."""
    if group == "harmful":
        return [(f"harmful/{path.stem}", "barrier", path) for path in sorted((HERE / "harmful").iterdir())]
    wrong = [(f"{group}/{path.stem}", group, path) for path in sorted((HERE / "wrong" / group).iterdir())]
    return [(f"{group}/right", group, HERE / "right" / f"{group}.cc"), *wrong]


def text_of(source, lab):
    """What is handed in. Each hunk of a .diff follows a line "@@", and its lines are found once in right/LAB.cc, wherever that is.
    A comment that begins with "right/OTHER.cc: " names another lab's right solution in its place."""
    text = source.read_text(encoding="utf-8")
    if source.suffix != ".diff":
        return text
    comment, *hunks = text.split("@@\n")
    if other := re.match(r"right/(\w+)\.cc: ", comment):
        lab, comment = other[1], comment[other.end() :]
    result = (HERE / "right" / f"{lab}.cc").read_text(encoding="utf-8")
    for hunk in hunks:
        old, new = ("".join(line[1:] or "\n" for line in hunk.splitlines(True) if line[0] != sign) for sign in "+-")
        if result.count(old) != 1:
            sys.exit(f"{source}: these lines are {result.count(old)} times in right/{lab}.cc:\n{old}")
        result = result.replace(old, new)
    return "".join(f"// {line}\n" for line in comment.splitlines()) + result


def all_groups():
    return [*sorted(path.stem for path in (HERE / "right").glob("*.cc")), "harmful"]


def expected():
    """key -> (diagnosis, text), from the lines of expected.txt."""
    rows = {}
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            key, diagnosis, text = line.split(" | ", 2)
            rows[key] = (diagnosis, text)
    return rows


def adopt_orphans():
    """From now on, what a check leaves running becomes a child of this process."""
    set_child_subreaper = 36  # sys/prctl.h
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_orphans():
    """Ends this process's children, and returns how many were running."""
    running = 0
    for child in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        running += os.waitpid(int(child), os.WNOHANG)[0] == 0
        try:
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it had ended by itself
    return running


def run(command, folder):
    """Status and output of a command; status None if it did not end, or left something running."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as child:
        try:
            output = child.communicate(timeout=LONGEST_SECONDS)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return None, child.communicate()[0].decode(errors="replace") + f"\n(no end within {LONGEST_SECONDS} s)"
    left = end_orphans()
    return (None, output + f"\n({left} processes were left running)") if left else (child.returncode, output)


def check(tutti, lab, source):
    """The report of `tutti lab check` as JSON, its exit status and its output, and what the folder holds besides."""
    with tempfile.TemporaryDirectory(prefix="tutti-labs-test-") as scratch:
        folder = pathlib.Path(scratch) / lab
        folder.mkdir()
        (folder / f"{lab}.cc").write_text(text_of(source, lab), encoding="utf-8")
        report = pathlib.Path(scratch) / "report.json"
        status, output = run([tutti, "lab", "check", lab, str(folder), "--json", str(report)], scratch)
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        strangers = sorted(path.name for path in folder.iterdir() if path.name != f"{lab}.cc")
        return found, status, output, strangers


def verdict(report):
    """(diagnosis, text) as expected.txt lists them."""
    if report.get("passed"):
        return "passes", f"{report['score']} of {report['max_score']}"
    finding = report.get("finding") or {}
    text = " ".join((finding.get("text") or "").split()).replace("|", "/")
    case = finding.get("case")
    return finding.get("diagnosis") or "none", f"{text} ({case})" if case else text


def without_numbers(text):
    """Which of several ranks that do the same wrong thing is seen first depends on the machine."""
    return re.sub(r"# rank\b", "# ranks", re.sub(r"[0-9]+", "#", text))


def judge(key, wanted, report, status, output, strangers):
    """What is not as it should be, as sentences."""
    diagnosis, text = verdict(report)
    is_right = key.endswith("/right")
    if not report:
        yield f"no report, status {status}"
    if status != (0 if is_right else 1):
        yield f"status {status}, not {0 if is_right else 1}"
    if wanted is None:
        yield f"is not in expected.txt (found {diagnosis}: {text})"
    elif wanted[0] != diagnosis:
        yield f"diagnosis {diagnosis} ({text}), not {wanted[0]}"
    elif without_numbers(wanted[1]) != without_numbers(text):
        yield f'says "{text}", not "{wanted[1]}"'
    if is_right and report and report["score"] != report["max_score"]:
        yield f"{report['score']} of {report['max_score']} points"
    if not is_right and report and report["score"] >= report["max_score"]:
        yield "got all points"
    if diagnosis == "wrong_root":  # that it ignores the root is told once, and costs more than half
        if report["score"] >= 50:
            yield f"got {report['score']} points"
        if any(stage["diagnosis"] == "message_order" for stage in report["stages"]):
            yield "a wrong root is taken for a wrong order of messages"
    if len(output) > LONGEST_OUTPUT:
        yield f"{len(output)} characters of output"
    if strangers:
        yield f"left files in the folder: {strangers}"


def harm_done():
    """What harmful/ would have left outside."""
    return [path for path in ("/tmp/tutti_lab_was_here",) if os.path.exists(path)]


def write_expected(found):
    """Replaces the lines of what was run anew, and adds those of new submissions; several runs may do so at once."""
    with open(HERE / "submissions.py", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = {**expected(), **found}
        lines = [EXPECTED.read_text(encoding="utf-8").splitlines()[0]]
        for group in all_groups():
            lines += [""] + [f"{key} | {rows[key][0]} | {rows[key][1]}" for key, _, _ in submissions(group) if key in rows]
        EXPECTED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    if sys.argv[1] == "--show":
        lab = sys.argv[2].split("/")[0]
        print(next(text_of(source, lab) for key, _, source in submissions(lab) if key == sys.argv[2]), end="")
        return 0
    words = [word for word in sys.argv[1:] if word != "--write"]
    writes = "--write" in sys.argv
    adopt_orphans()
    tutti, groups = os.path.abspath(words[0]), words[1:] or all_groups()
    wanted, found, failures = expected(), {}, 0
    for group in groups:
        for key, lab, source in submissions(group):
            begin = time.monotonic()
            report, status, output, strangers = check(tutti, lab, source)
            found[key] = verdict(report)
            problems = [] if writes else list(judge(key, wanted.pop(key, None), report, status, output, strangers))
            problems += [f"left {path}" for path in harm_done()]
            print(f"{'FAILED' if problems else 'ok':6} {time.monotonic() - begin:5.1f} s  {key}: {verdict(report)[0]}", flush=True)
            for problem in problems:
                print(f"       {problem}")
            if problems:
                print("       " + "\n       ".join(output.splitlines()[-30:]))
            failures += bool(problems)
    if writes:
        write_expected(found)
    missing = [key for key in wanted if not writes and key.split("/")[0] in groups]
    if missing:
        print(f"expected.txt lists what is not there: {', '.join(missing)}")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
