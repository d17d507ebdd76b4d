"""A short training run with --run-dir, for checks of what it leaves by programs that are not ours."""

import os
import random
import struct
import subprocess


def write_small_mnist(folder, train=480, test=100):
    """Pictures of noise in MNIST's files."""
    os.makedirs(folder)
    noise = random.Random(0)
    for name, count in (("train", train), ("t10k", test)):
        with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">4I", 0x803, count, 28, 28) + noise.randbytes(count * 784))
        with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">2I", 0x801, count) + bytes(noise.randrange(10) for _ in range(count)))


def train(tutti, data, run_dir, *options):
    command = [tutti, "train", "mnist", "--data", data, "--run-dir", run_dir, "--nproc", "2", "--threads", "1",
               "--batch-size", "16", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=100)
