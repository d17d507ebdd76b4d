#!/usr/bin/env python3
"""Ranks on several hosts (private_hosts.py): which addresses they meet at, and what they say where they cannot.

    hosts_test.py WORLD_RANK FAULT_RANK [TEST]...

WORLD_RANK and FAULT_RANK are the programs tutti_world_rank and tutti_fault_rank of tests/comm. Ends with status 77 where
no namespaces can be made.
"""

import os
import signal
import sys
import time
import unittest

from job import outputs, start_ranks, wait_all
from private_hosts import Network, why_not

WORLD_RANK = FAULT_RANK = ""


class HostsTest(unittest.TestCase):
    def setUp(self):
        self.network = Network()
        self.addCleanup(self.network.close)

    def two_hosts(self):
        return (self.network.host("alpha", ["10.7.0.1/24"]), self.network.host("beta", ["10.7.0.2/24"]))

    def two_networks(self):
        hosts = self.two_hosts()
        fast = self.network.another_switch()
        for number, host in enumerate(hosts, 1):
            host.card([f"10.8.0.{number}/24"], fast)
        return hosts

    def meet(self, hosts, master, environment=None):
        """All ranks form a group, and sums over it are right. Returns them."""
        ranks = start_ranks(hosts, [WORLD_RANK, "1"], master, environment)
        self.assertEqual(wait_all(ranks), [0] * len(hosts), outputs(ranks))
        return ranks

    def refuse(self, hosts, master, environment=None, timeout_ms=2000):
        """No rank gets anywhere; returns what each says."""
        ranks = start_ranks(hosts, [FAULT_RANK, timeout_ms, "meet"], master, environment)
        self.assertNotIn(0, wait_all(ranks), outputs(ranks))
        return [rank.output for rank in ranks]

    def start_looping(self, hosts, timeout_ms, environment=None, beat="beat 2", master="10.7.0.1"):
        """Ranks that sum a million numbers again and again, once all have said `beat`. Returns them."""
        ranks = start_ranks(hosts, [FAULT_RANK, timeout_ms, "loop", "all_reduce_large"], master, environment)
        for rank in ranks:
            self.assertIsNotNone(rank.wait_for(beat), outputs(ranks))
        return ranks

    def named_after_unplugging(self, environment=None):
        """Two ranks, of which the second one's host is unplugged; both have failed in time, and named the other one."""
        alpha, beta = self.two_hosts()
        ranks = self.start_looping([alpha, beta], 2000, environment)
        beta.unplug()
        begin = time.monotonic()
        self.assertEqual(wait_all(ranks), [1, 1], outputs(ranks))
        self.assertLess(time.monotonic() - begin, 20)
        self.assertRegex(ranks[0].output, r"failed after \d+ ms: .*rank 1 \(beta, pid \d+, 10.7.0.2:\d+\)")
        self.assertRegex(ranks[1].output, r"failed after \d+ ms: .*rank 0 \(alpha, pid \d+, 10.7.0.1:\d+\)")

    def assert_says(self, output, *texts):
        for text in texts:
            self.assertIn(text, output)


