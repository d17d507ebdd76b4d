#!/usr/bin/env python3
"""Two agents with two ranks each train over the right interface; a host that is cut off ends the job everywhere.

    agents_test.py TUTTI [TEST]...

Ends with status 77 without namespaces, or without MNIST.
"""

import os
import sys
import tempfile
import unittest

from agents import Training, first_line, mnist_folder, wait_until_gone
from private_hosts import why_not

TUTTI = ""
OPTIONS = ["--epochs", "1", "--batch-size", "500", "--reproducible"]


class AgentsCase(unittest.TestCase):
    cable = None  # of all hosts; private_hosts.py

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-agents-")
        self.addCleanup(folder.cleanup)
        self.training = Training(TUTTI, folder.name, 0, ["--data", mnist_folder(), *OPTIONS], self.cable)
        self.addCleanup(self.training.close)

    def start(self):
        """Both agents, beside bridges with the same address on both hosts."""
        for name, host in self.training.hosts.items():
            host.bridge("docker0", "172.17.0.1/16")
            self.training.start(name)
        self.assertIsNotNone(self.training.wait_for_round(0), self.training.output())

    def check_that_it_trains_as_one_host_does(self):
        self.start()
        self.assertEqual(self.training.wait(), [0, 0], self.training.output())
        reached = self.training.accuracy_and_sha()
        os.remove(self.training.results)
        status, output = self.training.hosts["alpha"].run(self.training.one_host_command(4))
        self.assertEqual(status, 0, output)
        self.assertEqual(reached, self.training.accuracy_and_sha())
        self.assertGreater(reached[0], 0.8)


class Agents(AgentsCase):
    def test_two_agents_train_as_one_host_does(self):
        self.check_that_it_trains_as_one_host_does()
        table = self.training.agents["alpha"].output
        for name, address in (("alpha", "10.7.0.1"), ("beta", "10.7.0.2")):
            self.assertRegex(table, rf"{name} +\d+ +{address.replace('.', '[.]')}")

    def test_a_host_that_is_cut_off_ends_the_job_everywhere(self):
        self.start()
        everybody = {name: set(self.training.processes(name)) for name in self.training.hosts}
        self.training.hosts["beta"].unplug()
        for name in ("beta", "alpha"):  # the second one's launcher stops its ranks in good order
            self.assertIsNotNone(wait_until_gone(everybody[name], 20), self.training.output())
        self.assertNotEqual(self.training.wait(), [0, 0])
        self.assertIsNotNone(first_line(self.training.agents["alpha"].output, r"node 1 .*was lost"),
                             self.training.output())
        self.assertIsNotNone(first_line(self.training.agents["beta"].output, "lost the coordinator at"),
                             self.training.output())

    def test_one_launcher_starts_the_agents_over_a_remote_shell(self):
        launcher = self.training.start_from("login")
        self.assertIsNotNone(launcher.wait_for("round 0: 4 ranks on 2 nodes"), launcher.output)
        self.assertEqual(launcher.wait(60), 0, launcher.output)
        self.assertGreater(self.training.accuracy_and_sha()[0], 0.8)

    def test_a_host_that_is_cut_off_from_its_launcher_ends_the_job(self):
        self.training.options[self.training.options.index("--epochs") + 1] = "1000"
        launcher = self.training.start_from("login")
        self.assertIsNotNone(launcher.wait_for("round 0: 4 ranks on 2 nodes"), launcher.output)
        everybody = {pid for name in self.training.hosts for pid in self.training.processes(name)}
        self.assertGreaterEqual(len(everybody), 6)
        self.training.hosts["beta"].unplug()
        self.assertIsNotNone(wait_until_gone(everybody, 20), launcher.output)
        self.assertNotIn(launcher.wait(30), [0, None])
        self.assertIsNotNone(first_line(launcher.output, r"node 1 .*beta.*was lost"), launcher.output)


class BadCables(AgentsCase):
    cable = (5, 0.01)

    def test_delayed_and_lost_packets_change_no_bit(self):
        self.check_that_it_trains_as_one_host_does()


if __name__ == "__main__":
    why = why_not() or (None if os.path.isdir(mnist_folder()) else f"no MNIST in {mnist_folder()}")
    if why:
        print("skipped:", why)
        sys.exit(77)
    TUTTI = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
