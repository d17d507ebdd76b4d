#!/usr/bin/env python3
"""One training step of each model in PyTorch, as bench/step_bench.cc does it in Tutti. Needs torch; torchvision is not used.

    torch_step.py [--threads N] [--seconds S] [--device cuda] [--tf32] [--bf16] [--channels-last] [--every K] [MODEL[:BATCH] ...]

--tf32, --bf16: arithmetic of products (bf16: autocast). --channels-last also lets cuDNN try its algorithms. The loss is read every K
steps. Prints for each model: "torch MODEL BATCH THREADS MILLISECONDS PARAMETERS PEAK_MIB".
"""

import argparse
import resource
import statistics
import time

import torch
from torch import nn


class Residual(nn.Module):
    """A main path, a shortcut, and a ReLU over their sum."""

    def __init__(self, main, shortcut):
        super().__init__()
        self.main, self.shortcut = main, shortcut

    def forward(self, x):
        return torch.relu(self.main(x) + self.shortcut(x))


def conv_norm(inputs, outputs, kernel, stride=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


def block(inputs, width, stride, bottleneck):
    outputs = width * 4 if bottleneck else width
    if bottleneck:
        main = [*conv_norm(inputs, width, 1), nn.ReLU(), *conv_norm(width, width, 3, stride), nn.ReLU(),
                *conv_norm(width, outputs, 1)]
    else:
        main = [*conv_norm(inputs, width, 3, stride), nn.ReLU(), *conv_norm(width, width, 3)]
    same = stride == 1 and inputs == outputs
    shortcut = nn.Identity() if same else nn.Sequential(*conv_norm(inputs, outputs, 1, stride))
    return Residual(nn.Sequential(*main), shortcut)


def resnet(counts, bottleneck):
    layers = [*conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(counts):
        for position in range(count):
            width = 64 * 2**stage
            layers.append(block(inputs, width, 2 if stage > 0 and position == 0 else 1, bottleneck))
            inputs = width * 4 if bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 21))


def dense(widths, relu_at_end=False):
    layers = [nn.Flatten()]
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers if relu_at_end else layers[:-1]))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


DIGITS, SCENES = (1, 28, 28), (3, 64, 64)
MODELS = {  # model, batch, shape of a sample, classes (0: the input is the target), Adam or else SGD
    "mlp": (lambda: dense([784, 50, 10]), 64, DIGITS, 10, True),
    "autoencoder": (lambda: dense([784, 128, 128, 128, 784], True), 128, DIGITS, 0, True),
    "simple_net": (lambda: dense([12288, 512, 128, 64, 32, 21]), 32, SCENES, 21, False),
    "cnn": (cnn, 64, DIGITS, 10, True),
    "resnet18": (lambda: resnet([2, 2, 2, 2], False), 32, SCENES, 21, False),
    "resnet50": (lambda: resnet([3, 4, 6, 3], True), 16, SCENES, 21, False),
    "resnet101": (lambda: resnet([3, 4, 23, 3], True), 4, SCENES, 21, False),
}


def median_milliseconds(step, seconds, every):
    for _ in range(2):
        step().item()
    times = []
    start = time.perf_counter()
    while len(times) < 4 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        for _ in range(every):
            loss = step()
        loss.item()
        times.append((time.perf_counter() - before) * 1e3 / every)
    return statistics.median(times)


def run(name, own_batch, options):
    make, batch, shape, classes, adam = MODELS[name]
    batch = int(own_batch or batch)
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = make().to(options.device, memory_format=layout)
    optimizer = torch.optim.Adam(model.parameters()) if adam else torch.optim.SGD(model.parameters(), 0.01)
    x = torch.rand(batch, *shape).to(options.device, memory_format=layout)
    y = torch.randint(0, classes, (batch,)).to(options.device) if classes else x.flatten(1)
    loss_of = nn.CrossEntropyLoss() if classes else nn.MSELoss()

    def step():
        optimizer.zero_grad()
        with torch.autocast(options.device.partition(":")[0], torch.bfloat16, enabled=options.bf16):
            loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    milliseconds = median_milliseconds(step, options.seconds, options.every)
    parameters = sum(p.numel() for p in model.parameters())
    on_gpu = options.device != "cpu"
    peak = torch.cuda.max_memory_reserved() >> 20 if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print("torch", name, batch, options.threads, f"{milliseconds:.3f}", parameters, peak, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=1)
    for flag in ("--tf32", "--bf16", "--channels-last"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all by default")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cudnn.benchmark = options.channels_last
    for word in options.models or MODELS:
        name, _, batch = word.partition(":")
        if name not in MODELS:
            parser.error(f"there is no model {name}")
        run(name, batch, options)


if __name__ == "__main__":
    main()
