#!/usr/bin/python3
"""Writes the golden files of the tensor tests with PyTorch (made with 1.13). Run in this folder: python3 make_goldens.py

One tensor a line: name, rank, extents, values as hexadecimal floats.
"""
import torch
import torch.nn.functional as F


def write(file, tensors):
    with open(file, "w") as out:
        for name, t in tensors.items():
            words = [name, str(t.dim())] + [str(n) for n in t.shape]
            words += [float(v).hex() for v in t.detach().double().flatten()]
            out.write(" ".join(words) + "\n")


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def two_layers():
    torch.manual_seed(5)
    x, w1, b1, w2, b2 = leaf(6, 9), leaf(7, 9), leaf(7), leaf(4, 7), leaf(4)
    targets = torch.tensor([0, 3, 1, 1, 2, 0])
    hidden = F.relu(F.linear(x, w1, b1))
    logits = F.linear(hidden, w2, b2)
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    return {"x": x, "w1": w1, "b1": b1, "w2": w2, "b2": b2, "targets": targets, "hidden": hidden, "logits": logits,
            "loss": loss, "dx": x.grad, "dw1": w1.grad, "db1": b1.grad, "dw2": w2.grad, "db2": b2.grad}


def losses():
    torch.manual_seed(6)
    logits, target = leaf(5, 11), torch.randn(5, 11, dtype=torch.float64)
    classes = torch.tensor([10, 0, 4, 4, 7])
    out = {"logits": logits, "target": target, "classes": classes, "log_softmax": F.log_softmax(logits, 1)}
    for reduction in ("mean", "sum"):
        for name, loss in (("cross_entropy", F.cross_entropy(logits, classes, reduction=reduction)),
                           ("mse_loss", F.mse_loss(logits, target, reduction=reduction))):
            out[name + "_" + reduction] = loss
            out["d_" + name + "_" + reduction] = torch.autograd.grad(loss, logits)[0]
    return out


def uniform():
    out = {}
    for seed, low, high in ((0, 0.0, 1.0), (0, -0.125, 0.125), (1, -0.0357142873108387, 0.0357142873108387),
                            (123456789, 2.5, 7.25)):
        torch.manual_seed(seed)
        drawn = torch.empty(700).uniform_(low, high)
        out["seed%d_%s_%s" % (seed, low, high)] = torch.cat([torch.tensor([seed, low, high], dtype=torch.float64), drawn.double()])
    return out


write("two_layers.txt", two_layers())
write("losses.txt", losses())
write("uniform.txt", uniform())
