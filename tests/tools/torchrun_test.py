"""Ranks of Tutti that PyTorch's torchrun has started: its agent holds MASTER_PORT, so they meet in a file.

usage: torchrun_test.py TUTTI      exit status 77: PyTorch is not installed, or older than 2.1
"""
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 1):
    print("skipped: the store of PyTorch", torch.__version__, "speaks another protocol")
    sys.exit(77)

# The first start of the workers fails after their group has formed: rank 1 ends, torchrun starts both again.
FAIL_ONCE = '"$0" bench barrier --iterations 3 && exit $((RANK * (1 - TORCHELASTIC_RESTART_COUNT)))'


class UnderTorchrun(unittest.TestCase):
    def run_workers(self, *command, options=()):
        with tempfile.TemporaryDirectory() as home:
            run = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
                + ["--rdzv-endpoint", "127.0.0.1:0", *options, "--no-python", *command],
                capture_output=True,
                text=True,
                timeout=100,
                env={**os.environ, "HOME": home},
            )
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        return run

    def test_ranks_meet(self):
        run = self.run_workers(TUTTI, "bench", "all_reduce", "--max-bytes", "64", "--iterations", "3")
        self.assertIn("ranks 2", run.stdout)

    def test_ranks_meet_again_after_a_restart(self):
        self.run_workers("sh", "-c", FAIL_ONCE, TUTTI, options=["--max-restarts", "1"])


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    unittest.main()
