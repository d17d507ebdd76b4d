"""PyTorch's own TCPStore client against Tutti's server for it: `tutti store --torch`.

usage: torch_store_client.py TUTTI      exit status 77: PyTorch is not installed

What this PyTorch does not have (1.13 has no append) is left out, and said.
"""
import datetime
import os
import signal
import subprocess
import sys
import threading
import unittest

try:
    import torch
    from torch.distributed import TCPStore
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

PATIENCE = datetime.timedelta(seconds=60)
LEGACY = int(torch.__version__.split(".")[0]) < 2


class Server:
    """`tutti store --torch` on a free port, ended by SIGTERM."""

    def __init__(self):
        self.process = subprocess.Popen([TUTTI, "store", "--torch"], stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.port = int(next(word for word in words if word.startswith("MASTER_PORT=")).split("=")[1])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=30)
        return self.process.returncode, rest.splitlines()[-1]


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        status, last_line = cls.server.end()
        assert (status, last_line) == (0, "ended by SIGTERM"), (status, last_line)

    def client(self, **options):
        options = {"is_master": False, "wait_for_workers": False, "timeout": PATIENCE} | options
        return TCPStore("127.0.0.1", self.server.port, **options)

    def settle(self, client):
        """SET, APPEND and the like have no reply: after this they are done, as seen by other clients."""
        client.num_keys()

    def need(self, name):
        """Skips a test of what this PyTorch does not have."""
        if not hasattr(TCPStore, name):
            self.skipTest(f"PyTorch {torch.__version__} has no TCPStore.{name}")

    def test_set_get_and_binary_values(self):
        a, b = self.client(), self.client()
        a.set("text", "value")
        a.set("empty", "")
        a.set("long", "x" * (1 << 20))
        self.assertEqual(b.get("text"), b"value")
        self.assertEqual(b.get("empty"), b"")
        self.assertEqual(len(b.get("long")), 1 << 20)

    def test_add_counts_for_all(self):
        a, b = self.client(), self.client()
        self.assertEqual([a.add("n", 2), b.add("n", 3), a.add("n", -10)], [2, 5, -5])
        self.assertEqual(b.get("n"), b"-5")

    def test_wait_and_check(self):
        a, b = self.client(), self.client()
        self.assertFalse(a.check(["late"]) if not LEGACY else False)
        waiting = threading.Thread(target=lambda: a.wait(["late", "later"], PATIENCE))
        waiting.start()
        b.set("late", "1")
        b.set("later", "1")
        waiting.join(60)
        self.assertFalse(waiting.is_alive())
        if not LEGACY:
            self.assertTrue(a.check(["late", "later"]))

    def test_a_wait_that_times_out_leaves_the_client_usable(self):
        if LEGACY:
            self.skipTest("PyTorch 1 has no CANCEL_WAIT")
        a = self.client()
        with self.assertRaises(Exception):
            a.wait(["never"], datetime.timedelta(milliseconds=50))
        a.set("after", "x")
        self.assertEqual(a.get("after"), b"x")

    def test_compare_set(self):
        a = self.client()
        self.assertEqual(a.compare_set("c", "expected", "new"), b"expected")
        self.assertEqual(a.compare_set("c", "", "first"), b"first")
        self.assertEqual(a.compare_set("c", "wrong", "second"), b"first")
        self.assertEqual(a.compare_set("c", "first", "second"), b"second")

    def test_delete_key_and_num_keys(self):
        a = self.client()
        before = a.num_keys()
        a.set("gone", "x")
        self.assertEqual(a.num_keys(), before + 1)
        self.assertTrue(a.delete_key("gone"))
        self.assertFalse(a.delete_key("gone"))
        self.assertEqual(a.num_keys(), before)

    def test_append_multi_get_multi_set(self):
        self.need("append")
        a, b = self.client(), self.client()
        a.append("appended", "one ")
        self.settle(a)
        b.append("appended", "two")
        self.settle(b)
        a.multi_set(["m1", "m2"], ["1", "2"])
        self.assertEqual(b.multi_get(["m1", "appended", "m2"]), [b"1", b"one two", b"2"])

    def test_list_keys_and_barrier(self):
        self.need("list_keys")
        a, b = self.client(), self.client()
        a.set("listed", "x")
        self.settle(a)
        self.assertIn("listed", b.list_keys())
        other = threading.Thread(target=lambda: a.barrier("meet", 2, PATIENCE))
        other.start()
        b.barrier("meet", 2, PATIENCE)
        other.join(60)
        self.assertFalse(other.is_alive())

    def test_a_world_that_waits_for_its_workers(self):
        """What init_process_group does: every client adds to init/, and waits until all have."""
        clients = [None, None]

        def join(index):
            clients[index] = self.client(world_size=2, wait_for_workers=True)

        threads = [threading.Thread(target=join, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        clients[0].set("joined", "yes")
        self.assertEqual(clients[1].get("joined"), b"yes")

    def test_many_clients_at_once(self):
        clients = [self.client() for _ in range(16)]
        counts = sorted(client.add("many", 1) for client in clients)
        self.assertEqual(counts, list(range(1, 17)))


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    print("PyTorch", torch.__version__)
    unittest.main(verbosity=2)
