"""bench/peers/compare, with programs in the place of Tutti, Open MPI and the compiler that answer at once."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMPARE = pathlib.Path(__file__).resolve().parents[2] / "bench/peers/compare"

# Writes what `tutti bench --json FILE` writes: 10 us for everything.
TUTTI = """#!/bin/sh
while [ "$1" != --json ]; do shift; done
echo '{"results": [{"time_us": {"median": 10.0}}]}' > "$2"
"""
# The compiler's product is never run: mpirun answers in its place, 25 us for everything.
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo > "$2"
"""
MPIRUN = """#!/bin/sh
echo all_reduce 2 4 25.0
"""
# A compiler whose product tells distances from a list, and then 60 for ever.
DISTANCES = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
cat > "$2" << 'EOF'
#!/bin/sh
list=$(dirname "$0")/../distances
head -n 1 "$list" | grep . || echo 60
sed -i 1d "$list"
EOF
chmod +x "$2"
"""
BROKEN = """#!/bin/sh
echo "no slots" >&2
exit 3
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("tutti", TUTTI)
        self.program("mpicxx.openmpi", COMPILER)
        self.program("mpirun.openmpi", MPIRUN)

    def program(self, name, text):
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o755)

    def compare(self, *words):
        command = [sys.executable, str(COMPARE), "--tutti", str(self.folder / "tutti"), "--build-dir",
                   str(self.folder / "build"), "--peers", "openmpi-tcp", "--rounds", "2", *words]
        environment = {**os.environ, "PATH": f"{self.folder}:/usr/bin:/bin"}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def test_near_takes_only_runs_between_two_short_distances(self):
        self.program("c++", DISTANCES)
        self.program("tutti", TUTTI + f"echo run >> {self.folder}/runs\n")
        calibration = ["70"] * 19 + ["60"]
        first = ["300", "60", "300", "60", "61"]  # not begun, not counted, counted
        (self.folder / "distances").write_text("\n".join(calibration + first) + "\n")
        run = self.compare("--ops", "all_reduce", "--bytes", "4", "--ranks", "2", "--near", "--rounds", "1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("less than 90 ns", run.stdout)
        self.assertEqual((self.folder / "runs").read_text(), "run\nrun\n")

    def test_a_cell_shows_both_times_and_theirs_over_ours(self):
        file = self.folder / "cells.json"
        run = self.compare("--ops", "all_reduce", "--bytes", "4,1K", "--ranks", "2", "--json", str(file))
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = [line.split() for line in run.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual([row[:6] for row in rows], [["all_reduce", "2", "4", "10.00", "25.00", "2.50"],
                                                     ["all_reduce", "2", "1024", "10.00", "25.00", "2.50"]])
        cell = json.loads(file.read_text())["cells"][0]
        self.assertEqual((cell["op"], cell["ranks"], cell["bytes"], cell["tutti_us"]), ("all_reduce", 2, 4, 10.0))
        self.assertEqual(cell["peers"]["openmpi-tcp"], {"us": 25.0, "ratio": 2.5})

    def test_fresh_data_is_asked_of_both_sides(self):
        note = f'#!/bin/sh\necho "$0 $*" >> {self.folder}/calls\n'
        self.program("tutti", TUTTI.replace("#!/bin/sh\n", note))
        self.program("mpirun.openmpi", MPIRUN.replace("#!/bin/sh\n", note))
        for words, fresh in (((), []), (("--fresh",), ["tutti", "mpirun.openmpi"])):
            (self.folder / "calls").write_text("")
            run = self.compare("--ops", "all_reduce", "--bytes", "4", "--ranks", "2", "--rounds", "1", *words)
            self.assertEqual(run.returncode, 0, run.stderr)
            calls = [line.split() for line in (self.folder / "calls").read_text().splitlines()]
            self.assertEqual(len(calls), 2)
            asked = [call for call in calls if "--fresh" in call or call[-3:] == ["4", "float32", "fresh"]]
            self.assertEqual([pathlib.Path(call[0]).name for call in asked], fresh)
            self.assertEqual("anew" in run.stdout, bool(fresh))

    def test_a_type_is_asked_of_both_sides(self):
        note = f'#!/bin/sh\necho "$*" >> {self.folder}/calls\n'
        self.program("tutti", TUTTI.replace("#!/bin/sh\n", note))
        self.program("mpirun.openmpi", MPIRUN.replace("#!/bin/sh\n", note))
        run = self.compare("--ops", "all_reduce", "--bytes", "4", "--ranks", "2", "--rounds", "1", "--dtype", "int64")
        self.assertEqual(run.returncode, 0, run.stderr)
        ours, theirs = (self.folder / "calls").read_text().splitlines()
        self.assertIn("--dtype int64", ours)
        self.assertTrue(theirs.endswith(" 4 int64"), theirs)
        self.assertIn("; int64; ", run.stdout)

    def test_a_barrier_has_one_size(self):
        run = self.compare("--ops", "barrier", "--bytes", "4,1K", "--ranks", "2,4")
        rows = [line.split()[:3] for line in run.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual(rows, [["barrier", "2", "0"], ["barrier", "4", "0"]])

    def test_a_peer_that_is_not_installed_is_named(self):
        (self.folder / "mpirun.openmpi").unlink()
        self.program("mpicxx.openmpi", COMPILER)
        environment = {**os.environ, "PATH": str(self.folder)}
        run = subprocess.run([sys.executable, str(COMPARE), "--tutti", str(self.folder / "tutti"), "--build-dir",
                              str(self.folder / "build"), "--peers", "openmpi-tcp", "--ops", "barrier", "--ranks", "2"],
                             capture_output=True, text=True, env=environment, check=False)
        self.assertIn("# openmpi-tcp: left out, mpirun.openmpi is not installed", run.stdout)

    def test_a_peer_that_fails_is_told_of_and_the_others_go_on(self):
        self.program("mpirun.openmpi", BROKEN)
        run = self.compare("--ops", "all_reduce", "--bytes", "4", "--ranks", "2")
        self.assertEqual(run.returncode, 1)
        self.assertIn("openmpi-tcp, all_reduce of 4 B on 2 ranks: status 3", run.stderr)
        self.assertIn("no slots", run.stderr)
        self.assertIn("10.00", run.stdout)

    def test_a_peer_that_hangs_is_ended_with_what_it_started(self):
        self.program("mpirun.openmpi", f"#!/bin/sh\nsleep 100 &\necho $! > {self.folder}/pid\nwait\n")
        run = self.compare("--ops", "all_reduce", "--bytes", "4", "--ranks", "2", "--limit", "1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no end after 1 s", run.stderr)
        status = pathlib.Path("/proc", (self.folder / "pid").read_text().strip(), "stat")
        # Ended: gone, or a zombie whose new parent has not looked yet.
        self.assertTrue(not status.exists() or status.read_text().split()[2] in "ZX")

    def test_wrong_usage_is_status_2(self):
        for words in (["--ops", "all_reduc"], ["--bytes", "4X"], ["--ranks", "1"], ["--rounds", "0"],
                      ["--dtype", "float"]):
            run = self.compare(*words)
            self.assertEqual(run.returncode, 2, words)
            self.assertIn("error: argument", run.stderr)

    def test_a_missing_program_of_ours_is_said(self):
        (self.folder / "tutti").unlink()
        run = self.compare("--ops", "all_reduce")
        self.assertEqual(run.returncode, 1)
        self.assertIn("does not exist; build the release preset", run.stderr)


if __name__ == "__main__":
    unittest.main()
