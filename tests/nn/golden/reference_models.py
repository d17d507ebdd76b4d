"""The convolutional models in plain PyTorch, with torchvision's structure, names and initialisation (torchvision itself is not needed)."""
import math

import torch
from torch import nn


class Cnn(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv2(self.conv1(x).relu()).relu(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu())


class LeNet5(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


class Block(nn.Module):
    """torchvision's BasicBlock (expansion 1) and Bottleneck (expansion 4)."""

    def __init__(self, inputs, width, stride, downsample, expansion):
        super().__init__()
        kernels = [(inputs, width, 3, stride), (width, width, 3, 1)]
        if expansion == 4:
            kernels = [(inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)]
        self.count = len(kernels)
        for i, (ins, outs, kernel, step) in enumerate(kernels, 1):
            self.add_module(f"conv{i}", nn.Conv2d(ins, outs, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(outs))
        self.downsample = downsample

    def forward(self, x):
        out = x
        for i in range(1, self.count + 1):
            out = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(out))
            out = out.relu() if i < self.count else out
        return (out + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    def __init__(self, blocks, expansion, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for i, count in enumerate(blocks):
            width, layer = 64 << i, []
            for j in range(count):
                stride, downsample = 2 if i > 0 and j == 0 else 1, None
                if stride != 1 or inputs != width * expansion:
                    downsample = nn.Sequential(
                        nn.Conv2d(inputs, width * expansion, 1, stride, bias=False), nn.BatchNorm2d(width * expansion))
                layer.append(Block(inputs, width, stride, downsample, expansion))
                inputs = width * expansion
            self.add_module(f"layer{i + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def conv_norm(inputs, outputs, kernel=1, stride=1, groups=1, silu=True):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.SiLU()] if silu else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        scale = self.fc2(nn.functional.silu(self.fc1(x.mean((2, 3), keepdim=True))))
        return scale.sigmoid() * x


class MBConv(nn.Module):
    """Without stochastic depth: the golden values are of evaluation."""

    def __init__(self, expansion, kernel, stride, inputs, outputs):
        super().__init__()
        width = inputs * expansion
        layers = [conv_norm(inputs, width)] if expansion != 1 else []
        layers += [conv_norm(width, width, kernel, stride, width), SqueezeExcitation(width, max(1, inputs // 4))]
        self.block = nn.Sequential(*layers, conv_norm(width, outputs, silu=False))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return self.block(x) + x if self.residual else self.block(x)


class EfficientNetB0(nn.Module):
    STAGES = [(1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
              (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1)]

    def __init__(self, classes):
        super().__init__()
        features = [conv_norm(3, 32, 3, 2)]
        for expansion, kernel, stride, inputs, outputs, count in self.STAGES:
            features.append(nn.Sequential(*[
                MBConv(expansion, kernel, stride if j == 0 else 1, inputs if j == 0 else outputs, outputs)
                for j in range(count)]))
        self.features = nn.Sequential(*features, conv_norm(320, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                bound = 1.0 / math.sqrt(module.out_features)
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


MODELS = {
    "cnn": lambda classes=10: Cnn(classes),
    "lenet5": lambda classes=10: LeNet5(classes),
    "resnet18": lambda classes=21: ResNet([2, 2, 2, 2], 1, classes),
    "resnet34": lambda classes=21: ResNet([3, 4, 6, 3], 1, classes),
    "resnet50": lambda classes=21: ResNet([3, 4, 6, 3], 4, classes),
    "resnet101": lambda classes=21: ResNet([3, 4, 23, 3], 4, classes),
    "efficientnet_b0": lambda classes=21: EfficientNetB0(classes),
}

# What torchvision publishes, with 1000 classes: the reference above is held to it.
PUBLISHED = {"resnet18": 11689512, "resnet34": 21797672, "resnet50": 25557032, "resnet101": 44549160, "efficientnet_b0": 5288548}
for name, count in PUBLISHED.items():
    with torch.random.fork_rng():
        found = sum(parameter.numel() for parameter in MODELS[name](1000).parameters())
    assert found == count, f"{name}: {found} parameters, torchvision has {count}"
