"""An ordinary DistributedDataParallel script under `tutti run`: by default, and with the store of its own.

usage: torch_ddp_test.py TUTTI MNIST_FOLDER      exit status 77: PyTorch is not installed
"""
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import torch.distributed  # noqa: F401
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/examples/python/ddp_mnist.py"


class TorchUnderTutti(unittest.TestCase):
    def run_script(self, store, *options, ranks=2):
        folder = MNIST if (pathlib.Path(MNIST) / "train-images-idx3-ubyte.gz").exists() else ""
        run = subprocess.run(
            [TUTTI, "run", "-n", str(ranks), *options, "--no-label", "--", sys.executable, str(SCRIPT), "--data", folder, "--steps", "60"],
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = sorted(line for line in run.stdout.splitlines() if line.startswith("rank "))
        self.assertEqual(len(lines), ranks, run.stdout)
        for rank, line in enumerate(lines):
            found = re.fullmatch(rf"rank {rank}/{ranks} loss ([\d.]+) -> ([\d.]+) equal {store} accuracy [\d.]+", line)
            self.assertTrue(found, line)
            self.assertLess(float(found.group(2)), 0.8 * float(found.group(1)), line)

    def test_with_a_store_of_its_own(self):
        self.run_script("own store", "--no-store")

    def test_with_the_launchers_store(self):
        self.run_script("agent store")

    def test_on_two_nodes(self):
        self.run_script("agent store", "-H", "a:1,b:1", "--rsh", "sh -c 'eval \"$1\"'")

    def test_elastic(self):
        self.run_script("agent store", "--elastic", "--max-restarts", "1")


if __name__ == "__main__":
    MNIST = sys.argv.pop(2)
    TUTTI = sys.argv.pop(1)
    unittest.main()
