#!/usr/bin/env python3
"""Writes model_<name>.txt, the golden values of tests/nn/model_golden_test.cc, from PyTorch (made with 1.13).

Usage: make_model_goldens.py [FOLDER [MODEL...]]     (default: the folder of this script, all models)

Weights and inputs come from a formula (`keyed`) that the test repeats, so that the files hold results only:
  initial:<parameter>    first, middle and last value after torch.manual_seed(0) and construction; parameters of rank > 1
  logits, loss           training mode (efficientnet_b0: evaluation, so that nothing is drawn), in float64
  gradient:<parameter>   Euclidean norm, and the scalar products with two vectors of signs from the formula
  buffer:<name>          of running statistics afterwards: norm and the same products
  evaluation             logits in evaluation mode after that one forward pass
"""
import pathlib
import sys

import numpy
import torch

from reference_models import MODELS

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
if FOLDER.is_file():
    FOLDER = FOLDER.parent
INPUT_KEY, SIGN_KEYS = 100000, (200000, 200001)


def bits(key, count):
    """A 32-bit hash of (key, index); the mixing function is Chris Wellons' lowbias32."""
    x = (numpy.arange(count, dtype=numpy.uint64) * 0x9E3779B1 + key * 0x85EBCA77 + 1).astype(numpy.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = (x ^ (x >> numpy.uint32(shift))) * numpy.uint32(factor)
    return x


def keyed(key, count):
    """Values in [-1, 1)."""
    return (bits(key, count) >> numpy.uint32(8)) * 2.0**-23 - 1


def fill(model):
    """Normalised layers get small slopes and offsets of about 0.6, in every second channel of bn1 -0.6: so few values lie
    so close to zero that a rounding error decides whether relu lets them pass, and gradients can be compared. (With the
    usual offsets of 0 PyTorch's own float32 gradients of resnet101 are wrong by a tenth.)"""
    for key, (name, parameter) in enumerate(model.named_parameters()):
        values = keyed(key, parameter.numel())
        residual = "bn" in name or "downsample.1" in name
        if parameter.dim() > 1:
            values = values * numpy.sqrt(6.0 / (parameter.numel() / parameter.shape[0]))
        elif name.endswith("weight"):
            values = 0.25 + 0.05 * values if residual else 0.75 + 0.25 * values
        elif residual:
            values = 0.6 + 0.1 * values
            if name.endswith("bn1.bias"):
                values[1::2] *= -1
        else:
            values = 0.1 * values
        parameter.data = torch.from_numpy(values.astype(numpy.float32)).reshape(parameter.shape)


def summary(tensor):
    flat = tensor.detach().double().reshape(-1).numpy()
    signs = [1.0 - 2.0 * (bits(key, len(flat)) & 1) for key in SIGN_KEYS]
    return [numpy.linalg.norm(flat)] + [float(flat @ s) for s in signs]


def run(name, model, dtype):
    fill(model)
    model = model.to(dtype)
    model.train(name != "efficientnet_b0")
    shape = (4, 28, 28, 1) if name in ("cnn", "lenet5") else (4, 64, 64, 3)
    x = keyed(INPUT_KEY, int(numpy.prod(shape))).astype(numpy.float32).reshape(shape)
    x = torch.from_numpy(x).permute(0, 3, 1, 2).to(dtype)
    logits = model(x)
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(4))
    loss.backward()
    entries = [("logits", logits.reshape(-1)), ("loss", [loss])]
    entries += [("gradient:" + key, summary(value.grad)) for key, value in model.named_parameters()]
    if model.training:
        entries += [("buffer:" + key, summary(value)) for key, value in model.named_buffers() if "running" in key]
    with torch.no_grad():
        entries.append(("evaluation", model.eval()(x).reshape(-1)))
    return entries


def deviation(name, exact, other):
    """Largest error of `other`, as the test measures it."""
    worst = {}
    total = numpy.sqrt(sum(v[0] ** 2 for key, v in exact if key.startswith("gradient:")))
    for (key, a), (_, b) in zip(exact, other):
        a, b = [numpy.array([float(v) for v in values]) for values in (a, b)]
        kind = key.split(":")[0]
        scale = {"gradient": max(a[0], 0.1 * float(total)), "buffer": a[0]}.get(kind, abs(a).max())
        worst[kind] = max(worst.get(kind, 0), abs(a - b).max() / scale)
    print(name, "PyTorch's own float32:", {kind: f"{value:.1e}" for kind, value in worst.items()}, flush=True)


for name, make in MODELS.items():
    if sys.argv[2:] and name not in sys.argv[2:]:
        continue
    torch.manual_seed(0)
    model = make()
    initial = [("initial:" + key, [value.reshape(-1)[i] for i in (0, value.numel() // 2, -1)])
               for key, value in model.named_parameters() if value.dim() > 1]
    initial = [(key, [float(v) for v in values]) for key, values in initial]
    exact = run(name, make(), torch.float64)
    deviation(name, exact, run(name, make(), torch.float32))
    with open(FOLDER / f"model_{name}.txt", "w") as out:
        for key, values in initial + exact:
            out.write(f"{key} {len(values)}\n" + " ".join(f"{float(v):.8g}" for v in values) + "\n")
