"""What commands show on a terminal, and that nothing of it is in a pipe. Usage: terminal_test.py TUTTI"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "build/release/bin/tutti"
COLUMNS = 60


class Screen:
    """The lines of a terminal that knows "\\r", "\\n" and "erase to the end of the line", and each state of its last line."""

    def __init__(self, data):
        self.lines = [""]
        self.states = []
        for piece in re.split(r"(\r?\n|\r|\x1b\[K)", re.sub(r"\x1b\[\d*m", "", data.decode())):
            if piece in ("\n", "\r\n"):
                self.lines.append("")
            elif piece == "\x1b[K":
                self.lines[-1] = ""
            elif piece not in ("", "\r"):
                self.lines[-1] += piece
                self.states.append(self.lines[-1])


def on_terminal(*words, columns=COLUMNS, **options):
    """The exit status, and what was shown."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "TUTTI_LOG": "error"}  # chaos warns of what it does
    process = subprocess.Popen([TUTTI, *words], stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, env=environment,
                               **options)

    def mark_end():  # what a terminal's last writer wrote may be lost when it closes, so this side closes last
        process.wait()
        os.write(follower, b"\0")

    marker = threading.Thread(target=mark_end)
    marker.start()
    data = b""
    while not data.endswith(b"\0"):
        data += os.read(leader, 65536)
    marker.join()
    os.close(leader)
    os.close(follower)
    return process.returncode, Screen(data[:-1])


def completed(*words):
    """What bash offers for the last word."""
    script = '. <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tutti; echo "${COMPREPLY[*]}"'
    return subprocess.run(["bash", "-euc", script, TUTTI, "tutti", *words], capture_output=True, text=True,
                          check=True).stdout.split()


BAR = ["-n", "2", "--", "sh", "-c", "printf 'at 10%%\\r'; printf '\\rat 20%%\\r\\r'; echo done $RANK"]


class Completion(unittest.TestCase):
    def test_commands_and_options_that_may_follow(self):
        self.assertEqual(completed("tr"), ["train"])
        self.assertEqual(completed("train", "mnist", "--epo"), ["--epochs"])
        self.assertEqual(completed("run", "-n", "2", "--master-p"), ["--master-port"])
        self.assertEqual(completed("data", "f"), ["fetch"])
        self.assertEqual(completed("nonsense", "l"), ["lab"])

    def test_the_command_line_of_another_program_is_its_own(self):
        self.assertEqual(completed("run", "--", "tr"), [])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        for how in ('autoload -U compinit; compinit -D -u; . <("$0" completion zsh); print $_comps[tutti]',
                    '"$0" completion zsh > $1/_tutti; fpath=($1 $fpath); autoload -U compinit; compinit -D -u; print $_comps[tutti]'):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(["zsh", "-fc", how, TUTTI, folder], capture_output=True, text=True)
                self.assertEqual((done.stdout, done.stderr), ("_tutti\n", ""))

    def test_the_manual_page_has_every_command(self):
        page = subprocess.run([TUTTI, "completion", "man"], capture_output=True, text=True, check=True).stdout
        for part in (".TH TUTTI 1 ", ".SS tutti train mercer\n", ".SS tutti data fetch\n", "\\fB\\-\\-nnodes\\fR \\fITEXT"):
            self.assertIn(part, page)
        self.assertNotIn("INT:INT", page)


