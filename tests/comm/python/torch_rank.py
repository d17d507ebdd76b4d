"""One rank of torch_test.py: torch_rank.py CASE BACKEND. Prints what the test compares; an exception fails it."""

import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

SECONDS = datetime.timedelta(seconds=1)


def whole(group, rank, size):
    """Every operation, sync and async, with tensors in one piece and in several."""
    total = size * (size + 1) / 2
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64,
                  torch.uint8, torch.complex64):
        for make in (lambda: torch.full((6, 4), rank + 1).to(dtype), lambda: torch.full((4, 12), rank + 1).to(dtype).t()[::2]):
            data = make()
            dist.all_reduce(data)
            assert (data == total).all(), (dtype, data)
            data = make()
            dist.reduce(data, 0)
            assert (data == (total if rank == 0 else rank + 1)).all(), (dtype, data)
            data = make()
            dist.broadcast(data, size - 1)
            assert (data == size).all(), (dtype, data)
            parts = [torch.zeros_like(data) for _ in range(size)]
            dist.all_gather(parts, make())
            assert all((part == i + 1).all() for i, part in enumerate(parts)), (dtype, parts)
            pieces = torch.zeros(4 * size, dtype=dtype)[::2].split(2)  # outputs that are not in one piece
            dist.all_gather(list(pieces), torch.full((2,), rank).to(dtype))
            assert all((piece == i).all() for i, piece in enumerate(pieces)), (dtype, pieces)
            if rank == 0:
                dist.send(make(), 1, tag=5)
            elif rank == 1:
                got = make() * 0
                assert dist.recv(got, tag=5) == 0 and (got == 1).all(), (dtype, got)
    columns = nn.Parameter(torch.ones(4, 3)).t()  # a view of what has a gradient
    dist.all_reduce(columns)
    negative = torch.full((2,), 1 + 1j).conj().imag
    assert negative.is_neg()
    dist.all_reduce(negative)
    assert (columns == size).all() and (negative == -size).all(), (columns, negative)
    flags = torch.tensor([True, rank == 0, False])
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    assert flags.tolist() == [True, True, False]
    mean = torch.full((3,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert torch.allclose(mean, torch.tensor((size - 1) / 2))
    scaled = torch.ones(3)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    assert (scaled == size / 2).all(), scaled
    scaled = torch.ones(3, dtype=torch.bfloat16)
    dist.reduce(scaled, 0, dist._make_nccl_premul_sum(torch.tensor([0.5])))
    assert rank != 0 or (scaled == size / 2).all(), scaled


def blocks(group, rank, size):
    """Operations on a block for each rank, with equal and with different lengths."""
    counts = [i + 1 for i in range(size)]
    parts = [torch.empty(n) for n in counts]
    dist.all_gather(parts, torch.full((counts[rank],), float(rank)))
    assert [part.tolist() for part in parts] == [[float(i)] * n for i, n in enumerate(counts)], parts
    out = torch.empty(counts[rank])
    dist.reduce_scatter(out, [torch.full((n,), float(rank + i)) for i, n in enumerate(counts)])
    assert (out == sum(r + rank for r in range(size))).all(), out
    sent = torch.arange(size * (size + 1) // 2).float() + 100 * rank
    received = torch.empty(size * counts[rank])
    dist.all_to_all_single(received, sent, [counts[rank]] * size, counts)
    first = sum(counts[:rank])
    assert received.tolist() == [100.0 * r + first + i for r in range(size) for i in range(counts[rank])], received
    outputs = [torch.empty(counts[rank]) for _ in range(size)]
    dist.all_to_all(outputs, list(sent.split(counts)))
    assert torch.equal(torch.cat(outputs), received)
    flat, tile = torch.empty(2 * size), torch.full((2,), float(rank))
    dist.all_gather_into_tensor(flat, tile)
    assert flat.view(size, 2)[:, 0].tolist() == list(range(size))
    dist.reduce_scatter_tensor(tile, flat)
    assert (tile == size * rank).all(), tile
    inputs = [torch.full((2,), float(i)) for i in range(size)] if rank == 0 else None
    dist.scatter(tile, inputs, 0)
    outputs = [torch.empty(2) for _ in range(size)] if rank == 1 else None
    dist.gather(tile, outputs, 1)
    assert rank != 1 or [part[0].item() for part in outputs] == list(range(size))
    several = [torch.full((2, i + 1), float(rank)) for i in range(3)]
    with dist._coalescing_manager():
        for one in several:
            dist.all_reduce(one)
    assert all((one == size * (size - 1) / 2).all() for one in several), several
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": i} for i in range(size)]
    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1.0] * size + [2.0 * size], sparse.to_dense()


def started(group, rank, size):
    """Work: in the background, with futures, and dropped."""
    data = torch.full((1000,), float(rank + 1))
    work = dist.all_reduce(data, async_op=True)
    work.wait()
    assert work.is_completed() and data[0] == size * (size + 1) / 2
    future = dist.all_reduce(data, async_op=True).get_future().then(lambda one: one.value()[0].sum().item())
    assert future.wait() == 1000 * size * size * (size + 1) / 2
    inner = lambda _: dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()[0].sum().item()
    assert dist.all_reduce(data, async_op=True).get_future().then(inner).wait() == 2 * size
    incoming = torch.empty(3)
    receive = dist.irecv(incoming, (rank - 1) % size, tag=7)
    assert not receive.is_completed()
    dist.barrier()
    dist.isend(torch.full((3,), float(rank)), (rank + 1) % size, tag=7)  # its buffer is kept
    receive.wait()
    assert (incoming == (rank - 1) % size).all()
    if rank == 0:
        sources = {dist.recv(incoming) for _ in range(size - 1)}
        assert sources == set(range(1, size))
    else:
        dist.send(incoming, 0)
    ops = [dist.P2POp(dist.irecv, incoming, (rank - 1) % size, tag=9),
           dist.P2POp(dist.isend, torch.full((3,), 5.0 + rank), (rank + 1) % size, tag=9)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (incoming == 5 + (rank - 1) % size).all()
    columns = torch.zeros(2, 3).t()  # not in one piece: what comes is copied there, though nothing waits for it
    dist.irecv(columns, (rank - 1) % size, tag=11)
    dist.barrier()
    dist.isend(torch.full((6,), 1.0 + rank), (rank + 1) % size, tag=11)
    while not (columns == 1 + (rank - 1) % size).all():
        os.sched_yield()
    pair = dist.new_group([0, size - 1], timeout=10 * SECONDS)
    if rank in (0, size - 1):
        data = torch.ones(2)
        dist.all_reduce(data, group=pair)
        assert (data == 2).all()
    dist.monitored_barrier()


def threaded(group, rank, size):
    """Rank 0's main thread is in a barrier, or on the way, while another one sends what rank 1 waits for before it comes."""
    for _ in range(20):
        if rank == 0:
            go = threading.Event()
            sender = threading.Thread(target=lambda: (go.wait(), dist.send(torch.ones(1), 1)))
            sender.start()
            go.set()
        elif rank == 1:
            dist.recv(torch.empty(1), 0)
        dist.barrier()
        if rank == 0:
            sender.join()


def left(group, rank, size):
    """Groups that nobody destroys end with the program."""
    for i in range(6):
        dist.all_reduce(torch.ones(1), group=dist.new_group(group_desc=str(i)))


def beside(group, rank, size):
    """A group of a backend for each device; gloo stands for that of GPUs."""
    both = dist.new_group(backend="cpu:tutti,cuda:gloo")
    assert type(both._get_backend(torch.device("cpu"))).__module__ == "tutti.torch.group"
    data = torch.ones(3)
    dist.all_reduce(data, group=both)
    dist.all_reduce(data, group=both, async_op=True).wait()
    assert (data == size * size).all()


def refusals(group, rank, size):
    """What is wrong with the arguments is a ValueError, and the group goes on."""
    for wrong in (lambda: dist.all_gather_into_tensor(torch.empty(3), torch.empty(2)),
                  lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.AVG),
                  lambda: dist.all_reduce(torch.ones(2, device="meta")),
                  lambda: dist.group.WORLD.allreduce([torch.ones(2, dtype=torch.complex64)], dist.ReduceOp.PRODUCT),
                  lambda: dist.all_to_all_single(torch.empty(2 * size), torch.empty(2 * size), [1] * size, [2] * size),
                  lambda: dist.all_to_all_single(torch.empty(4), torch.empty(4), [5, -1] + [0] * (size - 2))):
        try:
            wrong()
        except ValueError:
            continue
        raise AssertionError("not refused")
    scaled, options = torch.ones(2), dist.AllreduceCoalescedOptions()
    options.reduceOp = dist._make_nccl_premul_sum(0.5)
    try:
        dist.group.WORLD.allreduce_coalesced([scaled, torch.ones(2, device="meta")], options)
        raise AssertionError("not refused")
    except ValueError:
        assert (scaled == 1).all(), scaled
    dist.barrier()


def killed(group, rank, size):
    """The last rank dies; the others are told within two seconds, by its number."""
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        dist.all_reduce(torch.ones(100))
    except dist.DistBackendError as error:
        print(f"after {time.monotonic() - start:.1f} s: {error}", flush=True)


def differs(group, rank, size):
    """Rank 1 calls another operation."""
    try:
        dist.all_gather([torch.empty(4)] * size, torch.ones(4)) if rank == 1 else dist.all_reduce(torch.ones(4))
        dist.barrier()
    except dist.DistBackendError as error:
        print(error, flush=True)


def late(group, rank, size):
    """Rank 1 does not come in time: to a barrier that names it, then to an operation of a group with a time-out of its own."""
    short = dist.new_group(timeout=SECONDS)
    if rank == 1:
        print("late", flush=True)
        try:
            dist.barrier()  # of the group of all, which the others enter in the end
        finally:
            return
    try:
        dist.monitored_barrier(timeout=SECONDS)
    except RuntimeError as error:
        print(error, flush=True)
    start = time.monotonic()
    try:
        dist.all_reduce(torch.ones(2), group=short)
    except dist.DistBackendError as error:
        print(f"after {time.monotonic() - start:.1f} s: {error}", flush=True)
    dist.barrier()


def sharded(group, rank, size):
    """One training with fully_shard and one of a DTensor model, and their losses."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh, losses = init_device_mesh("cpu", (size,)), []

    def train(shard, own_batch):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 12 * size), nn.ReLU(), nn.Linear(12 * size, 2))
        shard(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(rank if own_batch else 5)
        for _ in range(5):
            x = torch.randn(16, 8)
            loss = (model(x) - x[:, :2]).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(f"{loss.item():.6f}")

    train(lambda model: fully_shard(model, mesh=mesh), own_batch=True)
    train(lambda model: parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}), own_batch=False)
    whole_again = distribute_tensor(torch.arange(4.0 * size), mesh, [Shard(0)]).full_tensor()
    assert torch.equal(whole_again, torch.arange(4.0 * size))
    print(" ".join(losses), flush=True)


def hooked(group, rank, size):
    """DistributedDataParallel with unused parameters, a hook that compresses, and gradients that are not in one piece."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.ModuleDict({"used": nn.Linear(5, 3), "unused": nn.Linear(2, 2)}),
                                                find_unused_parameters=True)
    model.module.forward = lambda x: model.module["used"](x)
    model.register_comm_hook(None, fp16_compress_hook)
    for step in range(3):
        model(torch.full((4, 5), float(rank + step))).sum().backward()
    sums = [torch.empty(1) for _ in range(size)]
    dist.all_gather(sums, model.module["used"].weight.grad.sum().reshape(1))
    assert all(torch.equal(one, sums[0]) for one in sums), sums


def main():
    case, backend = sys.argv[1:3]
    torch.set_num_threads(1)
    where = os.environ.get("INIT_METHOD")
    place = {"init_method": where, "rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])} if where else {}
    dist.init_process_group(backend, timeout=20 * SECONDS, **place)
    globals()[case](dist.group.WORLD, dist.get_rank(), dist.get_world_size())
    if case not in ("killed", "differs", "late", "left"):
        dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
