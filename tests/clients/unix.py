"""Real HTTP clients that post through a Unix socket. Each takes the gateway, the URL and the bodies, and returns the
answers."""

import asyncio
import http.client
import json
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import httpx

from gateway import check

HERE = Path(__file__).resolve().parent
HEADERS = {"Content-Type": "application/json"}


def with_curl(gateway, url, bodies):
    answers = []
    for body in bodies:
        command = ["curl", "-q", "-sS", "--max-time", "20", "--unix-socket", gateway.socket, "-w", "\n%{http_code}"]
        command += ["-H", "Content-Type: application/json", "--data-binary", "@-", url]
        done = subprocess.run(command, input=body, capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, "curl ended with", done.returncode, done.stderr)
        answer, _, status = done.stdout.rpartition("\n")
        answers.append([int(status), json.loads(answer)])
    return answers


def with_httpx(gateway, url, bodies):
    with httpx.Client(transport=httpx.HTTPTransport(uds=gateway.socket), timeout=20) as client:
        responses = [client.post(url, content=body, headers=HEADERS) for body in bodies]
    return [[response.status_code, response.json()] for response in responses]


def with_aiohttp(gateway, url, bodies):
    async def post():
        timeout = aiohttp.ClientTimeout(total=60)
        connector = aiohttp.UnixConnector(gateway.socket)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            answers = []
            for body in bodies:
                async with session.post(url, data=body, headers=HEADERS) as response:
                    answers.append([response.status, await response.json(content_type=None)])
            return answers

    return asyncio.run(post())


class UnixConnection(http.client.HTTPConnection):
    """A connection of the standard library through a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def with_standard_library(gateway, url, bodies):
    connection = UnixConnection(gateway.socket)
    parts = urlsplit(url)
    answers = []
    for body in bodies:
        connection.request("POST", f"{parts.path}?{parts.query}", body, HEADERS)
        response = connection.getresponse()
        answers.append([response.status, json.loads(response.read())])
    connection.close()
    return answers


def with_node(gateway, url, bodies):
    task = json.dumps({"socket": gateway.socket, "url": url, "bodies": bodies})
    command = ["node", HERE / "unix_request.mjs"]
    done = subprocess.run(command, input=task, capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, "node ended with", done.returncode, done.stderr)
    return json.loads(done.stdout)


CLIENTS = {
    "curl": with_curl,
    "httpx": with_httpx,
    "aiohttp": with_aiohttp,
    "Python http.client": with_standard_library,
    "Node http.request": with_node,
}
