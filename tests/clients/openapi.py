"""Compares the OpenAPI document with the running gateway: `openapi.py GATEWAY`.

It posts every example, and a subscriber must receive each. Then schemathesis generates requests that the document
allows and requests that it does not allow, and compares the answers with the document.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from gateway import Gateway, Subscriber, check, received_until_marker, until_received
from messages import DOCUMENT, document, messages

HERE = Path(__file__).resolve().parent


def example_of_each_message(gateway):
    with Subscriber(gateway.endpoint) as subscriber:
        until_received(gateway, [subscriber])
        for name, message in messages().items():
            status, answer = gateway.post(message)
            check(status == 200, name, status, answer)
        [received] = received_until_marker(gateway, [subscriber])
    received = [{"topic": topic, "payload": json.loads(payload)} for topic, payload in received]
    check(received == list(messages().values()), "the subscriber received something else than the examples:", received)


def example_of_each_answer():
    """The schemas of the document allow its own examples. `cargo test --test process docs::` compares its list of statuses."""
    import jsonschema_rs

    whole = document()
    responses = whole["paths"]["/api/message"]["post"]["responses"]
    for response in responses.values():
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
    # It runs in a directory of its own, so that it writes no files into the repository.
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
        # A 401 satisfies schemathesis. So most of the requests that the document allows must have been accepted.
        print(f"  {stopped['accepted']} messages were accepted", flush=True)
        check(stopped["accepted"] == stopped["published"] > 150, stopped)


if __name__ == "__main__":
    main()
