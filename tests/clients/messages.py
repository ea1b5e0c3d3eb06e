"""The messages of every check: the examples of the OpenAPI document.

`cargo test --test process docs::` sees to it that the document has an example of each known topic.
"""

from pathlib import Path

import yaml

DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT = DOCS / "openapi.yaml"
COLLECTION = DOCS / "adapter-gateway.postman_collection.json"


def document():
    return yaml.safe_load(DOCUMENT.read_text())


def messages():
    """Returns the messages by the names of their examples."""
    content = document()["paths"]["/api/message"]["post"]["requestBody"]["content"]["application/json"]
    return {name: example["value"] for name, example in content["examples"].items()}
