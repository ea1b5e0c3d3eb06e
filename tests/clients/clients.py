"""Runs real HTTP clients against the real gateway: `clients.py GATEWAY`.

Each client posts every message of the OpenAPI document, then one with a wrong token. Two subscribers, pyzmq's and the
gateway's own `listen`, must receive exactly what was posted, in order. All of this runs over http, and again over
https, where programs with other TLS libraries post too; some of them once more with a certificate as it was made
before. Then the clients that know Unix sockets post through one. A client that is not installed is skipped; if the
environment variable CI is set, it is a failure.
"""

import asyncio
import functools
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import requests

import browser
import curl
import tls
import unix
from gateway import Gateway, Listener, Subscriber, check, received_until_marker, until_received
from messages import COLLECTION, messages

HERE = Path(__file__).resolve().parent
BUN = os.environ.get("BUN", "bun")
ACCEPTED = [200, {"status": "accepted"}]
# No proxy stands between a client and the loopback interface.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name.lower() not in ("http_proxy", "https_proxy", "all_proxy")
}


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, **options)
    check(done.returncode == 0, Path(command[0]).name, "ended with", done.returncode, done.stdout, done.stderr)
    return done.stdout


def with_httpie(gateway, url, bodies):
    http = Path(sys.executable).with_name("http")
    verify = ["--verify", gateway.certificate] if gateway.certificate else []
    answers = []
    for body in bodies:
        command = [http, "--ignore-netrc", "--timeout=20", "--print=hb", "--pretty=none", *verify, "POST", url]
        head, _, answer = run(command, input=body).replace("\r", "").partition("\n\n")
        answers.append([int(head.split()[1]), json.loads(answer)])
    return answers


def with_requests(gateway, url, bodies):
    with requests.Session() as session:
        session.trust_env = False
        session.verify = gateway.certificate or True
        responses = [session.post(url, json=json.loads(body), timeout=20) for body in bodies]
    return [[response.status_code, response.json()] for response in responses]


def with_aiohttp(gateway, url, bodies):
    async def post():
        trust = ssl.create_default_context(cafile=gateway.certificate) if gateway.certificate else True
        timeout = aiohttp.ClientTimeout(total=60)
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            answers = []
            for body in bodies:
                async with session.post(url, json=json.loads(body)) as response:
                    answers.append([response.status, await response.json(content_type=None)])
            return answers

    return asyncio.run(post())


def with_fetch(program, gateway, url, bodies):
    trust = {"NODE_EXTRA_CA_CERTS": gateway.certificate} if gateway.certificate else {}
    done = subprocess.run(
        [program, HERE / "fetch.mjs"],
        input=json.dumps({"url": url, "bodies": bodies}),
        capture_output=True,
        text=True,
        timeout=120,
        env=ENVIRONMENT | trust,
    )
    check(done.returncode == 0, program, "ended with", done.returncode, done.stderr)
    return json.loads(done.stdout)


def with_browser(name, way):
    def post(gateway, url, bodies):
        return browser.run_page(name, [{"way": way, "url": url, "body": body} for body in bodies], gateway.authority)

    return post


CLIENTS = {
    "httpie": with_httpie,
    "Python requests": with_requests,
    "aiohttp": with_aiohttp,
    "Node fetch": functools.partial(with_fetch, "node"),
    "Bun fetch": functools.partial(with_fetch, BUN),
}


def every_message(post, gateway, subscribers, url=None):
    """The messages of the client arrive, and it can read the answer to a wrong token."""
    url = url or gateway.url
    posted = list(messages().values())
    answers = post(gateway, f"{url}?token={gateway.token}", [json.dumps(message) for message in posted])
    check(answers == [ACCEPTED] * len(posted), answers)
    [[status, problem]] = post(gateway, f"{url}?token=wrong", [json.dumps(posted[0])])
    check(status == 401 and problem["status"] == 401 and problem["type"].endswith(":token"), status, problem)
    expected = [(message["topic"], message["payload"]) for message in posted]
    for received in received_until_marker(gateway, subscribers):
        check([(topic, json.loads(payload)) for topic, payload in received] == expected, "received:", received)


def with_curl(gateway, subscribers):
    expected = [pair for test in curl.CHECKS for pair in test(gateway)]
    python, listen = received_until_marker(gateway, subscribers)
    check(python == expected, "pyzmq received", [(topic, payload[:200]) for topic, payload in python])
    # The very bytes of the payload, also through `listen`.
    check(listen == [(topic, payload.decode()) for topic, payload in expected], "listen received something else")


def with_newman(gateway, subscribers):
    expected = list(messages().values())
    items = json.loads(COLLECTION.read_text())["item"]
    bodies = [json.loads(item["request"]["body"]["raw"]) for item in items if item["name"] != "wrong token"]
    check(bodies == expected, "the collection holds other messages than the OpenAPI document")
    with tempfile.TemporaryDirectory(prefix="adapter-gateway-ci-") as directory:
        environment = Path(directory) / "environment.json"
        values = [{"key": "base_url", "value": gateway.url.removesuffix("/api/message")}]
        values.append({"key": "token", "value": gateway.token})
        environment.write_text(json.dumps({"name": "ci", "values": values}))
        report = Path(directory) / "report.json"
        command = [os.environ["NEWMAN"], "run", COLLECTION, "-e", environment, "--timeout-request", "20000"]
        command += ["--reporters", "json", "--reporter-json-export", report]
        if gateway.certificate:
            command += ["--ssl-extra-ca-certs", gateway.certificate]
        run(command)
        statistics = json.loads(report.read_text())["run"]["stats"]
    for what, least in [("requests", len(items)), ("assertions", len(items))]:
        counts = statistics[what]
        check(counts["total"] >= least and counts["failed"] == 0, what, counts)
    for received in received_until_marker(gateway, subscribers):
        check([{"topic": topic, "payload": json.loads(payload)} for topic, payload in received] == expected, received)


