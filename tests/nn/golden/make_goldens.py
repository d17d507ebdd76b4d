#!/usr/bin/env python3
"""Writes the golden values of tests/nn from PyTorch (made with 1.13; any later version should agree).

Usage: make_goldens.py [FOLDER]     (default: the folder of this script)

Every file is text: a line "name count" and then `count` numbers in hexadecimal floating point, so that float32 values are
exact. Numbers are few; of big tensors only the sum, the first and the last values and some between are kept.
"""
import pathlib
import sys

import torch

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
if FOLDER.is_file():
    FOLDER = FOLDER.parent


def write(file, entries):
    with open(FOLDER / file, "w") as out:
        for name, values in entries:
            values = [float(v) for v in values]
            out.write(f"{name} {len(values)}\n")
            out.write(" ".join(v.hex() for v in values) + "\n")


def stack(widths, relu_at_end):
    layers = [torch.nn.Flatten()]
    for i in range(len(widths) - 1):
        layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
        if relu_at_end or i + 2 < len(widths):
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


MODELS = {
    "mlp": ([784, 50, 10], False),
    "autoencoder": ([784, 128, 128, 128, 784], True),
    "simple_net": ([12288, 512, 128, 64, 32, 21], False),
}


def sample(tensor, wanted=40):
    """About `wanted` values spread over the tensor, the first and the last among them."""
    flat = tensor.detach().reshape(-1)
    step = max(1, (len(flat) - 1) // (wanted - 1))
    return [flat[i] for i in range(0, len(flat), step)]


def initial_weights():
    for name, (widths, relu_at_end) in MODELS.items():
        entries = []
        for seed in (0, 42):
            torch.manual_seed(seed)
            for key, value in stack(widths, relu_at_end).named_parameters():
                entries.append((f"{seed}:{key}", sample(value)))
        write(f"{name}_initial.txt", entries)


def grid(rows, columns, scale):
    """Inputs that C++ makes again without a generator: ((7 r + 3 c) mod 11 - 5) * scale."""
    return torch.tensor([[((7 * r + 3 * c) % 11 - 5) * scale for c in range(columns)] for r in range(rows)])


def losses():
    logits = grid(6, 10, 0.25).requires_grad_()
    targets = torch.tensor([3, 1, 4, 1, 5, 9])
    entries = []
    for reduction in ("mean", "sum"):
        logits.grad = None
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction=reduction)
        loss.backward()
        entries += [(f"cross_entropy:{reduction}", [loss]), (f"cross_entropy_grad:{reduction}", logits.grad.reshape(-1))]
    output = grid(6, 8, 0.25).requires_grad_()
    images = grid(6, 8, 0.125).flip(0)
    for reduction in ("mean", "sum"):
        output.grad = None
        loss = torch.nn.functional.mse_loss(output, images, reduction=reduction)
        loss.backward()
        entries += [(f"mse:{reduction}", [loss]), (f"mse_grad:{reduction}", output.grad.reshape(-1))]
    write("losses.txt", entries)


def trajectories():
    """Two parameters, 50 steps; gradients from the step number and the present values, as a loss would give them."""
    rules = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
        "sgd_weight_decay": lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1),
        "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "sgd_momentum_weight_decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
        "sgd_dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.4, weight_decay=0.1),
        "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, lr=0.02),
        "adam_weight_decay": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1),
        "adam_options": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.99), eps=1e-3),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1),
        "adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
        "adadelta_options": lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1),
    }
    entries = []
    for name, make in rules.items():
        parameters = [grid(5, 7, 0.1).requires_grad_(), grid(1, 3, 0.2).reshape(3).requires_grad_()]
        optimizer = make(parameters)
        for step in range(1, 51):
            for index, parameter in enumerate(parameters):
                slope = grid(*((5, 7) if index == 0 else (1, 3)), 0.02 * (step % 4 - 1)).reshape(parameter.shape)
                parameter.grad = 0.5 * parameter.detach() + slope
            optimizer.step()
            if step in (1, 2, 10, 50):
                for index, parameter in enumerate(parameters):
                    entries.append((f"{name}:{step}:{index}", parameter.detach().clone().reshape(-1)))
        state = optimizer.state[parameters[0]]
        for key in ("momentum_buffer", "exp_avg", "exp_avg_sq", "square_avg", "acc_delta"):
            if state.get(key) is not None:
                entries.append((f"{name}:{key}", state[key].clone().reshape(-1)))
    write("trajectories.txt", entries)


