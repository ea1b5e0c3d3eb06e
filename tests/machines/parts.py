"""The programs on the machines, with the configuration files of `docs/examples` as they stand."""

import contextlib
import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import files
from network import PATIENCE_S, inside, listening_socket

WORK = Path("/tmp/machines")
PORT = 12358
GATEWAYS = ("gateway-1", "gateway-2")
# Where each hub listens for publishers. The second one is reached through its tunnel alone.
HUBS = {"hub-1": "0.0.0.0", "hub-2": "127.0.0.1"}


def check(condition, *what):
    """Raises AssertionError unless the condition is true."""
    if not condition:
        raise AssertionError(" ".join(str(part) for part in what))


def wait(condition, timeout_s=PATIENCE_S):
    """Waits until the condition is true. Returns whether it is, in time."""
    deadline = time.monotonic() + timeout_s
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds


def until(condition, what):
    check(wait(condition), "in vain waited for:", what)


class Program:
    """A program on a machine. It can be started again after its end."""

    def __init__(self, name, machine, *command, pass_fds=()):
        self.name = name
        self._command = [*inside(machine), *(str(word) for word in command)]
        self._pass_fds = pass_fds
        self.log = WORK / f"{name}.log"
        self.process = None

    def start(self, stdout=None):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=stdout or log, stderr=log, start_new_session=True,
                pass_fds=self._pass_fds,
            )  # fmt: skip

    def send(self, number):
        """Sends a signal to the program and to those that it has started."""
        for pid in with_children(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def child(self):
        """Returns the process ID of the program that this one has started."""
        return with_children(self.process.pid)[1]

    def end(self, number=signal.SIGTERM):
        """Ends the program by a signal, and returns its status."""
        if self.process.poll() is None:
            self.send(number)
        return self.process.wait(PATIENCE_S)

    def kill(self):
        self.end(signal.SIGKILL)


def with_children(pid):
    """Returns this process ID, and those of all processes that it has started, directly or not."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        children = []
    return [pid, *itertools.chain.from_iterable(with_children(int(child)) for child in children)]


class Gateway(Program):
    """`serve`, whose events are read as they come."""

    def __init__(self, name, machine, binary, *options, pass_fds=()):
        super().__init__(name, machine, binary, "serve", *options, pass_fds=pass_fds)
        self.events = []

    def start(self):
        self.events = []
        super().start(stdout=subprocess.PIPE)
        threading.Thread(target=self._read, args=(self.process.stdout, self.events), daemon=True).start()

    @staticmethod
    def _read(stdout, events):
        with stdout:
            for line in stdout:
                events.append(json.loads(line))

    def has(self, name, count=1, **fields):
        """Returns whether this many events of this name have come, with these fields."""
        return count <= sum(event["event"] == name and fields.items() <= event.items() for event in self.events)

    def until_connected(self):
        """Waits until the gateway listens and both hubs are connected."""
        until(lambda: self.has("ready") and self.has("bus", 2, state="connected"), f"{self.name}: {self.events}")


class Balancer(Program):
    """haproxy."""

    def __init__(self, https, token):
        files.install("haproxy-https.cfg" if https else "haproxy.cfg", "/etc/haproxy/haproxy.cfg")
        Path("/run/haproxy").mkdir(exist_ok=True)
        command = ["env", f"TOKEN={token}", "haproxy", "-W", "-db", "-f", "/etc/haproxy/haproxy.cfg"]
        super().__init__("haproxy", "balancer", *command)

    def listens(self):
        """Returns whether the socket for the administrator is there. One of a haproxy that was killed refuses."""
        try:
            return self.ask("show info")
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def ask(self, command):
        """Sends a command to the socket for the administrator, and returns the answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect("/run/haproxy/admin.sock")
            connection.sendall(command.encode() + b"\n")
            return connection.makefile().read().strip()

    def row(self, gateway):
        """Returns what `show stat` says of a gateway, by column."""
        lines = self.ask("show stat").lstrip("# ").splitlines()
        rows = (dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:])
        return next(row for row in rows if row["pxname"] == "gateways" and row["svname"] == gateway)

    def set_state(self, gateway, state):
        answer = self.ask(f"set server gateways/{gateway} state {state}")
        check(not answer, answer)

    def until_up(self, gateway):
        """Waits until haproxy has seen for itself that the gateway answers."""
        until(lambda: self.row(gateway)["status"] == "UP" and self.row(gateway)["check_status"] == "L7OK", gateway)

    def until_drained(self, gateway):
        """Waits until no request is on its way to the gateway, or from it."""
        until(lambda: self.row(gateway)["scur"] == "0", f"the last request of {gateway}")


