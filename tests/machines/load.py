"""A load that accounts for every answer and every delivered message by number."""

import collections
import http.client
import itertools
import json
import ssl
import threading
import time

import zmq
from parts import PORT, WORK, until

ANSWER_TIMEOUT_S = 45
CLIENTS = 8
PAUSE_S = 0.005

# What became of a message: when it was posted and answered, and "200" or what the client saw instead.
Answer = collections.namedtuple("Answer", "number client sent answered outcome")
Arrival = collections.namedtuple("Arrival", "number at client")


class Load:
    """Clients that post numbered messages one after the other, and a subscriber of each hub. Half of the clients keep
    their connection, the others have a connection for each message. No client repeats a message."""

    def __init__(self, parts, body_bytes=200):
        self.answers = []
        self._numbers = itertools.count(1)
        self._over = threading.Event()
        self._target = f"/api/message?token={parts.token}"
        self._tls = ssl.create_default_context(cafile=parts.certificate) if parts.certificate else None
        self._filler = "." * body_bytes
        self.subscribers = {hub: Subscriber(f"ipc://{WORK}/{hub}") for hub in parts.hubs}
        self._threads = [threading.Thread(target=self._run, args=(client,), daemon=True) for client in range(CLIENTS)]

    def __enter__(self):
        probe, connection = self._body(0, None), self._connection()
        subscribers = self.subscribers.values()
        until(
            lambda: self._post(connection, probe) and all(each.subscribed.wait(0.05) for each in subscribers), "a probe"
        )
        connection.close()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_TIMEOUT_S)

    def _run(self, client):
        keeps = client % 2 == 0
        connection = self._connection()
        while not self._over.wait(PAUSE_S):
            number = next(self._numbers)
            sent = time.monotonic()
            outcome = self._post(connection, self._body(number, client))
            self.answers.append(Answer(number, client, sent, time.monotonic(), outcome))
            if not keeps or outcome != "200":
                connection.close()
        connection.close()

    def _body(self, number, client):
        return json.dumps({"topic": "load", "payload": {"number": number, "client": client, "filler": self._filler}})

    def _connection(self):
        if self._tls:
            return http.client.HTTPSConnection("balancer", PORT, timeout=ANSWER_TIMEOUT_S, context=self._tls)
        return http.client.HTTPConnection("balancer", PORT, timeout=ANSWER_TIMEOUT_S)

    def _post(self, connection, body):
        try:
            if connection.sock is None:
                connection.connect()
        except OSError as error:
            return f"no connection ({type(error).__name__})"
        try:
            connection.request("POST", self._target, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            return f"no answer ({type(error).__name__})"
        if response.status == 200:
            return "200"
        if response.headers["Content-Type"] == "application/problem+json":
            return f"{response.status} {json.loads(content)['type'].rpartition(':')[2]}"
        return f"{response.status} of haproxy"

    def delivered(self):
        """Returns whether each hub has delivered what was accepted so far."""
        accepted = {answer.number for answer in self.answers if answer.outcome == "200"}
        return all(accepted <= {arrival.number for arrival in each.arrivals} for each in self.subscribers.values())


class Subscriber:
    """Notes which messages a hub delivers, and when."""

    def __init__(self, endpoint):
        self.arrivals = []
        # Set when a probe, which has the number 0, has arrived: from then on the hub knows the subscription.
        self.subscribed = threading.Event()
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        # A hub drops what arrives before its subscribers. This one is back soon after a restart of the hub.
        self._socket.setsockopt(zmq.RECONNECT_IVL, 5)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.subscribe(b"load")
        self._socket.connect(endpoint)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            payload = json.loads(self._socket.recv_multipart()[1])
            self.subscribed.set()
            if payload["number"]:
                self.arrivals.append(Arrival(payload["number"], time.monotonic(), payload["client"]))


class Account:
    """What was answered, compared with what one hub delivered."""

    def __init__(self, answers, arrivals):
        delivered = collections.Counter(arrival.number for arrival in arrivals)
        accepted = {answer.number for answer in answers if answer.outcome == "200"}
        # Whoever gets a 503 may post the message again.
        refused = {answer.number for answer in answers if answer.outcome.startswith(("503", "no connection"))}
        self.lost = accepted - delivered.keys()
        self.twice = {number for number, times in delivered.items() if times > 1}
        self.refused_and_delivered = refused & delivered.keys()
        self.unanswered_and_delivered = delivered.keys() - accepted - refused
        self.out_of_order = {later for earlier, later in successors(arrivals) if later < earlier}


def successors(arrivals):
    """Returns each two numbers that arrived one after the other from a client that keeps its connection."""
    last = {}
    for arrival in arrivals:
        if arrival.client % 2 == 0:
            if arrival.client in last:
                yield last[arrival.client], arrival.number
            last[arrival.client] = arrival.number