def schedules():
    """The learning rate before each of 25 steps, as the optimizer saw it."""
    scheduler = torch.optim.lr_scheduler
    rules = {
        "step": lambda o: scheduler.StepLR(o, 7, gamma=0.3),
        "cosine": lambda o: scheduler.CosineAnnealingLR(o, 25, eta_min=0.001),
        "one_cycle": lambda o: scheduler.OneCycleLR(o, 0.4, total_steps=25, cycle_momentum=False),
        "one_cycle_options": lambda o: scheduler.OneCycleLR(
            o, 0.4, total_steps=25, pct_start=0.02, div_factor=10, final_div_factor=50, cycle_momentum=False),
    }
    entries = []
    for name, make in rules.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.05)
        schedule = make(optimizer)
        rates = []
        for step in range(25):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if step < 24:
                schedule.step()
        entries.append((name, rates))
    write("schedules.txt", entries)


def clipping():
    """Norms before, and gradients after clip_grad_norm_ to 0.5, of a gradient that is longer and one that is shorter."""
    entries = []
    for name, scale in (("long", 0.1), ("short", 0.002)):
        parameters = [torch.zeros(5, 7, requires_grad=True), torch.zeros(3, requires_grad=True)]
        parameters[0].grad = grid(5, 7, scale)
        parameters[1].grad = grid(1, 3, scale).reshape(3)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        entries += [(f"{name}:norm", [norm]), (f"{name}:0", parameters[0].grad.reshape(-1)), (f"{name}:1", parameters[1].grad)]
    write("clipping.txt", entries)


def init():
    """One generator through all the rules; 32 and 45 elements, a whole number of torch's blocks of 16 and not."""
    rule = torch.nn.init
    rules = {
        "normal_": lambda w: rule.normal_(w, 0.5, 0.8),
        "kaiming_normal_fan_out": lambda w: rule.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
        "kaiming_normal_fan_in": lambda w: rule.kaiming_normal_(w, mode="fan_in", nonlinearity="relu"),
        "kaiming_uniform_fan_out": lambda w: rule.kaiming_uniform_(w, mode="fan_out", nonlinearity="relu"),
        "kaiming_uniform_fan_in": lambda w: rule.kaiming_uniform_(w, mode="fan_in", nonlinearity="relu"),
        "xavier_normal_": rule.xavier_normal_,
        "xavier_uniform_": lambda w: rule.xavier_uniform_(w, gain=1.5),
    }
    torch.manual_seed(7)
    entries = []
    for name, fill in rules.items():
        for shape in ((4, 2, 2, 2), (5, 3, 3)):
            weight = fill(torch.empty(shape))
            entries.append((f"{name}:{weight.numel()}", weight.reshape(-1)))
    write("init.txt", entries)


def training():
    """The mlp on a made-up batch: 20 steps of Adam; the loss before each step."""
    torch.manual_seed(0)
    model = stack(*MODELS["mlp"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = grid(32, 784, 0.1).reshape(32, 1, 28, 28)
    y = torch.tensor([i % 10 for i in range(32)])
    values = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        values.append(loss)
    write("training.txt", [("mlp_adam_losses", values)])


if __name__ == "__main__":
    initial_weights()
    losses()
    trajectories()
    schedules()
    clipping()
    init()
    training()
