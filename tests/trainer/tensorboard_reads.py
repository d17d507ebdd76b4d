#!/usr/bin/env python3
"""TensorBoard itself reads the events of a run that was resumed, and they say what steps.jsonl and report.json say.

    tensorboard_reads.py TUTTI

Needs the package tensorboard in this Python, or in the one that TUTTI_TENSORBOARD_PYTHON names; else it skips (77).
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

sys.dont_write_bytecode = True
import small_run  # noqa: E402

SKIPPED = 77


def check(condition, text):
    if not condition:
        sys.exit(f"tensorboard_reads: {text}")


def lines_of(run_dir, rank):
    name = "steps.jsonl" if rank == 0 else f"steps-rank-{rank}.jsonl"
    with open(os.path.join(run_dir, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check_with_the_reader(run_dir, report):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for rank in (0, 1):
        events = EventAccumulator(os.path.join(run_dir, "tensorboard", f"rank-{rank}"),
                                  size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        steps = lines_of(run_dir, rank)
        losses = events.Scalars("loss/step")
        check([event.step for event in losses] == [step["global_step"] for step in steps],
              f"rank {rank} has the steps {[event.step for event in losses]}")
        for event, step in zip(losses, steps):
            check(abs(event.value - step["loss"]) <= 1e-6 * abs(step["loss"]), f"step {step} became {event}")
        check([event.value > 0 for event in events.Scalars("seconds/step")] == [True] * len(steps), "a step took no time")
        if rank > 0:
            continue
        for tag, key in (("loss/train", "train_loss"), ("loss/test", "test_loss"), ("accuracy/test", "test_accuracy")):
            found = [event.value for event in events.Scalars(tag)]
            wanted = [epoch[key] for epoch in report["epochs"]]
            check(len(found) == len(wanted) and all(abs(f - w) <= 1e-6 for f, w in zip(found, wanted)),
                  f"{tag} is {found}, report.json has {wanted}")
        text = events.Tensors("options")[0].tensor_proto.string_val[0].decode()
        check("| seed | 0 |" in text, f"the options are {text}")


def check_with_the_server(run_dir):
    """Starts TensorBoard on a port that it chooses, and asks it as its page does."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", run_dir, "--port", "0", "--host", "127.0.0.1",
               "--load_fast", "false"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = None
        for line in server.stdout:
            found = re.search(r"(http://[^ ]*:\d+)", line)
            if found:
                url = found.group(1)
                break
        check(url, "TensorBoard has not come up")
        for _ in range(200):  # it answers before it has read everything
            with urllib.request.urlopen(f"{url}/data/plugin/scalars/tags", timeout=60) as reply:
                tags = json.load(reply)
            runs = {name for name, found in tags.items() if "seconds/step" in found}
            if len(runs) == 2:
                break
        check(runs == {"tensorboard/rank-0", "tensorboard/rank-1"}, f"TensorBoard shows {tags}")
        query = "scalars?tag=loss%2Ftest&run=tensorboard%2Frank-0"
        with urllib.request.urlopen(f"{url}/data/plugin/scalars/{query}", timeout=60) as reply:
            check(len(json.load(reply)) == 3, "TensorBoard does not show three test losses")
    finally:
        server.kill()
        server.wait()


def main():
    if importlib.util.find_spec("tensorboard") is None:
        other = os.environ.get("TUTTI_TENSORBOARD_PYTHON")
        if other and os.path.abspath(other) != os.path.abspath(sys.executable):
            os.execv(other, [other, *sys.argv])
        print("skipped: this Python has no tensorboard, and TUTTI_TENSORBOARD_PYTHON names none that has")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        data, run_dir = os.path.join(folder, "data"), os.path.join(folder, "run")
        small_run.write_small_mnist(data)
        small_run.train(sys.argv[1], data, run_dir, "--epochs", "1")
        small_run.train(sys.argv[1], data, run_dir, "--epochs", "3", "--resume")
        with open(os.path.join(run_dir, "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        check_with_the_reader(run_dir, report)
        check_with_the_server(run_dir)
    print("TensorBoard reads what the run wrote")
    return 0


if __name__ == "__main__":
    sys.exit(main())
