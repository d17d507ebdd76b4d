#!/usr/bin/env python3
"""`tutti doctor` as ranks of a job on several hosts (private_hosts.py): what it finds between them. And ranks on one host
that has no 127.0.0.1.

    doctor_test.py TUTTI [TEST]...

Ends with status 77 where no namespaces can be made.
"""

import json
import os
import sys
import unittest

from job import outputs, start_ranks, wait_all
from private_hosts import Network, why_not

TUTTI = ""


class DoctorBetweenHosts(unittest.TestCase):
    def setUp(self):
        self.network = Network()
        self.addCleanup(self.network.close)
        self.alpha = self.network.host("alpha", ["10.7.0.1/24"])
        self.beta = self.network.host("beta", ["10.7.0.2/24"])

    def examine(self, hosts, status, timeout=20, environment=None):
        """What rank 0 finds, when the ranks end with `status`; those of the others where the ranks do not meet."""
        local = [{"LOCAL_RANK": str(hosts[:rank].count(host)), "LOCAL_WORLD_SIZE": str(hosts.count(host)),
                  "TUTTI_LOG": "error", **(environment or {})} for rank, host in enumerate(hosts)]
        ranks = start_ranks(hosts, [TUTTI, "doctor", "--json", "--timeout", str(timeout)], "10.7.0.1", local)
        self.assertEqual(wait_all(ranks, 60), [status] * len(hosts), outputs(ranks))
        return [json.loads(rank.output)["findings"] if rank.output.startswith("{") else [] for rank in ranks]

    def find(self, findings, what, verdict=None):
        found = [one for one in findings if one["what"] == what and verdict in (None, one["verdict"])]
        self.assertTrue(found, f"no {verdict} about {what} in {json.dumps(findings, indent=1)}")
        return found

    def test_each_host_is_told_of_once(self):
        findings, *others = self.examine([self.alpha, self.alpha, self.beta, self.beta], 0)
        self.assertEqual(others, [[], [], []])
        self.assertIn("4 on 2 hosts", self.find(findings, "ranks that met")[0]["value"])
        self.assertEqual({one["host"] for one in self.find(findings, "open files")}, {"alpha (rank 0)", "beta (rank 2)"})
        self.assertEqual(self.find(findings, "interfaces used", "ok")[0]["value"], "alpha eth0 10.7.0.1; beta eth0 10.7.0.2")
        self.find(findings, "connections", "ok")

    def test_a_host_whose_own_name_is_loopback(self):
        self.alpha.file("/etc/hosts", "127.0.0.1 localhost\n10.7.0.1 alpha\n10.7.0.2 beta\n")
        self.beta.file("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 beta\n")
        for host in (self.alpha, self.beta):
            host.file("/etc/resolv.conf", "")
        findings, _ = self.examine([self.alpha, self.beta], 0)
        self.assertIn("127.0.1.1", self.find(findings, "host name", "warn")[0]["value"])

    def test_closed_ports_are_named_with_both_ends_and_nothing_waits_at_them(self):
        # Rank 0's host may answer from the store's port, and call nobody.
        self.alpha.root("ip rule add priority 50 ipproto tcp sport 29500 lookup main".split())
        self.alpha.root("ip rule add priority 60 to 10.7.0.2 ipproto tcp dport 32768-65000 prohibit".split())
        findings, _ = self.examine([self.alpha, self.beta], 1)
        closed = self.find(findings, "connection", "fail")
        self.assertRegex(closed[0]["value"], r"rank 0 \(alpha, 10\.7\.0\.1\) to rank 1 \(beta, 10\.7\.0\.2\) port \d+: "
                                             r"Permission denied")
        self.assertRegex(closed[1]["value"], r"rank 1 \(beta, 10\.7\.0\.2\) to rank 0 \(alpha, 10\.7\.0\.1\) port \d+: "
                                             r"no answer")
        self.assertIn("firewall", closed[1]["fix"])

    def test_the_interface_that_was_asked_for_is_looked_at(self):
        second = self.network.another_switch()
        for number, host in enumerate((self.alpha, self.beta), 1):
            host.card([f"10.8.0.{number}/24"], second)
        findings, _ = self.examine([self.alpha, self.beta], 0, environment={"TUTTI_IFACE": "10.8.0.0/16"})
        self.assertEqual(self.find(findings, "interfaces used", "ok")[0]["value"], "alpha eth1 10.8.0.1; beta eth1 10.8.0.2")
        self.find(findings, "connections", "ok")

    def test_a_host_that_cannot_reach_the_store(self):
        self.beta.root("ip route add prohibit 10.7.0.1".split())
        first, second = self.examine([self.alpha, self.beta], 1, timeout=2)
        self.assertIn("rank(s) 1", self.find(first, "meeting", "fail")[0]["value"])
        self.assertRegex(self.find(second, "meeting", "fail")[0]["value"], r"store at 10\.7\.0\.1:29500.*Permission denied")

    def test_a_host_with_no_other_loopback_address_than_that_of_ipv6(self):
        self.alpha.root("ip addr del 127.0.0.1/8 dev lo".split())
        status, output = self.alpha.run([TUTTI, "bench", "-n", "2", "all_reduce", "--max-bytes", "4", "--transport", "tcp"])
        self.assertEqual(status, 0, output)
        self.assertIn("Total wrong: 0", output)


if __name__ == "__main__":
    if reason := why_not():
        print("skipped:", reason)
        sys.exit(77)
    TUTTI = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