class Parts:
    """All programs, started and ready. The hub `hub-1` is reached directly, `hub-2` through a tunnel. With `inherited`,
    the gateways listen on sockets that stay open when they end."""

    def __init__(self, binary, https=False, tunnel="stunnel", inherited=False, options=()):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir()
        self._binary, self._options = binary, options
        self.token = secrets.token_urlsafe(24)
        files.secret(WORK / "user_settings.py", f"OPEN_REST_API = True\nTOKEN = {self.token!r}\n")
        self.certificate = files.certificates(WORK) if https else None
        self._sockets = {name: listening_socket(name, PORT) for name in GATEWAYS} if inherited else {}
        self.hubs = {name: hub(binary, name, address) for name, address in HUBS.items()}
        self.tunnels = {program.name: program for program in TUNNELS[tunnel]()}
        self.gateways = {name: self.gateway(name) for name in GATEWAYS}
        self.balancer = Balancer(https, self.token)

    def gateway(self, name):
        """Returns a gateway that is not started yet. It publishes to both hubs."""
        pair = f"{WORK}/{name}.pem"
        tls = ["--tls-cert", pair, "--tls-key", pair] if self.certificate else ["--plain"]
        fds = [self._sockets[name].fileno()] if self._sockets else []
        listen = [f"fd:{fd}" for fd in fds] or [f"0.0.0.0:{PORT}"]
        return Gateway(
            name, name, self._binary, "--settings", f"{WORK}/user_settings.py", *tls, "--listen", *listen,
            "--connect", "tcp://hub-1:16130", "--connect", "tcp://127.0.0.1:16131", *self._options,
            pass_fds=fds,
        )  # fmt: skip

    def __iter__(self):
        yield from [*self.hubs.values(), *self.tunnels.values(), *self.gateways.values(), self.balancer]

    def by_name(self, name):
        return next(part for part in self if part.name == name)

    def __enter__(self):
        try:
            for part in self:
                part.start()
            self.until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def until_ready(self):
        """Waits until both gateways are connected to both hubs, and haproxy has seen that they answer."""
        for gateway in self.gateways.values():
            gateway.until_connected()
        until(self.balancer.listens, "haproxy")
        for name in self.gateways:
            self.balancer.until_up(name)

    def __exit__(self, *_):
        for part in self:
            if part.process is not None:
                part.kill()
        for each in self._sockets.values():
            each.close()


def hub(binary, name, address):
    """A gateway that no settings enable, with its embedded hub."""
    return Gateway(
        name, name, binary, "--settings", "/nonexistent", "--plain", "--hub", "--hub-publishers",
        f"tcp://{address}:16130", "--hub-subscribers", f"ipc://{WORK}/{name}",
    )  # fmt: skip


def stunnel():
    files.install("stunnel-gateway.conf", "/etc/stunnel/stunnel-gateway.conf")
    files.install("stunnel-hub.conf", "/etc/stunnel/stunnel-hub.conf")
    files.secret("/etc/stunnel/psk.txt", f"gateway:{secrets.token_hex(32)}\n")
    yield Program("stunnel of hub-2", "hub-2", "stunnel", "/etc/stunnel/stunnel-hub.conf")
    for name in GATEWAYS:
        yield Program(f"stunnel of {name}", name, "stunnel", "/etc/stunnel/stunnel-gateway.conf")


def ssh_local():
    """The gateways' machines connect to that of the hub."""
    files.ssh(["hub-2"])
    yield sshd("hub-2")
    for name in GATEWAYS:
        yield Program(f"ssh of {name}", name, files.EXAMPLES / "ssh-tunnel", "hub-2")


def ssh_remote():
    """The machine of the hub connects to those of the gateways."""
    files.ssh(GATEWAYS)
    yield from (sshd(name) for name in GATEWAYS)
    for name in GATEWAYS:
        yield Program(f"ssh to {name}", "hub-2", files.EXAMPLES / "ssh-tunnel", name)


def sshd(machine):
    """sshd as root gives up its rights, for which it needs a second user. The user namespace of this program has only
    one. So sshd runs as the user who logs in, in a user namespace of its own. The kernel gives none to a process whose
    root was changed."""
    return Program(
        f"sshd of {machine}", machine, "nsenter", "--mount=/proc/1/ns/mnt", "unshare", "--user", "--map-user=1000",
        "--map-group=1000", f"--root={os.environ['MACHINES_ROOT']}", "/usr/sbin/sshd", "-D", "-e",
    )  # fmt: skip


TUNNELS = {"stunnel": stunnel, "ssh -L": ssh_local, "ssh -R": ssh_remote}
