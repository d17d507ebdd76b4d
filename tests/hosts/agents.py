"""Training by two agents ('tutti run', one for each host) with two ranks each, on the hosts of private_hosts.py."""

import json
import os
import re
import time

from private_hosts import Network

ADDRESSES = {"alpha": "10.7.0.1", "beta": "10.7.0.2"}  # alpha's agent is the coordinator; the store is there, too
PORT = "29500"


class Training:
    """The hosts, and on each its agent. One training at a time; checkpoints and results are in `folder`."""

    def __init__(self, tutti, folder, restarts=0, options=(), cable=None, elastic=False):
        self.tutti = tutti
        self.folder = folder
        self.restarts = restarts
        self.elastic = elastic  # lost ranks are replaced, hosts may go and come
        self.options = [str(option) for option in options]
        self.network = Network()
        self.hosts = {name: self.network.host(name, [f"{address}/24"], cable) for name, address in ADDRESSES.items()}
        self.agents = {}
        self.ended = []  # agents that are no more

    def close(self):
        self.network.close()

    def start(self, name):
        """The agent of one host, with the command that one would type there, first time or again."""
        place = ["2", "--node-rank", str(list(ADDRESSES).index(name)), "--master-addr", ADDRESSES["alpha"], "--master-port", PORT]
        if self.elastic:
            place = ["1:2", "--rdzv-endpoint", f"{ADDRESSES['alpha']}:{PORT}", "--rdzv-id", "elastic", "--elastic"]
        run = [self.tutti, "run", "--nnodes", *place, "-n", "2", "--max-restarts", str(self.restarts), "--"]
        train = self._train() + (["--reproducible", "--timeout", "5", "--run-dir", self.records] if self.elastic else [])
        if self.restarts:
            train += ["--checkpoint-dir", os.path.join(self.folder, "checkpoints"), "--checkpoint-every", "10", "--resume"]
        if name in self.agents:
            self.ended.append(self.agents[name])
        self.agents[name] = self.hosts[name].start(run + train, {"TUTTI_JOB_SECRET": "a secret of these tests"})

    def start_from(self, name):
        """One launcher on a third host, which starts both agents by a remote shell."""
        login = self.network.host(name, ["10.7.0.3/24"])
        return login.start_outside([self.tutti, "run", "-H", "alpha:2,beta:2", "--rsh", self.network.remote_shell(), "--",
                                    *self._train()])

    def _train(self):
        return [self.tutti, "train", "mnist", "--threads", "1", *([] if self.elastic else ["--timeout", "30"]), "--json", self.results,
                *self.options]

    def one_host_command(self, ranks):
        """The same training without agents, by one command on one host."""
        return [*self._train(), "--nproc", ranks]

    @property
    def records(self):
        return os.path.join(self.folder, "records")

    def steps(self, rank):
        """Of an elastic training: the steps that this rank has finished, in the order in which it has. The records of one
        that was killed may be missing, or end in half a line."""
        name = "steps.jsonl" if rank == 0 else f"steps-rank-{rank}.jsonl"
        try:
            with open(os.path.join(self.records, name), encoding="utf-8") as file:
                return [json.loads(line)["global_step"] for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    @property
    def results(self):
        return os.path.join(self.folder, "results.json")

    def accuracy_and_sha(self):
        with open(self.results, encoding="utf-8") as file:
            results = json.load(file)
        return results["final_test_accuracy"], results["parameter_sha256"]

    def wait_for_round(self, number=0, limit=60):
        """Until all ranks of the round are there, as the table says that the coordinator prints."""
        return self.agents["alpha"].wait_for(f"round {number}: 4 ranks on 2 nodes", limit)

    def wait(self, limit=120):
        """Exit statuses of the agents."""
        end = time.monotonic() + limit
        return [agent.wait(max(0.1, end - time.monotonic())) for agent in self.agents.values()]

    def processes(self, name):
        return self.hosts[name].processes()

    def ranks(self, name):
        """{pid: command line} of the host's training processes."""
        agent = self.agents[name].pid
        return {pid: line for pid, line in self.processes(name).items() if " train mnist " in line and pid != agent
                and " run --nnodes " not in line}

    def switch_on(self, name):
        """A host that was powered off comes again with its name and address, and without any process."""
        self.hosts[name] = self.network.host(name, [f"{ADDRESSES[name]}/24"])

    def output(self):
        return "".join(f"\n--- agent on {agent.host.name}\n{agent.output}"
                       for agent in [*self.ended, *self.agents.values()])


def mnist_folder():
    """As test_data.h finds it."""
    data = os.environ.get("TUTTI_TEST_DATA") or os.environ.get("TUTTI_TEST_DATA_DEFAULT", "../shared/data")
    return os.path.join(os.path.abspath(data), "mnist")


def first_line(output, pattern):
    """The first line that matches; None if none does."""
    return next((line for line in output.splitlines() if re.search(pattern, line)), None)


def wait_until_gone(pids, limit, earlier=0.0):
    """Seconds until all of these processes are gone (zombies are), or None; less the time in which this one starved.
    `earlier` seconds have passed already."""
    begin = last = time.monotonic()
    starved = 0.0
    while True:
        if not any(_lives(pid) for pid in pids):
            return earlier + time.monotonic() - begin - starved
        if time.monotonic() - begin - starved > limit:
            return None
        time.sleep(0.01)
        now = time.monotonic()
        starved += max(0.0, now - last - 0.03)
        last = now


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