def untrusted(name, gateway):
    """A browser that was not told to trust the gateway does not trust it: so the other checks prove something."""
    task = {"way": "fetch", "url": gateway.target, "body": json.dumps({"topic": "ci/untrusted", "payload": {}})}
    [[status, answer]] = browser.run_page(name, [task], None)
    check(status == 0, "it trusts the certificate without being told to:", status, answer)


def listen_counts(gateway):
    """`listen --count` prints this number of messages of its topics, and ends."""
    listen = Listener(gateway.binary, "--connect", gateway.endpoint, "--topic", "ci/count", "--count", "3")
    posted = 0
    while listen.process.poll() is None:
        check(posted < 400, "listen --count did not end")
        gateway.post({"topic": "ci/other", "payload": {}})
        status, _ = gateway.post({"topic": "ci/count", "payload": {"n": posted}})
        check(status == 200, status)
        posted += 1
        time.sleep(0.05)
    check(listen.process.returncode == 0, "listen ended with", listen.process.returncode)
    lines = []
    while (line := listen.lines.next()) is not None:
        lines.append(line)
    first = json.loads(lines[0].split("\t")[1])["n"]
    check(lines == [f'ci/count\t{{"n": {first + n}}}' for n in range(3)], lines)
    listen.process.stdout.close()


def timed(name, test, *arguments):
    start = time.monotonic()
    try:
        test(*arguments)
    except Exception as error:
        print(f"  FAILED  {name}: {error}", flush=True)
        return False
    print(f"  ok      {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def installed():
    """Returns the names of what is installed, and prints what is not."""
    python = Path(sys.executable).parent
    found = {
        "curl": shutil.which("curl"),
        "newman": shutil.which(os.environ.get("NEWMAN", "newman")),
        "httpie": (python / "http").exists(),
        "Node fetch": shutil.which("node"),
        "Bun fetch": shutil.which(BUN),
        "Chromium": shutil.which("chromium") and shutil.which("certutil"),
    } | tls.installed()
    # `.ci/install` does not install Firefox. It is tested on machines that have it.
    optional = {"Firefox": browser.firefox_command() and shutil.which("certutil")}
    missing = [name for name in found if not found[name]]
    for name in missing + [name for name in optional if not optional[name]]:
        print(f"  skipped: {name} is not installed", flush=True)
    check(not (missing and os.environ.get("CI")), "skipped, but CI is set:", ", ".join(missing))
    # The packages of Python were imported above.
    return {"Python requests", "Python http.client", "aiohttp", "httpx"} | {name for name, path in (found | optional).items() if path}


def clients(names, plain):
    """Returns the check of each client among `names`."""
    checks = {"curl": with_curl, "newman": with_newman}
    posts = CLIENTS if plain else CLIENTS | tls.CLIENTS
    checks |= {name: functools.partial(every_message, post) for name, post in posts.items()}
    checks = {name: test for name, test in checks.items() if name in names}
    for name in sorted(names & set(browser.BROWSERS)):
        for way in ("fetch", "XMLHttpRequest"):
            checks[f"{name} {way}"] = functools.partial(every_message, with_browser(name, way))
    return checks


def over(binary, names, plain=False, pair=None):
    """Runs all clients over one scheme. Returns whether each check passed."""
    results = []
    with Gateway(binary, plain=plain, pair=pair) as gateway:
        print(f"  {gateway.url}{' with a certificate that was made before' if pair else ''}", flush=True)
        with Subscriber(gateway.endpoint) as python, Listener(binary, "--connect", gateway.endpoint) as listen:
            subscribers = [python, listen]
            until_received(gateway, subscribers)
            for name, test in clients(names, plain).items():
                results.append(timed(name, test, gateway, subscribers))
                if not results[-1]:
                    # The next client must not receive what this one left over.
                    received_until_marker(gateway, subscribers)
            check(python.next(timeout=0) is None and listen.next(timeout=0.1) is None, "more arrived than was posted")
        if not plain:
            for name in sorted(names & set(browser.BROWSERS)):
                results.append(timed(f"{name} with no trust", untrusted, name, gateway))
        results.append(timed("listen --count", listen_counts, gateway))
        stopped = gateway.stop()
        results.append(timed("the counts agree", check, stopped["accepted"] == stopped["published"] > 100, stopped))
    return results


def over_unix(binary, names):
    """Runs the clients that know Unix sockets, beside an address in https. Returns whether each check passed."""
    results = []
    # Node's fetch has no option for it.
    names = names | ({"Node http.request"} if "Node fetch" in names else set())
    with Gateway(binary, plain=False, unix=True) as gateway:
        print(f"  {gateway.socket}", flush=True)
        with Subscriber(gateway.endpoint) as python, Listener(binary, "--connect", gateway.endpoint) as listen:
            subscribers = [python, listen]
            until_received(gateway, subscribers)
            for name in sorted(names & set(unix.CLIENTS)):
                post = unix.CLIENTS[name]
                test = functools.partial(every_message, post, url="http://localhost/api/message")
                results.append(timed(name, test, gateway, subscribers))
                if not results[-1]:
                    received_until_marker(gateway, subscribers)
        gateway.stop()
        results.append(timed("the socket is removed", check, not Path(gateway.socket).exists()))
    return results


def main():
    binary = sys.argv[1]
    names = installed()
    results = over(binary, names, plain=True) + over(binary, names)
    results += over(binary, names & tls.ACCEPT_CONSTRAINTS, pair=tls.constrained_pair)
    results += over_unix(binary, names)
    print(f"clients: {sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
