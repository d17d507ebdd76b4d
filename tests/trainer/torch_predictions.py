"""Weights written by tutti, loaded into the same PyTorch networks, must give the same predictions; and the other way round.

usage: torch_predictions.py WRITE_PREDICTIONS_PROGRAM      exit status 77: PyTorch is not installed
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    from torch import nn
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "nn" / "golden"))
import reference_models  # noqa: E402

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "U8": numpy.uint8}


def read_safetensors(path):
    """The whole format: u64 header length, JSON header, data."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = numpy.frombuffer(content[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def write_safetensors(path, tensors):
    names = {numpy.dtype(array): name for name, array in TYPES.items()}
    arrays = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    header, end = {}, 0
    for name, array in arrays.items():
        offsets = [end, end := end + array.nbytes]
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values()))


def dense(widths, relu_at_end):
    layers = [nn.Flatten()]
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*(layers if relu_at_end else layers[:-1]))


MODELS = {
    "mlp": dense([784, 50, 10], False),
    "autoencoder": dense([784, 128, 128, 128, 784], True),
    "simple_net": dense([12288, 512, 128, 64, 32, 21], False),
    # resnet34 and resnet101 are the same code as these, only more of it.
    **{name: reference_models.MODELS[name]() for name in ("cnn", "lenet5", "resnet18", "resnet50", "efficientnet_b0")},
}


def compare(name, model, path):
    pair = read_safetensors(path)
    x = pair["x"].permute(0, 3, 1, 2) if pair["x"].dim() == 4 else pair["x"]
    with torch.no_grad():
        expected = model.eval()(x)
    difference = ((expected - pair["y"]).abs().max() / expected.abs().max()).item()
    print(f"{name}: largest difference {difference:.2e}")
    assert difference < 1e-5, name


def load_ours(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        written = {path.name for path in pathlib.Path(folder).iterdir()}
        expected = {name + end for name in MODELS for end in (".safetensors", ".io.safetensors")}
        assert written == expected, f"models differ: {sorted(written ^ expected)}"
        for name, model in MODELS.items():
            model.load_state_dict(read_safetensors(f"{folder}/{name}.safetensors"), strict=True)
            compare(name, model, f"{folder}/{name}.io.safetensors")


def load_theirs(program):
    """A file as torchvision publishes it: 1000 classes, trained statistics."""
    for name in ("resnet18", "efficientnet_b0"):
        model = reference_models.MODELS[name](1000)
        for key, buffer in model.named_buffers():
            if key.endswith("running_mean"):
                buffer.normal_(0, 0.1)
            elif key.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
        with tempfile.TemporaryDirectory() as folder:
            write_safetensors(f"{folder}/weights.safetensors", model.state_dict())
            subprocess.run([program, folder, name, f"{folder}/weights.safetensors"], check=True)
            compare(f"{name}, weights of PyTorch's", model, f"{folder}/{name}.io.safetensors")


load_ours(sys.argv[1])
load_theirs(sys.argv[1])