class Interfaces(HostsTest):
    def test_the_interface_that_reached_the_store_comes_first_then_the_others(self):
        ranks = self.meet(self.two_networks(), "10.8.0.1")
        for number, rank in enumerate(ranks, 1):
            self.assert_says(rank.output, f"listens at 10.8.0.{number} (eth1: it reached the store), "
                                          f"10.7.0.{number} (eth0: also up)\n")

    def test_one_can_be_named_by_name_pattern_and_network(self):
        hosts = self.two_networks()
        for wanted in ("eth0", "*h0", "10.7.0.0/16"):
            with self.subTest(wanted):
                ranks = self.meet(hosts, "10.8.0.1", {"TUTTI_IFACE": wanted})
                self.assert_says(ranks[1].output, f"listens at 10.7.0.2 (eth0: TUTTI_IFACE={wanted})\n")

    def test_one_that_is_not_there_is_refused_with_a_list_of_what_is(self):
        said = self.refuse(self.two_hosts(), "10.7.0.1", {"TUTTI_IFACE": "ib*"})
        self.assert_says(said[0], 'TUTTI_IFACE="ib*" fits no interface of this host; there are: lo 127.0.0.1/8',
                         "eth0 10.7.0.1/24")

    def test_a_way_that_is_closed_is_left_for_another(self):
        hosts = [*self.two_networks(), self.network.host("gamma", ["10.7.0.3/24"])]
        hosts[2].card(["10.8.0.3/24"], hosts[0]._cards[1][0])
        for host in hosts[1:]:  # these two do not see each other on the first network
            switch, port = host._cards[0]
            switch.root(["ip", "link", "set", port, "type", "bridge_slave", "isolated", "on"])
        ranks = self.meet(hosts, "10.7.0.1")
        self.assertRegex(ranks[2].output, r"rank 2 reached rank 1 \(beta, pid \d+, 10.7.0.2:\d+\) at 10.8.0.2:\d+ first")

    def test_where_there_is_no_way_both_ends_and_the_reason_are_named(self):
        hosts = [*self.two_hosts(), self.network.host("gamma", ["10.7.0.3/24"])]
        hosts[2].root(["ip", "route", "add", "prohibit", "10.7.0.2"])
        said = self.refuse(hosts, "10.7.0.1", timeout_ms=4000)
        self.assertRegex(said[2], r"rank 1 \(beta, pid \d+, 10.7.0.2:\d+\): cannot connect to 10.7.0.2:\d+.*: Permission "
                                  r"denied \(errno 13\) \(a rule on this host forbids it")

    def test_packets_that_vanish_are_named_at_the_deadline(self):
        hosts = [*self.two_hosts(), self.network.host("gamma", ["10.7.0.3/24"])]
        # Something answers for beta, and throws away what comes.
        hosts[2].root(["ip", "neigh", "add", "10.7.0.2", "lladdr", "02:00:00:00:00:99", "dev", "eth0"])
        said = self.refuse(hosts, "10.7.0.1", timeout_ms=3000)
        self.assertRegex("".join(said), r"connecting for \d+\.\d s: no answer from 10.7.0.2:\d+|"
                                        r"no connection from it for \d+\.\d s")


class SameAddress(HostsTest):
    def test_bridges_of_containers_are_passed_over(self):
        hosts = self.two_hosts()
        for host in hosts:
            host.bridge("docker0", "172.17.0.1/16")
        ranks = self.meet(hosts, "10.7.0.1")
        for rank in ranks:
            self.assert_says(rank.output, "listens at 10.7.0.")
            self.assertNotIn("172.17.0.1", rank.output)

    def test_an_address_that_both_hosts_have_is_not_used(self):
        hosts = self.two_hosts()
        apart = [self.network.another_switch(), self.network.another_switch()]
        for host, switch in zip(hosts, apart):
            host.card(["192.168.122.1/24"], switch)
        self.meet(hosts, "10.7.0.1")
        said = self.refuse(hosts, "10.7.0.1", {"TUTTI_IFACE": "eth1"})
        self.assertRegex(said[0], r"rank 0 \(alpha, pid \d+\) can be reached at 192.168.122.1 only, which rank 1 on "
                                  r"another host \(beta, pid \d+\) has too")
        self.assert_says(said[1], "192.168.122.1 only")


class Names(HostsTest):
    def test_a_host_that_calls_itself_127_0_1_1(self):
        hosts = self.two_hosts()
        hosts[0].file("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 alpha\n10.7.0.2 beta\n")
        hosts[1].file("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 beta\n10.7.0.1 alpha\n")
        ranks = self.meet(hosts, "alpha")
        self.assert_says(ranks[0].output, "MASTER_ADDR alpha is 127.0.1.1 on this host (see /etc/hosts)",
                         "listens at 10.7.0.1 (eth0")

    def test_a_master_that_everybody_takes_for_himself(self):
        hosts = self.two_hosts()
        said = self.refuse([hosts[0], hosts[1]], "127.0.0.1")
        self.assert_says(said[1], "cannot reach the store at 127.0.0.1:29500", "Connection refused",
                         "127.0.0.1 is this host itself")

    def test_no_name_service(self):
        hosts = self.two_hosts()
        for host in hosts:
            host.file("/etc/resolv.conf", "nameserver 10.7.0.99\noptions timeout:1 attempts:1\n")  # nobody
            host.file("/etc/hosts", "127.0.0.1 localhost\n")
        begin = time.monotonic()
        self.meet(hosts, "10.7.0.1")  # and names are not asked for
        self.assertLess(time.monotonic() - begin, 30)
        said = self.refuse(hosts, "node-0.cluster")
        self.assertRegex(said[1], "node-0.cluster: (the name service has not answered|Temporary failure)")


