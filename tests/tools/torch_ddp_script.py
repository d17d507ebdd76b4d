"""An ordinary torchrun script: it knows of no launcher but through env://.

The course's classifier (784-50-10, Adam 1e-3, 64 samples a rank and step) with DistributedDataParallel over gloo, on MNIST if a
folder with its files is given, else on numbers that a fixed rule labels. Prints one line a rank.

usage: torchrun --nproc-per-node 2 torch_ddp_script.py [MNIST_FOLDER] [STEPS]
"""
import datetime
import gzip
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def idx_file(path):
    """The numbers of one MNIST file, in its shape."""
    content = bytearray(gzip.open(path).read())
    dimensions = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(content[3])]
    return torch.frombuffer(content[4 + 4 * len(dimensions) :], dtype=torch.uint8).reshape(dimensions)


def mnist(folder):
    folder = pathlib.Path(folder)
    images = idx_file(folder / "train-images-idx3-ubyte.gz").float() / 255
    return TensorDataset(images, idx_file(folder / "train-labels-idx1-ubyte.gz").long())


def made_up():
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(8192, 28, 28, generator=generator)
    rule = torch.randn(784, 10, generator=generator)
    return TensorDataset(images, (images.flatten(1) @ rule).argmax(1))


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=90))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # DistributedDataParallel must make the models equal
    torch.set_num_threads(1)
    dataset = mnist(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else made_up()
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    sampler = DistributedSampler(dataset)
    losses = []
    while len(losses) < steps:
        sampler.set_epoch(len(losses))
        for images, labels in DataLoader(dataset, batch_size=64, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    total = sum(parameter.detach().double().sum() for parameter in model.parameters())
    sums = [torch.zeros_like(total) for _ in range(world_size)]
    dist.all_gather(sums, total)
    dist.barrier()
    print(
        f"rank {rank}/{world_size} loss {sum(losses[:10]) / 10:.3f} -> {sum(losses[-10:]) / 10:.3f}",
        "equal" if all(torch.equal(one, total) for one in sums) else "DIFFERENT",
        "agent store" if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else "own store",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
