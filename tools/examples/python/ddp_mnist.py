"""An ordinary DistributedDataParallel script: it knows of no launcher but through env://, and of its backend by name.

The course's classifier (784-50-10, Adam 1e-3, 64 samples a rank and step) on MNIST if a folder with its files is given, else
on numbers that a fixed rule labels. Prints one line a rank.

    torchrun --nproc-per-node 2 ddp_mnist.py --backend tutti --data MNIST_FOLDER
    tutti run -n 2 -- python3 ddp_mnist.py --backend tutti --data MNIST_FOLDER
"""

import argparse
import datetime
import gzip
import os
import pathlib

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


def mnist(folder, which):
    folder = pathlib.Path(folder)
    images = idx_file(folder / f"{which}-images-idx3-ubyte.gz").float() / 255
    return TensorDataset(images, idx_file(folder / f"{which}-labels-idx1-ubyte.gz").long())


def made_up(count):
    generator = torch.Generator().manual_seed(1)
    rule = torch.randn(784, 10, generator=generator)
    images = torch.rand(count, 28, 28, generator=generator)
    return TensorDataset(images, (images.flatten(1) @ rule).argmax(1))


def accuracy(model, dataset, rank, world_size):
    """Of all ranks together: each tests a part."""
    images, labels = (tensor[rank::world_size] for tensor in dataset.tensors)
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum()
    counts = torch.stack([right, torch.tensor(len(labels))]).double()
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", help="gloo or tutti")
    parser.add_argument("--data", metavar="MNIST_FOLDER", default="")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    dist.init_process_group(options.backend, timeout=datetime.timedelta(seconds=90))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # DistributedDataParallel must make the models equal
    torch.set_num_threads(1)
    train = mnist(options.data, "train") if options.data else made_up(8192)
    test = mnist(options.data, "t10k") if options.data else made_up(2048)
    model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    sampler = DistributedSampler(train)
    losses = []
    while len(losses) < options.steps:
        sampler.set_epoch(len(losses))
        for images, labels in DataLoader(train, batch_size=64, sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == options.steps:
                break
    total = sum(parameter.detach().double().sum() for parameter in model.parameters())
    sums = [torch.zeros_like(total) for _ in range(world_size)]
    dist.all_gather(sums, total)
    print(
        f"rank {rank}/{world_size} loss {sum(losses[:10]) / 10:.3f} -> {sum(losses[-10:]) / 10:.3f}",
        "equal" if all(torch.equal(one, total) for one in sums) else "DIFFERENT",
        "agent store" if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else "own store",
        f"accuracy {accuracy(model, test, rank, world_size):.4f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
