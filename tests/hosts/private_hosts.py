"""Several hosts on one machine: namespaces with a network, host name, processes and files in /etc of their own.

    with Network() as network:
        alpha = network.host("alpha", ["10.7.0.1/24"])
        beta = network.host("beta", ["10.7.0.2/24", "fd07::2/64"])
        rank = alpha.start(["some", "command"], {"RANK": "0"})
        beta.unplug()

A host is the namespaces of one process, its init; the switch between them is one more, with a bridge. Nothing has a
name outside of them: when an init ends, which it does when its input ends, all its processes die with it, and its
cards, addresses and rules go. So nothing runs on, whatever happens to the program that uses this; a folder of small files
of a program that was killed is removed by the next. Any number of networks can exist at once. Needs root, and iproute2 and util-linux.
"""

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

_PREFIX = "tutti-hosts-"
_INIT = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"
# SIGINT and the like are for the test, which then ends the hosts in its own order.
_UNSHARE = ["setsid", "unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def why_not():
    """Why hosts cannot be made here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "unshare", "nsenter", "setsid"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    try:
        with Network() as network:
            network.host("probe", ["10.9.9.1/24"])
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return f"namespaces cannot be made here: {error}"
    return None


class Process:
    """A command on a host. Its output is collected by a thread; `lines` grows as it comes."""

    def __init__(self, host, argv, environment, outside=False):
        self.host = host
        self.argv = argv
        self._outside = outside
        variables = {**os.environ, **environment}
        self._enter = subprocess.Popen(
            (host.enter_network if outside else host.enter) + argv, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True)
        self.lines = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._enter.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        self._enter.stdout.close()
        with self._news:
            self.lines.append(None)
            self._news.notify_all()

    @property
    def output(self):
        return "\n".join(line for line in self.lines if line is not None)

    @property
    def pid(self):
        """Its process id out here; None if it has ended."""
        if self._outside:
            return self._enter.pid if self._enter.poll() is None else None
        pids = _children(self._enter.pid)
        return pids[0] if pids else None

    def wait_for(self, text, limit=30):
        """The first line with `text` in it; None if the output ends, or `limit` seconds pass, without one."""
        end = time.monotonic() + limit
        seen = 0
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    if line is None:
                        return None
                    if text in line:
                        return line
                seen = len(self.lines)
                if not self._news.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    return None

    def kill(self, number=signal.SIGKILL):
        pid = self.pid
        if pid:
            os.kill(pid, number)
        if number == signal.SIGKILL:
            self._enter.send_signal(signal.SIGCONT)  # nsenter(1) stops together with its child

    def wait(self, limit=60):
        """Its exit status (negative: the signal); raises TimeoutExpired with what it has printed."""
        try:
            status = self._enter.wait(limit)
        except subprocess.TimeoutExpired:
            raise subprocess.TimeoutExpired(self.argv, limit, self.output) from None
        self._reader.join(10)
        return -(status - 128) if status > 128 and not self._outside else status


class Host:
    """One host. Its first card is eth0, its next eth1, ..."""

    def __init__(self, network, name, folder):
        self.name = name
        self.folder = folder
        self._network = network
        self._cards = []
        self._init = subprocess.Popen([*_UNSHARE, sys.executable, "-c", _INIT], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        if self._init.stdout.readline() != "up\n":
            raise RuntimeError(f"host {name} has not come up")
        self.init_pid = _children(self._init.pid)[0]
        self._namespaces = os.readlink(f"/proc/{self.init_pid}/ns/pid")
        self.enter = ["nsenter", f"--target={self.init_pid}", "--net", "--uts", "--mount", "--pid", "--"]
        self.enter_network = ["nsenter", f"--target={self.init_pid}", "--net", "--uts", "--"]
        self.root(["hostname", name])
        self.root(["ip", "link", "set", "lo", "up"])
        self.root(["mount", "-t", "sysfs", "sysfs", "/sys"])

    def root(self, argv):
        """Runs a short command; raises with its output if it fails. Returns what it prints."""
        done = subprocess.run(self.enter + argv, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(argv)}: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def start(self, argv, environment=None):
        return Process(self, [str(word) for word in argv], environment or {})

    def start_outside(self, argv, environment=None):
        """In this host's network, but among the processes and files out here: what is to reach into other hosts, as a
        launcher does with Network.remote_shell(). It must end by itself when these are gone."""
        return Process(self, [str(word) for word in argv], environment or {}, outside=True)

    def run(self, argv, environment=None, limit=60):
        process = self.start(argv, environment)
        return process.wait(limit), process.output

    def card(self, addresses, switch=None, cable=None):
        """One more card at the switch (a second network: another switch). `cable`: (delay in ms, share that is lost) of
        a bad one. Returns its name."""
        name = f"eth{len(self._cards)}"
        self._cards.append((switch or self._network.switch).attach(self, name, cable))
        for address in addresses:
            self.root(["ip", "addr", "add", address, "dev", name, *(["nodad"] if ":" in address else [])])
        self.root(["ip", "link", "set", name, "up"])
        return name

    def bridge(self, name, address):
        """What container software leaves behind: a bridge with an address and nothing behind it."""
        self.root(["ip", "link", "add", name, "type", "bridge"])
        self.root(["ip", "addr", "add", address, "dev", name])
        self.root(["ip", "link", "set", name, "up"])

    def file(self, path, text):
        """This host's own content of a file that exists, like /etc/hosts."""
        own = self.folder / path.strip("/").replace("/", "_")
        own.write_text(text, encoding="utf-8")
        self.root(["mount", "--bind", str(own), path])

    def unplug(self):
        """Pulls the cables: everything stays up here, and nothing gets through any more. Nobody is told."""
        for switch, port in self._cards:
            switch.root(["ip", "link", "set", port, "nomaster"])

    def plug(self):
        for switch, port in self._cards:
            switch.root(["ip", "link", "set", port, "master", "br0"])

    def slow_down(self, rate, card="eth0"):
        self.root(["tc", "qdisc", "replace", "dev", card, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"])

    def processes(self):
        """{pid out here: command line} of all that runs there, but for init and what is dead already."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.init_pid:
                continue
            try:
                if os.readlink(entry / "ns/pid") != self._namespaces:
                    continue
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                    continue
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
        return found

    def power_off(self):
        """All its processes die at once, and its cards are gone."""
        if self._init.poll() is None:
            self._init.stdin.close()
            self._init.wait(30)
        self._init.stdout.close()


class Switch(Host):
    """Where the cables end."""

    def __init__(self, network, name, folder):
        super().__init__(network, name, folder)
        self._ports = 0
        self._carriers = []  # the programs of bad cables
        self.root(["ip", "link", "add", "br0", "type", "bridge"])
        self.root(["ip", "link", "set", "br0", "up"])

    def attach(self, host, card, cable=None):
        self._ports += 1
        port = f"port{self._ports}"
        if cable:
            program = pathlib.Path(__file__).with_name("bad_cable.py")
            carrier = self.start([sys.executable, program, port, "other", *cable, self._ports])
            self._carriers.append(carrier)
            if carrier.wait_for("up") is None:
                raise RuntimeError(f"no bad cable for {host.name}: {carrier.output}")
        else:
            self.root(["ip", "link", "add", port, "type", "veth", "peer", "name", "other"])
        # Namespaces are told apart by what their processes are called in here, where there is no /proc of others.
        subprocess.run(["nsenter", f"--target={self.init_pid}", "--net", "--", "ip", "link", "set", "other", "netns",
                        str(host.init_pid), "name", card], check=True, timeout=60)
        self.root(["ip", "link", "set", port, "master", "br0", "up"])
        return self, port


class Network:
    def __init__(self):
        _remove_abandoned_folders()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = open(self.folder / "new", "w", encoding="utf-8")  # held, so that nobody takes it for abandoned
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.folder / "new").rename(self.folder / "lock")
        self.hosts = {}
        self._switches = []
        self.switch = self.another_switch()

    def another_switch(self):
        switch = Switch(self, f"switch{len(self._switches)}", self.folder)
        self._switches.append(switch)
        return switch

    def host(self, name, addresses, cable=None):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if name in self.hosts:
            self.hosts[name].power_off()
        host = Host(self, name, folder)
        self.hosts[name] = host
        if addresses:
            host.card(addresses, cable=cable)
        return host

    def remote_shell(self):
        """A command that is called as ssh is: HOST COMMAND-LINE. Its cable is not pulled with a host's."""
        path = self.folder / "rsh"
        lines = "".join(f"{name}) target={host.init_pid};;\n" for name, host in self.hosts.items())
        path.write_text("#!/bin/sh\ncase $1 in\n" + lines + "*) echo \"no host $1\" >&2; exit 255;;\nesac\nshift\n"
                        "exec nsenter --target=$target --net --uts --mount --pid -- /bin/sh -c \"$*\"\n",
                        encoding="utf-8")
        path.chmod(0o700)
        return str(path)

    def close(self):
        for host in [*self.hosts.values(), *self._switches]:
            host.power_off()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _remove_abandoned_folders():
    """Of programs that were killed: the one thing that outlives them."""
    for lock in pathlib.Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock"):
        try:
            with open(lock, encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # its owner lives, or has just removed it


def _children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
