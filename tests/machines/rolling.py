"""Restarts one gateway after the other under load: `rolling.py BINARY`. No request may be refused, and no message may be
lost or delivered twice."""

import collections
import signal
import sys
import time

import network
from load import Account, Load
from parts import Parts, check, until, wait

ROUNDS = 2
# The answers between two restarts, at least.
ANSWERS = 300


def drained(parts, name):
    """Restarts a gateway that haproxy sends nothing to meanwhile."""
    balancer, gateway = parts.balancer, parts.gateways[name]
    balancer.set_state(name, "drain")
    balancer.until_drained(name)
    check(gateway.end(signal.SIGTERM) == 0, name, "ended with", gateway.process.returncode)
    gateway.start()
    gateway.until_connected()
    balancer.set_state(name, "ready")
    balancer.until_up(name)


def replaced(parts, name):
    """Starts a gateway on the listening socket of the old one, which haproxy does not notice."""
    old, new = parts.gateways[name], parts.gateway(name)
    new.start()
    until(lambda: new.has("listening"), f"a new {name}")
    check(old.end(signal.SIGTERM) == 0, name, "ended with", old.process.returncode)
    parts.gateways[name] = new


def roll(parts, restart):
    start = time.monotonic()
    with Load(parts) as load:
        for name in list(parts.gateways) * ROUNDS:
            count = len(load.answers) + ANSWERS
            until(lambda count=count: len(load.answers) >= count, f"{count} answers")
            restart(parts, name)
    wait(load.delivered)
    outcomes = collections.Counter(answer.outcome for answer in load.answers)
    longest_ms = 1000 * max(answer.answered - answer.sent for answer in load.answers)
    print(f"  {2 * ROUNDS} restarts in {time.monotonic() - start:.0f} s; answers: {dict(outcomes)}, the last after "
          f"{longest_ms:.0f} ms")  # fmt: skip
    check(set(outcomes) == {"200"}, outcomes)
    for hub, subscriber in load.subscribers.items():
        account = Account(load.answers, subscriber.arrivals)
        print(
            f"  {hub}: {len(account.lost)} lost, {len(account.twice)} twice, {len(account.out_of_order)} out of order"
        )
        check(not (account.lost or account.twice), "lost:", sorted(account.lost), "twice:", sorted(account.twice))
    check(parts.token not in parts.balancer.log.read_text(), "the token is in the log of haproxy")


def main(binary):
    network.build()
    print("http; each gateway drained by haproxy and restarted")
    with Parts(binary) as parts:
        roll(parts, drained)
    print("https on both sides of haproxy; the same")
    with Parts(binary, https=True) as parts:
        roll(parts, drained)
    print("http; each gateway replaced by another one on its listening socket")
    with Parts(binary, inherited=True) as parts:
        roll(parts, replaced)


if __name__ == "__main__":
    main(sys.argv[1])