class Families(HostsTest):
    def test_only_ipv6(self):
        hosts = [self.network.host(name, [f"fd07::{number}/64"]) for number, name in enumerate(("alpha", "beta"), 1)]
        ranks = self.meet(hosts, "fd07::1")
        self.assert_says(ranks[1].output, "listens at fd07::2 (eth0: it reached the store)")

    def test_one_host_without_ipv4_among_others(self):
        alpha = self.network.host("alpha", ["10.7.0.1/24", "fd07::1/64"])
        beta = self.network.host("beta", ["10.7.0.2/24", "fd07::2/64"])
        gamma = self.network.host("gamma", ["fd07::3/64"])
        for host in (alpha, beta, gamma):
            host.file("/etc/hosts", "127.0.0.1 localhost\n10.7.0.1 alpha\nfd07::1 alpha\n")
        ranks = self.meet([alpha, beta, gamma], "alpha")
        self.assert_says(ranks[0].output, "MASTER_ADDR alpha has addresses of IPv4 and of IPv6")
        self.assertRegex(ranks[0].output, r"listens at \S+ \(eth0: it reached the store\), \S+ \(eth0: also up\)\n")
        self.assert_says(ranks[2].output, "listens at fd07::3 (eth0: it reached the store)")


class Failures(HostsTest):
    def test_a_closed_port_is_named_with_both_ends_and_attempts(self):
        alpha, beta = self.two_hosts()
        del alpha  # where nobody starts rank 0
        rank = beta.start([FAULT_RANK, "1500", "meet"], {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.7.0.1",
                                                         "MASTER_PORT": "29500", "TUTTI_JOB_SECRET": "a secret"})
        self.assertEqual(rank.wait(), 1, rank.output)
        self.assertRegex(rank.output, r"cannot reach the store at 10.7.0.1:29500 within \d+\.\d+ s; attempts: "
                                      r"10.7.0.1:29500: Connection refused \(errno 111\) \(\d+ times\) "
                                      r"\(from 10.7.0.2; nothing listens there")

    def test_a_firewall_before_the_store_is_named(self):
        alpha, beta = self.two_hosts()
        alpha.root(["ip", "rule", "add", "pref", "100", "lookup", "local"])
        alpha.root(["ip", "rule", "del", "pref", "0"])
        alpha.root(["ip", "rule", "add", "pref", "50", "iif", "eth0", "ipproto", "tcp", "dport", "29500", "blackhole"])
        said = self.refuse([alpha, beta], "10.7.0.1")
        self.assert_says(said[1], "cannot reach the store at 10.7.0.1:29500", "10.7.0.1:29500: no answer",
                         "from 10.7.0.2; no answer: a firewall that drops packets")

    def test_an_unplugged_host_is_named_within_the_deadline(self):
        self.named_after_unplugging()

    def test_a_slow_link_is_slow_and_nothing_else(self):
        hosts = self.two_hosts()
        hosts[1].slow_down("50mbit")
        # The deadline of one operation; a megabyte and more takes most of a second on the way.
        ranks = self.start_looping(hosts, 20000, beat="beat 3")
        for rank in ranks:
            rank.kill()

    def test_delayed_and_lost_packets_cost_time_and_nothing_else(self):
        hosts = [self.network.host(name, [f"10.7.0.{number}/24"], cable=(10, 0.02))
                 for number, name in enumerate(("alpha", "beta", "gamma"), 1)]
        refused = "import socket, time; t = time.time(); socket.socket().connect_ex(('10.7.0.1', 9)); print(time.time() - t)"
        times = [float(hosts[1].run([sys.executable, "-c", refused])[1]) for _ in range(5)]
        self.assertGreater(min(times), 0.04)  # there and back through two cables
        self.meet(hosts, "10.7.0.1")


def sent_bytes(host):
    """By each of its cards."""
    return [int(line.split()[9]) for line in host.root(["grep", "eth", "/proc/net/dev"]).splitlines()]


