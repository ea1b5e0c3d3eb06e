"""The OpenAPI document against the running gateway: `openapi.py GATEWAY`.

Every example is posted and seen by a subscriber; then schemathesis generates requests within the document and beside
it, and holds the answers against it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from gateway import Gateway, Subscriber, check, heard_until_marker, until_heard
from messages import DOCUMENT, document, messages

HERE = Path(__file__).resolve().parent
# The statuses of the gateway's contract.
STATUSES = {200, 400, 401, 404, 405, 408, 413, 414, 415, 417, 422, 431, 501, 503, 505}


def example_of_each_message(gateway):
    with Subscriber(gateway.endpoint) as subscriber:
        until_heard(gateway, [subscriber])
        for name, message in messages().items():
            status, answer = gateway.post(message)
            check(status == 200, name, status, answer)
        [heard] = heard_until_marker(gateway, [subscriber])
    heard = [{"topic": topic, "payload": json.loads(payload)} for topic, payload in heard]
    check(heard == list(messages().values()), "heard something else than the examples:", heard)


def example_of_each_answer():
    """The document tells every status, with examples that its own schemas allow."""
    import jsonschema_rs

    whole = document()
    responses = whole["paths"]["/api/message"]["post"]["responses"]
    check({int(status) for status in responses} == STATUSES, "the statuses are", sorted(responses))
    for status, response in responses.items():
        [content] = response["content"].values()
        schema = content["schema"] | {"components": whole["components"]}
        examples = [example["value"] for example in content.get("examples", {}).values()] or [content["example"]]
        for example in examples:
            jsonschema_rs.validator_for(schema).validate(example)


def schemathesis(gateway):
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / "schemathesis.toml"]
    command += ["run", DOCUMENT, "--url", gateway.url.removesuffix("/api/message"), "--no-color"]
    command += ["--tls-verify", gateway.certificate] if gateway.certificate else []
    environment = os.environ | {"GATEWAY_TOKEN": gateway.token, "NO_PROXY": "*"}
    # In its own directory, so that its files stay out of the repository.
    done = subprocess.run(
        command,
        cwd=gateway.directory,
        env=environment,
        timeout=600,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(done.stdout.replace(gateway.token, "<ACCESS_TOKEN>"), flush=True)
    check(done.returncode == 0, "schemathesis ended with", done.returncode)


def main():
    example_of_each_answer()
    with Gateway(sys.argv[1], plain=False) as gateway:
        example_of_each_message(gateway)
        schemathesis(gateway)
        check(gateway.process.poll() is None, "the gateway ended")
        stopped = gateway.stop()
        # schemathesis takes a 401 for an answer; most of what it means to be right must have been accepted.
        print(f"  {stopped['accepted']} messages were accepted", flush=True)
        check(stopped["accepted"] == stopped["published"] > 150, stopped)


if __name__ == "__main__":
    main()
