"""Machines: network namespaces with a bridge between them. A process in one of them can be started, cut off, and found
by its name. All of it ends with the network namespace and the mount namespace of this program."""

import ctypes
import errno
import socket
import subprocess
import time
from pathlib import Path

NAMESPACES = Path("/run/netns")
PATIENCE_S = 60
ADDRESSES = {"client": 1, "balancer": 2, "gateway-1": 11, "gateway-2": 12, "hub-1": 21, "hub-2": 22}


def ip(*words, machine=None):
    subprocess.run([*inside(machine), "ip", *words], check=True)


def inside(machine):
    """Returns what begins a command line that runs on this machine."""
    return ["nsenter", f"--net={NAMESPACES / machine}"] if machine else []


def build():
    """Makes the machines. This program itself is on the machine `client`."""
    NAMESPACES.mkdir(parents=True, exist_ok=True)
    ip("link", "add", "switch", "type", "bridge")
    ip("address", "add", f"10.83.0.{ADDRESSES['client']}/24", "dev", "switch")
    ip("link", "set", "switch", "up")
    for machine, number in ADDRESSES.items():
        if machine == "client":
            continue
        (NAMESPACES / machine).touch()
        subprocess.run(["unshare", f"--net={NAMESPACES / machine}", "true"], check=True)
        ip("link", "add", machine, "type", "veth", "peer", "name", "eth0", "netns", str(NAMESPACES / machine))
        ip("link", "set", "lo", "up", machine=machine)
        ip("address", "add", f"10.83.0.{number}/24", "dev", "eth0", machine=machine)
        ip("link", "set", "eth0", "up", machine=machine)
        ip("link", "set", machine, "up")
        heal(machine)
        # sshd runs as a user who is not root, see parts.py.
        set_kernel(machine, "ip_unprivileged_port_start", 0)
    names = [f"10.83.0.{number} {machine}\n" for machine, number in ADDRESSES.items()]
    Path("/etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(names))


def cut(machine):
    """Takes the machine's cable out of the switch. Its own link stays up: packets are lost, and nobody is told."""
    ip("link", "set", machine, "nomaster")


def heal(machine):
    ip("link", "set", machine, "master", "switch")


def set_kernel(machine, name, value):
    """Sets a variable of TCP/IP on this machine."""
    write = f"echo {value} > /proc/sys/net/ipv4/{name}"
    subprocess.run([*inside(machine), "bash", "-c", write], check=True)


def listening_socket(machine, port):
    """Returns a listening socket on this machine."""
    deadline = time.monotonic() + PATIENCE_S
    with open("/proc/thread-self/ns/net") as here, open(NAMESPACES / machine) as there:
        enter(there)
        try:
            while True:
                try:
                    return socket.create_server(("", port), backlog=4096)
                except OSError as error:
                    # The kernel closes the sockets of a ring some time after the end of its process.
                    if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
        finally:
            enter(here)


def enter(namespace):
    """Moves this thread into a network namespace. A socket stays in the one in which it was made."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
