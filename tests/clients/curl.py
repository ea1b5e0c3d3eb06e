"""The checks that need curl: versions of HTTP, framing, expectations, connections."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gateway import check

JSON = ["-H", "Content-Type: application/json"]
ACCEPTED = b'{"status":"accepted"}\n'
# If a program parses this payload and writes it anew, its bytes change: spacing, order, escapes, large numbers.
PAYLOAD = rb'{ "z" : 1.0e2,"a":"\u00e9","n":12345678901234567890.10 , "m":[ -0 ]}'
WRITE_OUT = "%{http_code} %{http_version} %{num_connects} %{size_upload}\\n"


@dataclass
class Transfer:
    status: int
    version: str
    connects: int
    uploaded: int


@dataclass
class Run:
    transfers: list
    output: bytes
    trace: str


def curl(gateway, *arguments, body=None, urls=1):
    """Runs curl. It reads the body from its stdin, and the URL and the token from a configuration file."""
    config = gateway.directory / "curl.conf"
    # Each further URL needs an output of its own.
    config.write_text("".join(f'url = "{gateway.target}"\noutput = "{gateway.directory}/answer{n}"\n' for n in range(urls)))
    trust = ["--cacert", gateway.certificate] if gateway.certificate else []
    command = ["curl", "-q", "-sS", "-v", "--max-time", "20", "--noproxy", "*", "-w", WRITE_OUT, "-K", str(config)]
    done = subprocess.run([*command, *trust, *arguments], input=body, capture_output=True, timeout=30)
    # Some versions of curl write bytes of TLS into the trace.
    trace = done.stderr.decode(errors="replace")
    check(done.returncode == 0, "curl ended with", done.returncode, trace.replace(gateway.token, "..."))
    transfers = []
    for line in done.stdout.decode().splitlines():
        status, version, connects, uploaded = line.split()
        transfers.append(Transfer(int(status), version, int(connects), int(uploaded)))
    output = b""
    for n in range(urls):
        answer = Path(f"{gateway.directory}/answer{n}")
        if answer.exists():
            output += answer.read_bytes()
            answer.unlink()
    return Run(transfers, output, trace)


def message(topic, payload=PAYLOAD):
    return b'{"topic":"%s", "payload":%s}' % (topic.encode(), payload)


def versions(gateway):
    run = curl(gateway, *JSON, "--http1.1", "--data-binary", "@-", body=message("curl/1.1"))
    check(run.output == ACCEPTED and run.transfers[0].status == 200, run.output)
    check("> POST /api/message?token=" in run.trace and " HTTP/1.1\n" in run.trace.replace("\r", ""), "not HTTP/1.1")
    check("< Connection: close" not in run.trace, "HTTP/1.1 is persistent")

    run = curl(gateway, *JSON, "--http1.0", "--data-binary", "@-", body=message("curl/1.0"))
    check(run.output == ACCEPTED and run.transfers[0].status == 200, run.output)
    check("< Connection: close" in run.trace, "HTTP/1.0 is not persistent by itself")
    return [("curl/1.1", PAYLOAD), ("curl/1.0", PAYLOAD)]


def connections(gateway):
    expected = []
    for topic, arguments in [
        ("curl/keep-alive/1.1", ["--http1.1"]),
        ("curl/keep-alive/1.0", ["--http1.0", "-H", "Connection: keep-alive"]),
    ]:
        run = curl(gateway, *JSON, *arguments, "--data-binary", "@-", body=message(topic), urls=2)
        check(run.output == ACCEPTED * 2, run.output)
        check([transfer.connects for transfer in run.transfers] == [1, 0], topic, run.transfers)
        expected += [(topic, PAYLOAD)] * 2
    return expected


def framing(gateway):
    large = b'{"text":"%s"}' % (b"x" * 900_000)
    chunked = ["-X", "POST", "-T", "-"]
    for payload in [PAYLOAD, large]:
        run = curl(gateway, *JSON, *chunked, body=message("curl/chunked", payload))
        check(run.output == ACCEPTED, run.output)
        check("> Transfer-Encoding: chunked" in run.trace, "curl did not send chunks")
    return [("curl/chunked", PAYLOAD), ("curl/chunked", large)]


def expectations(gateway):
    expect = [*JSON, "-H", "Expect: 100-continue", "--expect100-timeout", "15", "--data-binary", "@-"]
    fits = b'{"text":"%s"}' % (b"y" * 1_000_000)
    run = curl(gateway, *expect, body=message("curl/expect", fits))
    check(run.output == ACCEPTED, run.output)
    check("< HTTP/1.1 100 Continue" in run.trace, "no 100 Continue before the body")

    run = curl(gateway, *expect, body=message("curl/too-large", b'{"text":"%s"}' % (b"z" * 1_048_576)))
    check(run.transfers[0].status == 413 and run.transfers[0].uploaded == 0, run.transfers)
    check("100 Continue" not in run.trace, "a body that is too large was asked for")
    check(json.loads(run.output)["type"].endswith(":body-too-large"), run.output)

    # Chunks do not tell the length of the body: the answer arrives while curl is sending, and curl must be able to read it.
    run = curl(gateway, *JSON, "-X", "POST", "-T", "-", body=b"0" * 3_000_000)
    check(run.transfers[0].status == 413, run.transfers)
    check(json.loads(run.output)["status"] == 413, run.output)
    return [("curl/expect", fits)]


def preflight(gateway):
    run = curl(
        gateway,
        *["-X", "OPTIONS", "-H", "Origin: https://page.example"],
        *["-H", "Access-Control-Request-Method: POST", "-H", "Access-Control-Request-Headers: content-type"],
        *["-H", "Access-Control-Request-Private-Network: true"],
    )
    answer = run.trace.lower().replace("\r", "")
    check(run.transfers[0].status == 204 and run.output == b"", run)
    for field in [
        "access-control-allow-origin: *",
        "access-control-allow-methods: post",
        "access-control-allow-headers: content-type",
        "access-control-allow-private-network: true",
        "allow: post, options",
    ]:
        check(f"\n< {field}" in answer, "no", field)
    return []


def tls(gateway):
    if gateway.plain:
        return []
    expected = []
    for version in ["1.2", "1.3"]:
        topic = f"curl/tls/{version}"
        only = [f"--tlsv{version}", "--tls-max", version]
        run = curl(gateway, *JSON, *only, "--data-binary", "@-", body=message(topic), urls=2)
        check(run.output == ACCEPTED * 2, run.output)
        check([transfer.connects for transfer in run.transfers] == [1, 0], topic, run.transfers)
        check(f"SSL connection using TLSv{version}" in run.trace, "not TLS", version)
        check("ALPN: server accepted http/1.1" in run.trace, "no ALPN")
        expected += [(topic, PAYLOAD)] * 2
    refused = subprocess.run(
        ["curl", "-q", "-sS", "--max-time", "20", "--noproxy", "*", gateway.url], capture_output=True, timeout=30
    )
    check(refused.returncode == 60, "curl trusts the certificate without being told to:", refused.returncode)
    plain = subprocess.run(
        ["curl", "-q", "-sS", "-i", "--max-time", "20", "--noproxy", "*", gateway.url.replace("https:", "http:")],
        capture_output=True,
        timeout=30,
    )
    check(plain.stdout.startswith(b"HTTP/1.1 400 ") and b"https" in plain.stdout, plain.stdout)
    check(b"\ncontent-type: text/plain" in plain.stdout.lower(), plain.stdout)
    return expected


CHECKS = [versions, connections, framing, expectations, preflight, tls]
