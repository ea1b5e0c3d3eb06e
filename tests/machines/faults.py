"""Causes each fault of benches/soak.md under load, and prints what came of it: `faults.py BINARY [WORD]...`. With words,
only the faults that have them in their names."""

import collections
import os
import signal
import sys
import time

import network
from load import CLIENTS, Account, Load
from parts import Parts, until, wait

# An answer that takes longer, and a message that arrives later, shows the fault.
PROMPT_S = 1
ANSWERS = 300
RECOVERY_S = 90

# A fault, what causes and what ends it, how long it lasts, and what the machines and the load are made of.
Fault = collections.namedtuple("Fault", "name cause cure lasts_s parts load", defaults=({}, {}))


def nothing(_):
    pass


def killed(*names, lasts_s=3, number=signal.SIGKILL, how="killed", **options):
    return Fault(
        f"{' and '.join(names)} {how}, started again after {lasts_s} s",
        lambda parts: [parts.by_name(name).end(number) for name in names],
        lambda parts: [parts.by_name(name).start() for name in names],
        lasts_s,
        **options,
    )


def ended(name, **options):
    return killed(name, number=signal.SIGTERM, how="ended by SIGTERM", **options)


def stopped(name, lasts_s=5, **options):
    return Fault(
        f"{name} stopped for {lasts_s} s",
        lambda parts: parts.by_name(name).send(signal.SIGSTOP),
        lambda parts: parts.by_name(name).send(signal.SIGCONT),
        lasts_s,
        **options,
    )


def cut(machine, lasts_s=5, **options):
    return Fault(
        f"{machine} cut off for {lasts_s} s",
        lambda _: network.cut(machine),
        lambda _: network.heal(machine),
        lasts_s,
        **options,
    )


def ssh_killed(name, **options):
    return Fault(
        f"{name} killed, started again by its script",
        lambda parts: os.kill(parts.by_name(name).child(), signal.SIGKILL),
        nothing,
        0,
        **options,
    )


def reloaded():
    return Fault("haproxy reloaded", lambda parts: os.kill(parts.balancer.child(), signal.SIGUSR2), nothing, 0)


LOCAL, REMOTE = {"parts": {"tunnel": "ssh -L"}}, {"parts": {"tunnel": "ssh -R"}}
HTTPS = {"parts": {"https": True}}
FAULTS = [
    killed("gateway-1"),
    ended("gateway-1"),
    ended("gateway-1", lasts_s=0),
    stopped("gateway-1", 15),
    cut("gateway-1", 15),
    killed("hub-1"),
    ended("hub-1"),
    stopped("hub-1"),
    stopped("hub-1", 20, parts={"options": ["--queue", "1000"]}, load={"body_bytes": 10_000}),
    cut("hub-1"),
    cut("hub-1", 40),
    cut("hub-1", 60),
    killed("hub-2"),
    stopped("hub-2"),
    cut("hub-2"),
    cut("hub-2", 40),
    killed("hub-1", "hub-2"),
    killed("hub-1", "stunnel of gateway-1", lasts_s=10),
    killed("hub-1", "stunnel of gateway-1", lasts_s=10, **HTTPS),
    killed("stunnel of gateway-1"),
    stopped("stunnel of gateway-1"),
    killed("stunnel of hub-2"),
    stopped("stunnel of hub-2"),
    ssh_killed("ssh of gateway-1", **LOCAL),
    stopped("ssh of gateway-1", **LOCAL),
    stopped("ssh of gateway-1", 30, **LOCAL),
    killed("sshd of hub-2", **LOCAL),
    stopped("sshd of hub-2", **LOCAL),
    cut("hub-2", **LOCAL),
    cut("hub-2", 40, **LOCAL),
    ssh_killed("ssh to gateway-1", **REMOTE),
    killed("sshd of gateway-1", **REMOTE),
    cut("hub-2", 40, **REMOTE),
    killed("haproxy"),
    stopped("haproxy"),
    cut("balancer"),
    reloaded(),
]


def is_served(load, ended):
    """Returns whether, for the last two seconds and since the end of the fault, each client got each message accepted and
    delivered in time."""
    end = time.monotonic() - PROMPT_S
    recent = [answer for answer in load.answers[-10_000:] if end - 2 < answer.sent < end]
    return (
        end - 2 > ended and {answer.client for answer in recent} == set(range(CLIENTS)) and not troubles(load, recent)
    )


def troubles(load, answers):
    """Returns the times at which messages were posted that were not accepted and delivered in time."""
    refused = [a.sent for a in answers if a.outcome != "200" or a.answered - a.sent > PROMPT_S]
    return refused + [time for hub in load.subscribers for time in late(load, answers, hub)]


def late(load, answers, hub):
    arrived = {arrival.number: arrival.at for arrival in load.subscribers[hub].arrivals}
    never = float("inf")
    return [a.sent for a in answers if a.outcome == "200" and arrived.get(a.number, never) - a.sent > PROMPT_S]


def cause(binary, fault):
    """Causes the fault under load, waits until everything is served again, and prints what came of it."""
    with Parts(binary, **fault.parts) as parts, Load(parts, **fault.load) as load:
        until(lambda: len(load.answers) >= ANSWERS, "answers")
        began = time.monotonic()
        fault.cause(parts)
        time.sleep(fault.lasts_s)
        fault.cure(parts)
        ended = time.monotonic()
        served = wait(lambda: time.sleep(0.2) or is_served(load, ended), RECOVERY_S)
        load.end()
        wait(load.delivered, 5)
        print(f"{fault.name} {fault.parts or ''}{fault.load or ''}" + ("" if served else ": NOT SERVED AGAIN"))
        report([answer for answer in load.answers if answer.answered > began], began, ended)
        for hub in load.subscribers:
            report_hub(load, hub, began, ended)
        print(flush=True)


def report(answers, began, ended):
    for outcome, count in sorted(collections.Counter(answer.outcome for answer in answers).items()):
        times = [answer.answered - began for answer in answers if answer.outcome == outcome]
        print(f"  {count} {outcome}" + (f", from {min(times):.2f} s to {max(times):.2f} s" if outcome != "200" else ""))
    waits = [answer.answered - answer.sent for answer in answers]
    print(f"  longest wait {max(waits):.2f} s, {sum(wait > PROMPT_S for wait in waits)} of more than {PROMPT_S} s")
    if bad := [a.answered for a in answers if a.outcome != "200" or a.answered - a.sent > PROMPT_S]:
        print(f"  clients are served again {max(bad) - ended:+.2f} s after its end")


def report_hub(load, hub, began, ended):
    account = Account(load.answers, load.subscribers[hub].arrivals)
    later = {answer.number for answer in load.answers if answer.sent > began}
    print(
        f"  {hub}: lost {len(account.lost - later)} posted before, {len(account.lost & later)} posted later;", end=" "
    )
    print(f"delivered {len(account.twice)} twice, {len(account.unanswered_and_delivered)} without an answer,", end=" ")
    print(f"{len(account.refused_and_delivered)} refused; {len(account.out_of_order)} out of order", end="")
    times = late(load, load.answers, hub)
    print(f"; in time again {max(times) - ended:+.2f} s after its end" if times else "")
    sent = {answer.number: answer.sent for answer in load.answers}
    delays = [arrival.at - sent[arrival.number] for arrival in load.subscribers[hub].arrivals]
    print(f"    the slowest message arrived after {max(delays):.2f} s")


if __name__ == "__main__":
    network.build()
    for each in FAULTS:
        if all(word in each.name for word in sys.argv[2:]):
            cause(sys.argv[1], each)