class Terminal(unittest.TestCase):
    def test_a_line_that_ends_in_a_return_is_replaced_by_the_next(self):
        status, screen = on_terminal("run", *BAR)
        self.assertEqual(status, 0)
        self.assertEqual(sorted(line for line in screen.lines if line.startswith("[")), ["[rank 0] done 0", "[rank 1] done 1"])
        self.assertIn("[rank 0] at 20%", screen.states)

    def test_in_a_pipe_it_is_a_line(self):
        done = subprocess.run([TUTTI, "run", *BAR], capture_output=True, check=True, text=True)
        expected = [f"[rank {rank}] {what}" for rank in (0, 1) for what in ("at 10%", "at 20%", f"done {rank}")]
        self.assertEqual(sorted(done.stdout.splitlines()), expected)

    def test_a_training_shows_its_step_and_the_time_left(self):
        with tempfile.TemporaryDirectory() as folder:
            for ranks in ("1", "2"):
                with self.subTest(ranks=ranks):
                    words = ["train", "mnist", "--batch-size", "100", "--epochs", "1", "--nproc", ranks, "--threads", "1",
                             "--chaos", "delay:rank=0,ms=10"]  # a second at least, on any machine
                    status, screen = on_terminal(*words, cwd=folder)
                    self.assertEqual(status, 0, screen.lines)
                    steps = [state for state in screen.states if re.match(r"epoch 1/1  step \d+/\d+  loss \d+\.\d+", state)]
                    self.assertGreater(len(steps), 1, screen.states)
                    self.assertRegex(steps[-1], r"  \d+ (s|min) left$")
                    self.assertLess(max(map(len, steps)), COLUMNS)
                    self.assertFalse([line for line in screen.lines if "step" in line and "left" in line], "left on the screen")
                    longest = [line for line in screen.lines if len(line) > COLUMNS]
                    self.assertEqual([line for line in longest if len(line.split()) > 1], [], "broken inside a word")
                    matrix = screen.lines[screen.lines.index("  actual    right  taken for") :][1:11]
                    self.assertTrue(all(re.fullmatch(r" +\d +[\d.]+ %(  \d \(\d+ times?\))?", row) for row in matrix), matrix)

    def test_a_bench_shows_its_step_and_nothing_of_it_in_a_pipe(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                words = ["bench", "all_reduce", "-n", ranks, "--max-bytes", "64", "--iterations", "5"]
                status, screen = on_terminal(*words)
                self.assertEqual(status, 0, screen.lines)
                steps = [state for state in screen.states if re.match(r"all_reduce \d+ B  step \d/3", state)]
                self.assertEqual([step[:22] for step in steps], ["all_reduce 4 B  step 1", "all_reduce 16 B  step ", "all_reduce 64 B  step "])
                self.assertFalse([line for line in screen.lines if "step" in line], "left on the screen")
                piped = subprocess.run([TUTTI, *words], capture_output=True, check=True, text=True)
                self.assertNotIn("step", piped.stdout + piped.stderr)

    def test_help_is_as_wide_as_the_terminal(self):
        for command in ("", "run", "train mnist", "train mercer", "bench", "plan", "doctor", "lab show"):
            for columns in (60, 80, 200):
                with self.subTest(command=command, columns=columns):
                    status, screen = on_terminal(*command.split(), "--help", columns=columns)
                    self.assertEqual(status, 0)
                    widest = [line for line in screen.lines if len(line) > min(columns, 100)]
                    # A name of an option that is longer than the screen cannot be broken.
                    self.assertEqual([line for line in widest if not line.startswith("  -")], [])
                    piped = subprocess.run([TUTTI, *command.split(), "--help"], capture_output=True, check=True, text=True)
                    self.assertEqual(" ".join(screen.lines).split(), piped.stdout.split(), "the same words")

    def test_help_of_run_names_the_program_and_groups_options(self):
        _, screen = on_terminal("run", "--help")
        self.assertIn("Usage: tutti run [OPTIONS] [--] PROGRAM [ARGUMENTS...]", screen.lines)
        for group, option in (("Several nodes:", "--nnodes"), ("Output:", "--log-dir"), ("Program:", "--stdin")):
            following = screen.lines[screen.lines.index(group) + 1 :]
            self.assertTrue(any(option in line for line in following[: (following + [""]).index("")]), group)
        self.assertNotIn(["", ""], [screen.lines[i : i + 2] for i in range(len(screen.lines) - 2)], "two empty lines")


if __name__ == "__main__":
    unittest.main(verbosity=2)