class Ucx(HostsTest):
    LIBRARY = "/usr/lib/" + os.uname().machine + "-linux-gnu/libucp.so.0"
    CHOSEN = {"TUTTI_TRANSPORT": "ucx", "UCX_TLS": "tcp,self"}

    def setUp(self):
        super().setUp()
        if not os.path.exists(self.LIBRARY):
            self.skipTest(self.LIBRARY + " is not installed")

    def test_it_carries_long_payloads_and_a_killed_rank_is_named_at_once(self):
        hosts = self.two_hosts()
        ranks = self.start_looping(hosts, 60000, self.CHOSEN)
        self.assert_says(ranks[0].output, "UCX 1", "on eth0 (asked for, no card is up)", " via tcp+ucx\n")
        ranks[1].kill()
        begin = time.monotonic()
        self.assertEqual(ranks[0].wait(20), 1, outputs(ranks))
        self.assertLess(time.monotonic() - begin, 2)
        self.assertRegex(ranks[0].output, r"failed after \d+ ms: .*lost rank 1 \(beta, pid \d+, 10.7.0.2:\d+\): "
                                          "(its process closed the connection|rank 1 .* is gone)")

    def test_named_interfaces_share_what_is_sent(self):
        hosts = self.two_networks()
        for own in ([{"TUTTI_IFACE": "eth*"}] * 2, [{"TUTTI_IFACE": "eth*"}, {"TUTTI_IFACE": "eth0"}]):
            before = sent_bytes(hosts[0])
            ranks = self.start_looping(hosts, 60000, [self.CHOSEN | one for one in own])
            sent = [now - then for now, then in zip(sent_bytes(hosts[0]), before)]
            for rank in ranks:
                rank.kill()
            wait_all(ranks)
            self.assert_says(ranks[0].output, "on eth0,eth1 (asked for, no card is up)", " via tcp+ucx\n")
            self.assertEqual(min(sent) > sum(sent) / 3, own[0] == own[1], sent)

    def test_an_interface_with_several_addresses_is_one(self):
        hosts = [self.network.host(name, [f"10.7.0.{number}/24", f"10.9.0.{number}/24", f"fd00:7::{number}/64"])
                 for number, name in enumerate(("alpha", "beta"), 1)]
        for master, wanted in (("10.7.0.1", {"TUTTI_IFACE": "eth0"}), ("10.9.0.1", {}), ("fd00:7::1", {})):
            with self.subTest(master):
                ranks = self.start_looping(hosts, 60000, self.CHOSEN | wanted, master=master)
                for rank in ranks:
                    rank.kill()
                wait_all(ranks)
                self.assert_says(ranks[0].output, "on eth0 (asked for, no card is up)", " via tcp+ucx\n")

    def test_an_unplugged_host_is_named_within_the_deadline(self):
        self.named_after_unplugging(self.CHOSEN)

    def test_a_frozen_rank_is_named_within_the_deadline(self):
        ranks = self.start_looping(self.two_hosts(), 2000, self.CHOSEN)
        ranks[1].kill(signal.SIGSTOP)
        self.assertEqual(ranks[0].wait(20), 1, outputs(ranks))
        ranks[1].kill()
        self.assertRegex(ranks[0].output, r"timed out after 2.0 s of waiting for rank 1: rank 1 \(beta, pid \d+, "
                                          r"10.7.0.2:\d+\) has not arrived")

    def test_different_calls_are_named_with_the_values_of_both_ranks(self):
        ranks = start_ranks(self.two_hosts(), [FAULT_RANK, "60000", "rounds", "differ 17000 operation"], "10.7.0.1",
                            self.CHOSEN)
        wait_all(ranks)
        for rank in ranks:
            self.assert_says(rank.output, "all_reduce seq 1 (sum float32 x 17000)", "broadcast seq 1", "rank 1")

    def test_a_card_chooses_it_where_it_can_be_used(self):
        hosts = self.two_hosts()
        for host in hosts:
            host.root(["sh", "-ec", f"mkdir {host.folder}/sys; mount -t sysfs sysfs {host.folder}/sys; "
                       f"mount -t tmpfs none /sys/class; mkdir /sys/class/net; mount --bind {host.folder}/sys/class/net "
                       "/sys/class/net; mkdir -p /sys/class/infiniband/mlx5_0/ports/1; "
                       "echo 4: ACTIVE > /sys/class/infiniband/mlx5_0/ports/1/state"])
        for environment, said in ((self.CHOSEN | {"TUTTI_TRANSPORT": "auto", "UCX_NET_DEVICES": "eth0"},
                                   [" on mlx5_0:1 (its port is up)", " via tcp+ucx\n"]),
                                  ({}, [" has the card mlx5_0:1, but uses TCP: UCX could not use one of the devices "
                                        "mlx5_0:1", " via tcp\n"])):
            ranks = self.start_looping(hosts, 60000, environment, "beat 1")
            for rank in ranks:
                rank.kill()
            wait_all(ranks)
            self.assert_says(ranks[0].output, *said)

    def test_where_it_is_missing_it_is_said_what_to_install(self):
        hosts = self.two_hosts()
        for host in hosts:
            host.file(self.LIBRARY, "no library\n")
        said = self.refuse(hosts, "10.7.0.1", self.CHOSEN)
        for output in said:
            self.assert_says(output, "transport ucx: UCX is not installed", "apt-get install libucx0")
        self.meet(hosts, "10.7.0.1")  # and without it nothing changes


if __name__ == "__main__":
    why = why_not()
    if why:
        print("skipped:", why)
        sys.exit(77)
    WORLD_RANK, FAULT_RANK = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
