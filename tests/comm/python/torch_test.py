#!/usr/bin/env python3
"""The backend "tutti" of torch.distributed: torch_rank.py on several ranks, started in the ways that people start them.

    torch_test.py TUTTI LIBRARY [TEST]...

Needs torch 2.15 or later in the Python that runs it; ends with 77, which ctest counts as skipped, without. PyTorch's own tests
of backends are torch_suite.py's.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 15):
    print("skipped: torch", torch.__version__, "is older than 2.15")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "comm" / "python"
RANK = str(HERE / "torch_rank.py")
EXAMPLE = HERE.parents[2] / "tools" / "examples" / "python" / "ddp_mnist.py"
LIMIT_S = 120


class Installed(unittest.TestCase):
    """The package as PyTorch finds it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # What pip writes for the package, so that PyTorch finds it by name.
        info = self.folder / "tutti-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tutti\nVersion: 0\n")
        (info / "entry_points.txt").write_text("[torch.distributed.backends]\ntutti = tutti.torch:register\n")
        self.environment = {**os.environ, "PYTHONPATH": f"{PACKAGE}:{folder.name}", "PYTHONDONTWRITEBYTECODE": "1",
                            "TUTTI_C_LIBRARY": LIBRARY, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        for name in ("TUTTI_JOB_SECRET", "OPENBLAS_CORETYPE"):
            self.environment.pop(name, None)


class Backend(Installed):
    def by_file(self, case, size, backend="tutti", **more):
        """Plain processes that meet in a file. Returns (status, output) of each."""
        place = {**self.environment, "INIT_METHOD": f"file://{self.folder}/{case}{backend}", "WORLD_SIZE": str(size), **more}
        ranks = [subprocess.Popen([sys.executable, RANK, case, backend], env={**place, "RANK": str(rank)}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(size)]
        try:
            return [(rank.returncode, out, err) for rank in ranks for out, err in [rank.communicate(timeout=LIMIT_S)]]
        finally:
            for rank in ranks:
                rank.kill()

    def all_done(self, ranks):
        for status, out, err in ranks:
            self.assertEqual(status, 0, out + err)
            self.assertTrue(out.endswith("done\n"), out + err)

    def start(self, *command):
        run = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(run.stdout.count("done"), 2, run.stdout)

    def test_one_tensor_a_rank(self):
        self.all_done(self.by_file("whole", 3))

    def test_a_block_for_each_rank(self):
        self.all_done(self.by_file("blocks", 3))

    def test_work_in_the_background(self):
        self.all_done(self.by_file("started", 3))

    def test_threads(self):
        self.all_done(self.by_file("threaded", 2))

    def test_groups_that_are_left_open(self):
        for _ in range(3):
            ranks = self.by_file("left", 2)
            self.all_done(ranks)
            self.assertNotIn("timed out", ranks[0][2] + ranks[1][2])

    def test_beside_another_backend(self):
        self.all_done(self.by_file("beside", 2))

    def test_wrong_arguments(self):
        self.all_done(self.by_file("refusals", 2))

    def test_data_parallel_with_a_hook_and_unused_parameters(self):
        self.all_done(self.by_file("hooked", 2))

    def test_encrypted_over_tcp_in_detail(self):
        self.all_done(self.by_file("blocks", 2, TUTTI_ENCRYPT="1", TUTTI_TRANSPORT="tcp", TORCH_DISTRIBUTED_DEBUG="DETAIL"))

    def test_under_tutti_run(self):
        self.start(TUTTI, "run", "-n", "2", "--no-label", "--", sys.executable, RANK, "started", "tutti")

    def test_under_torchrun(self):
        self.start(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                   "--rdzv-endpoint", "127.0.0.1:0", RANK, "started", "tutti")

    def test_a_killed_rank_is_named_within_two_seconds(self):
        *survivors, last = self.by_file("killed", 3)
        self.assertEqual(last[0], -9)
        for status, out, err in survivors:
            found = re.search(r"after ([\d.]+) s: .*\brank 2\b", out)
            self.assertTrue(found, out + err)
            self.assertLess(float(found[1]), 2.0)

    def test_another_operation_is_named(self):
        ranks = self.by_file("differs", 3)
        self.all_done(ranks)
        for _, out, err in ranks:
            self.assertRegex(out, r"rank \d called all_reduce .*rank 1 .*called all_gather|"
                                  r"rank 1 called all_gather .*rank \d .*called all_reduce", err)

    def test_time_outs_name_who_is_late(self):
        first, second, third = self.by_file("late", 3)
        self.assertIn("late", second[1])
        self.assertIn("Rank 1 failed to pass monitoredBarrier", first[1], first[2])
        self.assertIn("Rank 1 failed to pass monitoredBarrier", third[1], third[2])
        for _, out, err in (first, third):
            found = re.search(r"after ([\d.]+) s: (.*)", out)
            self.assertTrue(found, out + err)
            self.assertLess(float(found[1]), 3)
            self.assertIn("rank", found[2])

    def test_sharded_training_has_the_losses_of_gloo(self):
        for (_, ours, err), (_, theirs, _) in zip(self.by_file("sharded", 2), self.by_file("sharded", 2, backend="gloo")):
            self.assertTrue(ours.endswith("done\n"), err)
            self.assertEqual(ours, theirs)

    def test_a_ddp_script_reaches_the_same_with_both_backends(self):
        script = [sys.executable, str(EXAMPLE), "--steps", "60"]
        launchers = [[TUTTI, "run", "-n", "2", "--no-label", "--"],
                     [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]]
        reached = set()
        for launcher in launchers:
            for backend in ("gloo", "tutti"):
                run = subprocess.run([*launcher, *script, "--backend", backend], env=self.environment, capture_output=True,
                                     text=True, timeout=LIMIT_S, check=False)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                reached.update(re.findall(r"accuracy ([\d.]+)", run.stdout))
        self.assertEqual(len(reached), 1, reached)


class Suite(Installed):
    """torch_suite.py with two ranks."""

    def run_suite(self, **names):
        try:
            import expecttest, pytest  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        place = {**self.environment, "PYTHONPATH": f"{HERE}:{self.environment['PYTHONPATH']}", "WORLD_SIZE": "2", **names}
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "torch_suite.py")],
                             env=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(run.stdout.rstrip().splitlines()[-1])
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertGreaterEqual(int(re.search(r"(\d+) passed", run.stdout)[1]), 66)

    def test_tutti(self):
        self.run_suite(BACKEND="tutti")

    def test_as_gloo(self):
        self.run_suite(AS_GLOO="1")


if __name__ == "__main__":
    TUTTI, LIBRARY = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
