"""PyTorch's own tests of its CPU backends, as the torch wheel brings them, over this backend. A module for pytest, which each rank
of each test imports again.

    BACKEND=tutti WORLD_SIZE=2 python -m pytest torch_suite.py        under its own name
    BACKEND=gloo  WORLD_SIZE=2 python -m pytest torch_suite.py        PyTorch's gloo, to compare with
    AS_GLOO=1     WORLD_SIZE=2 python -m pytest torch_suite.py        Tutti under the name gloo: what PyTorch tests with gloo alone

Needs torch 2.15, numpy, pytest and expecttest, and the package tutti. What needs GPUs or a larger world is skipped before
processes start for it. A test takes about 6 s: its ranks import torch.
"""

import os
import unittest

AS_GLOO = bool(os.environ.get("AS_GLOO"))
if AS_GLOO:
    os.environ["BACKEND"] = "gloo"
BACKEND = os.environ.setdefault("BACKEND", "tutti")
WORLD_SIZE = int(os.environ.setdefault("WORLD_SIZE", "2"))
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

if BACKEND == "tutti" or AS_GLOO:
    import tutti.torch

    tutti.torch.register(BACKEND)

from torch.testing._internal import common_distributed

# PyTorch's decorators read these when its test module is imported.
for known in ("plugin", "gpu", "ddp", "subgroup"):
    common_distributed.DistTestCases.backend_feature.setdefault(known, set()).add(BACKEND)
_needs_gpus = unittest.skip("needs a GPU for each rank")
common_distributed.skip_if_no_gpu = _needs_gpus
common_distributed.skip_if_lt_x_gpu = lambda count, *, allow_cpu=False: (lambda test: test) if allow_cpu else _needs_gpus
if WORLD_SIZE < 8:
    common_distributed.skip_if_small_worldsize = unittest.skip("needs 8 ranks")

from torch.testing._internal.distributed import distributed_test


class TorchSuite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        if AS_GLOO and self._testMethodName == "test_ddp_logging_data_cpu":
            self.skipTest("asks gloo's own object for its threads and interface")
        self._spawn_processes()

    def _barrier(self, *args, **kwargs):
        """Every test comes by here: its group must be of the backend that is to be tested."""
        import torch

        if torch.distributed.is_initialized():
            group = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
            ours = type(group).__module__.startswith("tutti.")
            assert ours == (BACKEND == "tutti" or AS_GLOO), f"the group is {type(group)}"
        return super()._barrier(*args, **kwargs)
