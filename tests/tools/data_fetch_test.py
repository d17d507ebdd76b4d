"""`tutti data fetch mnist` from servers that fail, stall, lie and break off. Usage: data_fetch_test.py TUTTI MNIST_FOLDER

Without the folder of the real files only what ends in an error is tried."""

import collections
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

MNIST = pathlib.Path(sys.argv.pop(2))
TUTTI = os.path.abspath(sys.argv.pop(1))
NAMES = [f"{kind}.gz" for kind in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                   "t10k-labels-idx1-ubyte")]
FIRST = NAMES[0]
needs_mnist = unittest.skipUnless(MNIST.is_dir(), f"{MNIST} is not there")


class Handler(http.server.BaseHTTPRequestHandler):
    """The first part of the path says how the server behaves."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        manner, name = self.path.strip("/").split("/")
        self.server.asked[manner, name, self.headers.get("Range")] += 1
        getattr(self, manner)(name)

    def answer(self, status, body, length=None, **headers):
        self.send_response(status)
        for key, value in {"Content-Length": len(body) if length is None else length, **headers}.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def good(self, name):
        body = (MNIST / name).read_bytes()
        wanted = self.headers.get("Range")
        if wanted is None:
            return self.answer(200, body)
        first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if first >= len(body):
            return self.answer(416, b"", Content_Range=f"bytes */{len(body)}")
        return self.answer(206, body[first:], Content_Range=f"bytes {first}-{len(body) - 1}/{len(body)}")

    def without_ranges(self, name):
        self.answer(200, (MNIST / name).read_bytes())

    def missing(self, name):
        self.answer(404, b"no such file")

    def lies(self, name):
        self.answer(200, b"<html>Please log in</html>")

    def breaks(self, name):
        body = (MNIST / name).read_bytes() if MNIST.is_dir() else bytes(5000)
        self.answer(200, body[:len(body) // 2], length=len(body))
        self.close_connection = True

    def stalls(self, name):
        self.answer(200, b"a few", length=10000)
        self.server.over.wait()
        self.close_connection = True

    def endless(self, name):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 20))
        except OSError:
            self.close_connection = True

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # a client that went away


class Fetch(unittest.TestCase):
    def setUp(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.asked = collections.Counter()
        self.server.over = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.server.over.set)
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def url(self, manner):
        return f"http://127.0.0.1:{self.server.server_address[1]}/{manner}"

    def fetch(self, *manners, launcher=(), to="here"):
        words = [w for manner in manners for w in ("--mirror", self.url(manner))]
        return subprocess.run([TUTTI, *launcher, "data", "fetch", "mnist", "--to", self.folder / to, "--patience", "1",
                               *words], capture_output=True, text=True, timeout=100)

    def expect_whole(self, done, to="here"):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder / to)), sorted(NAMES))
        for name in NAMES:
            self.assertEqual((self.folder / to / name).read_bytes(), (MNIST / name).read_bytes())

    def asked(self, manner, name=FIRST):
        return [range_ for (m, n, range_), count in self.server.asked.items() for _ in range(count) if (m, n) == (manner, name)]

    def test_each_server_and_what_was_wrong_with_it_is_named(self):
        done = self.fetch("missing", "lies", "stalls", "breaks", "endless")
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()
        self.assertEqual(lines[0], f"tutti data fetch: no server has {FIRST}, name another with --mirror, or copy the file "
                                   f"into {self.folder}/here:")
        for line, manner, why in zip(lines[1:], ("missing", "lies", "stalls", "breaks", "endless"), (
                "404", "what it sends is not the published file (md5 ", "too slow", "bytes remaining", "more than MNIST has")):
            self.assertTrue(line.startswith(f"  {self.url(manner)}/{FIRST}: "), line)
            self.assertIn(why, line)
        self.assertEqual(os.listdir(self.folder / "here"), [])

    def test_a_server_that_is_not_there(self):
        done = subprocess.run([TUTTI, "data", "fetch", "mnist", "--to", self.folder, "--mirror", "http://127.0.0.1:1/"],
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Failed to connect", done.stderr)

    def test_files_of_another_set_are_left_alone(self):
        (self.folder / FIRST).write_bytes(b"mine")
        done = self.fetch("lies", to=".")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{FIRST} is there and is not the published file", done.stderr)
        self.assertEqual((self.folder / FIRST).read_bytes(), b"mine")

    @needs_mnist
    def test_what_a_server_broke_off_the_next_one_continues(self):
        self.expect_whole(self.fetch("missing", "breaks", "good"))
        half = (MNIST / FIRST).stat().st_size // 2
        self.assertEqual(self.asked("good"), [f"bytes={half}-"])
        self.assertEqual(self.server.asked["good", FIRST, None], 0)

    @needs_mnist
    def test_a_server_without_ranges_begins_anew(self):
        self.expect_whole(self.fetch("breaks", "without_ranges"))

    @needs_mnist
    def test_a_beginning_of_something_else_is_thrown_away(self):
        (self.folder / "here").mkdir()
        (self.folder / "here" / f"{FIRST}.part").write_bytes(b"not what it is")
        self.expect_whole(self.fetch("good"))
        self.assertEqual(self.asked("good"), ["bytes=14-", None])

    @needs_mnist
    def test_only_what_is_missing_is_fetched(self):
        (self.folder / "here").mkdir()
        for name in NAMES[1:]:
            shutil.copy(MNIST / name, self.folder / "here")
        self.expect_whole(self.fetch("good"))
        self.assertEqual({name for _, name, _ in self.server.asked}, {FIRST})
        self.expect_whole(self.fetch("missing"))

    @needs_mnist
    def test_of_several_ranks_one_fetches(self):
        self.expect_whole(self.fetch("good", launcher=["run", "-n", "3", TUTTI]))
        self.assertEqual(sum(self.server.asked.values()), len(NAMES))

    @needs_mnist
    def test_ranks_with_folders_of_their_own_fetch_for_themselves(self):
        script = f'"{TUTTI}" data fetch mnist --to "{self.folder}/$RANK" --mirror {self.url("good")}'
        done = subprocess.run([TUTTI, "run", "-n", "2", "sh", "-c", script], capture_output=True, text=True, timeout=100)
        for rank in ("0", "1"):
            self.expect_whole(done, to=rank)

    def test_all_ranks_hear_why_there_is_none(self):
        done = self.fetch("missing", launcher=["run", "-n", "2", TUTTI])
        self.assertEqual(done.returncode, 1)
        for rank in (0, 1):
            self.assertRegex(done.stderr, rf"\[rank {rank}\].*no server has {FIRST}")


if __name__ == "__main__":
    unittest.main()
