"""Values that no command takes, and output that cannot be written. Usage: values_and_output_test.py TUTTI"""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

TUTTI = os.path.abspath(sys.argv[1])
COMMANDS = ["run", "train mnist", "train mercer", "bench", "data list", "data fetch", "data verify", "completion", "plan", "tune", "report", "evaluate",
            "compare", "store", "doctor", "lab list", "lab start", "lab check", "lab show"]
WORDS = {"run": ["--", "true"]}
failures = []


def tutti(*words, **options):
    return subprocess.run([TUTTI, *words], capture_output=True, text=True, timeout=60, **options)


def expect(condition, what):
    if not condition:
        failures.append(what)


def options_of(command):
    """The options that take a value, with its type, as --help lists them."""
    text = tutti(*command.split(), "--help").stdout
    return re.findall(r"^  (?:-\w,)?(--[\w-]+) ([A-Z]{2,})\b", text, re.M)


def check_values():
    seen = 0
    for command in COMMANDS:
        for option, kind in options_of(command):
            values = [""] + (["99999999999999999999999"] if kind in ("INT", "UINT") else [])
            values += ["1e999"] if kind == "FLOAT" else []
            for value in values:
                seen += 1
                result = tutti(*command.split(), option, value, *WORDS.get(command, []))
                expect(result.returncode == 2, f"{command} {option} '{value}': status {result.returncode}, {result.stderr[:200]}")
                expect(option in result.stderr, f"{command} {option} '{value}' does not name the option: {result.stderr[:200]}")
    expect(seen > 100, f"only {seen} values were tried")


