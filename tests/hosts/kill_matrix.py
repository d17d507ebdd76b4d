#!/usr/bin/env python3
"""Kills parts of a training at random moments, and looks at what is left of it.

    kill_matrix.py TUTTI [--moments 100] [--seed 1] [--kinds rank,agent,launcher,host,store-host] [--data FOLDER] [--elastic]

Two agents train with two ranks each on two hosts (private_hosts.py). A run that nobody disturbs comes first. Then, at
each moment, something dies while the ranks train:

    rank        one rank, by SIGKILL: the launchers start all ranks again
    agent       the launcher of the second host, by SIGKILL: started again, it joins the next round
    launcher    the launcher that coordinates, by SIGKILL: the job is over; both are started again
    host        the second host's cables are pulled; plugged in again, its agent is started again
    store-host  the host of the coordinator and the store is cut off and switched off; then on, and all is started again

After each: are all orphans gone within two seconds (time in which this script itself starved left out)? These are the
processes that no launcher looks after any more: all of a launcher that was killed, the ranks of one that is cut off. How
long do the other ranks of that round live (they are being stopped in good order)? Is the cause named? Does the job end,
from its checkpoints, with the accuracy of the undisturbed run, and its very parameters? With --elastic (kinds rank,
agent and host): do the ranks that were not struck keep their processes, and has none of them lost more than one step?
Prints one line for each and ends with status 1 if one is not as it should be, 77 where it cannot run.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time

from agents import Training, first_line, mnist_folder, wait_until_gone
from private_hosts import why_not

ORPHAN_LIMIT = 2.0  # seconds
RANKS_LIMIT = 20.0
ACCURACY_LIMIT = 0.005

# kind -> whose output names the cause, and how
CAUSES = {
    "rank": ("alpha", r"rank \d+ .*(SIGKILL|signal 9)"),
    "agent": ("alpha", r"node 1 .*was lost"),
    "launcher": ("beta", r"lost the coordinator at"),
    "host": ("alpha", r"node 1 .*was lost"),
    "store-host": ("beta", r"lost the coordinator at"),
}
ELASTIC_KINDS = ("rank", "agent", "host")  # the others end the coordinator, and all with it


class Moment:
    """One training that is disturbed once."""

    def __init__(self, tutti, data, kind, delay, dice, options, elastic):
        self.kind = kind
        self.delay = delay
        self.dice = dice
        self.too_late = False  # the training was over by then
        self.problems = []
        self.orphans_gone = None
        self.ranks_gone = None
        self.cause = None
        self.accuracy = None
        self.sha = None
        self.folder = tempfile.mkdtemp(prefix="tutti-moment-")
        self.training = Training(tutti, self.folder, 3, ["--data", data, *options], elastic=elastic)

    def run(self):
        try:
            self.training.start("alpha")
            self.training.start("beta")
            if not self.training.wait_for_round(0):
                self.problems.append("did not start")
                return
            time.sleep(self.delay)  # the random moment
            self.strike()
            statuses = self.training.wait()
            if statuses != [0, 0]:
                self.problems.append(f"ended with {statuses}")
            if os.path.exists(self.training.results):
                self.accuracy, self.sha = self.training.accuracy_and_sha()
                self.count_steps()
        finally:
            if self.problems:
                self.problems.append(self.training.output())
            self.training.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def strike(self):
        training = self.training
        ranks = {name: training.ranks(name) for name in training.hosts}
        if not any(ranks.values()) or any(agent.pid is None for agent in training.agents.values()):
            self.too_late = True
            return
        struck = set(ranks["beta"])
        old_ranks = {pid for host in ranks.values() for pid in host}
        orphans = set()
        if self.kind == "rank":
            victim = self.dice.choice(sorted(old_ranks))
            os.kill(victim, signal.SIGKILL)
            struck = {victim}
        elif self.kind == "agent":
            orphans = set(training.processes("beta"))
            training.agents["beta"].kill()
        elif self.kind == "launcher":
            orphans = set(training.processes("alpha")) | set(ranks["beta"])
            training.agents["alpha"].kill()
        elif self.kind == "host":
            orphans = set(ranks["beta"])
            training.hosts["beta"].unplug()
        else:
            orphans = set(ranks["beta"])
            training.hosts["alpha"].unplug()
            training.hosts["alpha"].power_off()
        self.orphans_gone = wait_until_gone(orphans, RANKS_LIMIT)
        old_ranks = struck if training.elastic else old_ranks
        survivors = {pid for host in ranks.values() for pid in host} - struck if training.elastic else set()
        self.ranks_gone = wait_until_gone(old_ranks, RANKS_LIMIT, (self.orphans_gone or 0.0))
        if self.orphans_gone is None or self.orphans_gone > ORPHAN_LIMIT:
            self.problems.append(f"orphans gone after {self.orphans_gone} s")
        if self.ranks_gone is None:
            self.problems.append(f"ranks of the round still there after {RANKS_LIMIT} s")
        self.look_for_cause()
        self.look_for(survivors)
        self.recover()

    def look_for_cause(self):
        name, pattern = CAUSES[self.kind]
        agent = self.training.agents[name]
        end = time.monotonic() + 10
        while self.cause is None and time.monotonic() < end:
            self.cause = first_line(agent.output, pattern)
            time.sleep(0.02)  # between two looks
        if self.cause is None:
            self.problems.append("the cause is not named")

    def look_for(self, survivors):
        """They are in the next generation, as the same processes."""
        agent = self.training.agents["alpha"]
        if not survivors:
            return
        if not agent.wait_for("generation 1: ", 60):
            if agent.pid is not None:  # else it was over, or nearly so
                self.problems.append("there is no next generation")
            return
        if agent.pid is not None and any(wait_until_gone([pid], 0.0) is not None for pid in survivors):
            self.problems.append("a rank that was not struck has lost its process")

    def count_steps(self):
        """A rank that was not struck repeats no step, and misses at most one: that which it was behind."""
        if not self.training.elastic or self.too_late:
            return
        done = [self.training.steps(rank) for rank in range(4)]
        steps = max(step for of_one in done for step in of_one) + 1
        whole = [len(of_one) >= steps - 1 and of_one == sorted(set(of_one)) and steps - 1 in of_one for of_one in done]
        if not (sum(whole) >= 3 if self.kind == "rank" else all(whole[:2])):
            self.problems.append(f"of {steps} steps the ranks have done {[len(of_one) for of_one in done]}")

    def recover(self):
        """What an operator, or the scheduler, does: what is dead is started again by the same command."""
        training = self.training
        if self.kind == "host":
            training.hosts["beta"].plug()
        if self.kind == "store-host":
            training.switch_on("alpha")
        if self.kind in ("launcher", "store-host"):
            training.agents["beta"].wait(30)
            training.start("alpha")
        if self.kind != "rank":
            training.start("beta")


def struck_in_time(tutti, data, kind, delay, dice, options, elastic):
    """A moment in which the training did run: machines are not always as fast as when the undisturbed run was timed."""
    while True:
        moment = Moment(tutti, data, kind, delay, dice, options, elastic)
        moment.run()
        if not moment.too_late:
            return moment
        delay /= 2


def seconds(value):
    return "-" if value is None else f"{value:.2f}"


def undisturbed(tutti, data, options, elastic):
    """Accuracy, parameters and seconds from the first table to the end."""
    folder = tempfile.mkdtemp(prefix="tutti-moment-")
    training = Training(tutti, folder, 3, ["--data", data, *options], elastic=elastic)
    try:
        training.start("alpha")
        training.start("beta")
        if not training.wait_for_round(0):
            raise SystemExit("the undisturbed run does not start:" + training.output())
        begin = time.monotonic()
        if training.wait() != [0, 0]:
            raise SystemExit("the undisturbed run fails:" + training.output())
        return (*training.accuracy_and_sha(), time.monotonic() - begin)
    finally:
        training.close()
        shutil.rmtree(folder, ignore_errors=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tutti", type=os.path.abspath)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds")
    parser.add_argument("--elastic", action="store_true")
    parser.add_argument("--data", default=mnist_folder())
    parser.add_argument("--epochs", default="1")
    parser.add_argument("--batch-size", default="128")
    arguments = parser.parse_args()
    known = ELASTIC_KINDS if arguments.elastic else tuple(CAUSES)
    arguments.kinds = arguments.kinds.split(",") if arguments.kinds else list(known)
    unknown = set(arguments.kinds) - set(known)
    if unknown:
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return arguments


def main():
    arguments = parse_arguments()
    data = os.path.abspath(arguments.data)
    why = why_not() or (None if os.path.isdir(data) else f"no MNIST in {data}")
    if why:
        print("skipped:", why)
        return 77
    options = ["--epochs", arguments.epochs, "--batch-size", arguments.batch_size]
    dice = random.Random(arguments.seed)
    accuracy, sha, duration = undisturbed(arguments.tutti, data, options, arguments.elastic)
    print(f"undisturbed: accuracy {accuracy:.4f}, parameters {sha[:12]}, {duration:.1f} s; seed {arguments.seed}", flush=True)
    print(f"{'#':>3} {'kind':<10} {'at s':>5} {'orphans s':>9} {'ranks s':>7} {'accuracy':>8} {'same':>4}  cause", flush=True)
    failures = 0
    for number in range(arguments.moments):
        kind = arguments.kinds[number % len(arguments.kinds)]
        moment = struck_in_time(arguments.tutti, data, kind, dice.uniform(0, duration * 0.9), dice, options, arguments.elastic)
        if moment.accuracy is None or abs(moment.accuracy - accuracy) > ACCURACY_LIMIT:
            moment.problems.insert(0, f"accuracy {moment.accuracy}")
        reached = f"{moment.accuracy:.4f}" if moment.accuracy is not None else "-"
        print(f"{number + 1:>3} {kind:<10} {moment.delay:>5.2f} {seconds(moment.orphans_gone):>9} {seconds(moment.ranks_gone):>7} {reached:>8} "
              f"{'yes' if moment.sha == sha else 'no':>4}  {(moment.cause or '-').strip()[:140]}", flush=True)
        for problem in moment.problems:
            print("    wrong:", problem, flush=True)
        failures += bool(moment.problems)
    print(f"{arguments.moments - failures} of {arguments.moments} moments as they should be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
