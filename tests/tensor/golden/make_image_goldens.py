#!/usr/bin/python3
"""Writes the golden files of the image operations with PyTorch (made with 1.13). Run in this folder.

PyTorch's images are (N, C, H, W), ours (N, H, W, C): image() turns a tensor around on its way into the file, so the
files hold our order and the tests need none. One tensor a line: name, rank, extents, values as hexadecimal floats.
"""
import torch
import torch.nn.functional as F

D = torch.float64


def write(file, tensors):
    with open(file, "w") as out:
        for name, t in tensors.items():
            words = [name, str(t.dim())] + [str(n) for n in t.shape]
            words += [float(v).hex() for v in t.detach().double().flatten()]
            out.write(" ".join(words) + "\n")


def image(t):
    return t.permute(0, 2, 3, 1)


def leaf(*shape):
    return torch.randn(*shape, dtype=D, requires_grad=True)


def gradients(y, inputs):
    """The seed and what it gives each input."""
    seed = torch.randn_like(y)
    return [seed] + list(torch.autograd.grad(y, inputs, seed))


def pooling():
    torch.manual_seed(11)
    x = leaf(2, 3, 7, 6)
    out = {"x": image(x)}
    cases = {
        "max_k3_s2_p1": lambda: F.max_pool2d(x, 3, 2, 1),
        "max_k2_s3_p1_ceil": lambda: F.max_pool2d(x, 2, 3, 1, ceil_mode=True),
        "max_k23_s11": lambda: F.max_pool2d(x, (2, 3), 1),
        "avg_k3_s2_p1": lambda: F.avg_pool2d(x, 3, 2, 1),
        "avg_k3_s2_p1_inside": lambda: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        "avg_k2_s3_p1_ceil": lambda: F.avg_pool2d(x, 2, 3, 1, ceil_mode=True),
        "avg_k4_s3_p2_ceil": lambda: F.avg_pool2d(x, 4, 3, 2, ceil_mode=True),
        "adaptive_1_1": lambda: F.adaptive_avg_pool2d(x, 1),
        "adaptive_3_4": lambda: F.adaptive_avg_pool2d(x, (3, 4)),
        "adaptive_9_5": lambda: F.adaptive_avg_pool2d(x, (9, 5)),
    }
    for name, f in cases.items():
        y = f()
        seed, dx = gradients(y, [x])
        out.update({name + ".y": image(y), name + ".dy": image(seed), name + ".dx": image(dx)})
    return out


def batch_norm():
    torch.manual_seed(12)
    x, residual, weight, bias = leaf(3, 5, 2, 4), leaf(3, 5, 2, 4), leaf(5), leaf(5)
    mean, variance = torch.randn(5, dtype=D), torch.rand(5, dtype=D) + 0.5
    out = {"x": image(x), "residual": image(residual), "weight": weight, "bias": bias, "mean": mean,
           "variance": variance}
    for training in (True, False):
        for relu in (True, False):
            for add in (True, False):
                m, v = mean.clone(), variance.clone()
                y = F.batch_norm(x, m, v, weight, bias, training, momentum=0.3, eps=1e-3)
                y = y + residual if add else y
                y = F.relu(y) if relu else y
                seed, dx, dw, db, *dr = gradients(y, [x, weight, bias] + ([residual] if add else []))
                name = "train%d_relu%d_add%d." % (training, relu, add)
                out.update({name + "y": image(y), name + "dy": image(seed), name + "dx": image(dx), name + "dw": dw,
                            name + "db": db, name + "mean": m, name + "variance": v})
                if add:
                    out[name + "dr"] = image(dr[0])
    return out


def elementwise():
    torch.manual_seed(13)
    x = (torch.randn(4, 9, dtype=D) * 4).requires_grad_()
    targets = torch.tensor([8, 0, 3, 3])
    out = {"x": x, "targets": targets}
    cases = {
        "relu6": lambda: F.relu6(x),
        "silu": lambda: F.silu(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "tanh": lambda: torch.tanh(x),
        "softmax": lambda: F.softmax(x, 1),
        "nll_mean": lambda: F.nll_loss(x, targets),
        "nll_sum": lambda: F.nll_loss(x, targets, reduction="sum"),
        "smooth_mean": lambda: F.cross_entropy(x, targets, label_smoothing=0.1),
        "smooth_sum": lambda: F.cross_entropy(x, targets, reduction="sum", label_smoothing=0.7),
        "mean_rows": lambda: x.mean(1),
        "sum_columns": lambda: x.sum(0, keepdim=True),
    }
    for name, f in cases.items():
        y = f()
        seed, dx = gradients(y, [x])
        out.update({name + ".y": y, name + ".dy": seed, name + ".dx": dx})
    return out


write("pooling.txt", pooling())
write("batch_norm.txt", batch_norm())
write("elementwise.txt", elementwise())
