"""The messages of the specification: the examples of the OpenAPI document, which are the one list of them."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "tests" / "openapi.yaml"

TOPICS = {
    "adapter/nodes/data",
    "adapter/extensions/data",
    "visual/extensions/command",
    "core/exts/operate",
    "core/extensions/operate",
    "core/nodes/operate",
    "core/node/statu/change",
    "core/extension/statu/change",
    "to_homeauto",
}


def document():
    return yaml.safe_load(DOCUMENT.read_text())


def messages():
    """Name to message."""
    content = document()["paths"]["/api/message"]["post"]["requestBody"]["content"]["application/json"]
    examples = {name: example["value"] for name, example in content["examples"].items()}
    missing = TOPICS - {message["topic"] for message in examples.values()}
    if missing:
        raise AssertionError(f"no example of {missing}")
    return examples
