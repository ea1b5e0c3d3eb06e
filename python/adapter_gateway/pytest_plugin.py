"""The fixture `gateway` of pytest: see `adapter_gateway.testing`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import testing


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gateway(**options): the options of the fixture `gateway`")


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Iterator[testing.GatewayForTests]:
    """A gateway with a hub, a token and a settings file of its own, on free ports. `@pytest.mark.gateway(...)` has its
    options, which are those of `adapter-gateway serve`."""
    markers = reversed(list(request.node.iter_markers("gateway")))
    options: dict[str, Any] = {name: value for marker in markers for name, value in marker.kwargs.items()}
    with testing.gateway(**options) as running:
        yield running