def check_full_output(folder):
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    with open("/dev/full", "w") as full:
        for words in (["plan", "--op", "all_reduce", "--bytes", "64", "--world", "4"], ["data", "list"], ["lab", "list"],
                      ["doctor"], ["--help"], ["--version"], ["run", "--help"], ["run", "-n", "2", "--", "echo", "x"],
                      ["bench", "all_reduce", "--max-bytes", "64"], ["train", "mnist", "--epochs", "1", "--nproc", "2"]):
            result = subprocess.run([TUTTI, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=empty)
            expect(result.returncode == 1, f"{words} to a full disk: status {result.returncode}")
            expect(result.stderr.count("No space left on device") == 1, f"{words} to a full disk: {result.stderr[-300:]}")


def check_reader_that_goes(folder):
    for words in (["plan", "--op", "all_reduce", "--bytes", "64", "--world", "4"], ["data", "list"],
                  ["run", "-n", "2", "--", "yes"]):
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([TUTTI, *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, cwd=folder)
        os.close(writer)
        expect(result.returncode in (-13, 141), f"{words} without a reader: status {result.returncode}")
        expect(result.stderr == "", f"{words} without a reader: {result.stderr[:200]}")


def check_launcher_keeps_its_ranks(folder):
    """Ranks whose launcher cannot write run to their end, with whole logs; a full disk is said once, a gone reader not."""
    lines = 'for i in $(seq 1000); do echo line $i; done; touch "$0/done-$RANK"'
    for name in ("gone", "full"):
        kept = os.path.join(folder, name)
        os.mkdir(kept)
        if name == "full":
            writer = os.open("/dev/full", os.O_WRONLY)
        else:
            reader, writer = os.pipe()
            os.close(reader)
        result = subprocess.run([TUTTI, "run", "-n", "2", "--log-dir", kept, "--tee", "3", "--", "sh", "-c", lines, kept],
                                stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(writer)
        status, said = (141, 0) if name == "gone" else (1, 1)
        expect(result.returncode == status, f"launcher, {name}: status {result.returncode}")
        expect(result.stderr.count("standard output") == said, f"launcher, {name}: {result.stderr[:300]}")
        logs = [os.path.join(path, file) for path, _, files in os.walk(kept) for file in files if not file.startswith("done")]
        expect(all(os.path.exists(f"{kept}/done-{rank}") for rank in "01"), f"launcher, {name}: a rank did not end")
        expect(sum(open(log).read().count("line 1000\n") for log in logs) == 2, f"launcher, {name}: logs {logs}")
        for log in logs:
            expect(os.stat(log).st_mode & 0o777 == 0o600, f"{log} can be read by others")


def check_minus(folder):
    result = tutti("plan", "--op", "all_reduce", "--bytes", "64", "--world", "4", "--json", "-", cwd=folder)
    expect(result.returncode == 0 and '"lower_bound_us"' in result.stdout, f"plan --json -: {result.stdout[-200:]}")
    expect(not os.path.exists(os.path.join(folder, "-")), "plan --json - made a file named -")


def check_untrusted_text(folder):
    """Text from files, their names and the environment is shown, but nothing in it that a terminal obeys."""
    bad, shown = "x\x1b]0;y\x07\u009b2J\x7f\r\u00fc", "x?]0;y???2J??\u00fc"
    checkpoint = os.path.join(folder, "epoch-0001")
    pictures = os.path.join(folder, bad, "mercer")
    os.mkdir(checkpoint)
    os.makedirs(os.path.join(pictures, bad))
    for name in (f"{bad}.png", "whole.jpg", f"{bad}.txt"):
        open(os.path.join(pictures, bad, name), "w").close()

    def write_checkpoint(task, tensors):
        header = json.dumps(tensors).encode()
        content = len(header).to_bytes(8, "little") + header
        names = ("model.safetensors", "optimizer.safetensors")
        for name in names:
            with open(os.path.join(checkpoint, name), "wb") as file:
                file.write(content)
        file = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        state = {"epoch": 1, "step": 0, "steps_per_epoch": 20, "world_size": 1, "options": {"task": task}, "history": "[]",
                 "loss_sums": [], "seconds": "0x0p+0", "files": {name: file for name in names}}
        text = json.dumps(state, separators=(",", ":"), ensure_ascii=False).encode()
        state = {"format": 2, "sha256": hashlib.sha256(text).hexdigest(), "state": state}
        with open(os.path.join(checkpoint, "state.json"), "w") as file:
            json.dump(state, file)

    evaluate = ["evaluate", checkpoint]
    for what, words, variable, task, tensors in (
            ("tensor", evaluate, "", "mnist", {bad: {}}),
            ("option of state.json", evaluate, "", bad, {}),
            ("file", ["data", "verify", "--data", pictures], "", "", {}),
            ("folder", ["data", "list"], "TUTTI_DATA", "", {}),
            ("tuning file", ["bench", "all_reduce", "--nproc", "2", "--max-bytes", "64"], "TUTTI_TUNING", "", {}),
            ("log level", ["bench", "all_reduce", "--nproc", "2", "--max-bytes", "64"], "TUTTI_LOG", "", {}),
            ("option", ["train", "mnist", "--model", bad], "", "", {})):
        write_checkpoint(task, tensors)
        added = {variable: os.path.join(folder, bad + "/none")} if variable else {}
        result = tutti(*words, env={**os.environ, **added})
        text = result.stdout + result.stderr
        expect(shown in text and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), f"{what}: {ascii(text[:600])}")


def check_closed_output(folder):
    """Started with standard output closed: nothing that is printed lands in a file that is opened later."""
    for words in ("train mnist --epochs 1 --run-dir closed", "bench all_reduce --max-bytes 64", "run -- echo x"):
        result = tutti(*words.split(), preexec_fn=lambda: os.close(1), cwd=folder)
        expect(result.returncode == 1 and "standard output" in result.stderr,
               f"{words} without output: {result.returncode}, {result.stderr[-200:]}")
    for parent, _, files in os.walk(os.path.join(folder, "closed")):
        for name in files:
            with open(os.path.join(parent, name), "rb") as file:
                expect(b"training mlp" not in file.read() or name == "log.txt", f"{name} has what was printed")


def check_log_files(folder):
    """Those of a folder made for them are named; what they have lost is an error."""
    result = tutti("run", "-n", "2", "-r", "3", "--", "echo", "x", cwd=folder)
    made = re.search(r"log files are in (\S+)", result.stderr)
    expect(made and os.path.isdir(made[1]), f"run -r 3: {result.stderr}")
    if made:
        shutil.rmtree(made[1])
    def no_files_grow():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    result = tutti("run", "--log-dir", "logs", "--", "echo", "x", cwd=folder, preexec_fn=no_files_grow)
    expect(result.returncode == 1 and "File too large" in result.stderr, f"a full log file: {result.returncode}, {result.stderr}")


def check_what_means_nothing(folder):
    """An option without an effect is refused, or said."""
    for status, words, text in (
            (2, "store --world-size 0", "--world-size"),
            (2, "store --torch --job-id x", "--job-id"),
            (2, "plan --op barrier --world 4 --straggler 1:2", "--straggler needs --simulate"),
            (2, "train mnist --epochs 1 --schedule-factor 0.5", "--schedule-factor belong to --schedule step"),
            (0, "train mnist --epochs 1 -n 2 --chaos kill:rank=2,step=1", "strikes no rank: there are 0 to 1")):
        result = tutti(*words.split(), cwd=folder)
        expect(result.returncode == status and text in result.stderr, f"{words}: {result.returncode}, {result.stderr[-300:]}")


def check_same_cause(folder):
    """A trace file that rank 0 cannot write is what every rank says."""
    result = tutti("bench", "barrier", "-n", "2", "--trace", "/nonexistent/x", cwd=folder)
    expect(result.returncode == 1 and "lost rank" not in result.stderr, f"bench --trace: {result.stderr}")


with tempfile.TemporaryDirectory() as folder:
    check_values()
    check_closed_output(folder)
    check_log_files(folder)
    check_what_means_nothing(folder)
    check_same_cause(folder)
    check_full_output(folder)
    check_reader_that_goes(folder)
    check_launcher_keeps_its_ranks(folder)
    check_minus(folder)
    check_untrusted_text(folder)
print("\n".join(failures))
sys.exit(1 if failures else 0)
