"""The fixture `gateway` of pytest: see `adapter_gateway.testing`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from . import testing

_MARKER = "gateway(**options): the options of `adapter-gateway serve` for the fixture `gateway`"

_SHOWN = pytest.StashKey[testing.GatewayForTests]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Iterator[testing.GatewayForTests]:
    """A gateway with a hub, a token and a settings file of its own, on free ports.

    `@pytest.mark.gateway(...)` has its options, which are those of `adapter-gateway serve`.
    """
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("gateway"))):
        options.update(marker.kwargs)
    with testing.gateway(**options) as running:
        request.node.stash[_SHOWN] = running
        yield running


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Shows the events and the log of a gateway if the test fails, also of one that a fixture of the test's own runs."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        found = [*getattr(item, "funcargs", {}).values(), item.stash.get(_SHOWN, None)]
        for running in {id(one): one for one in found if isinstance(one, testing.GatewayForTests)}.values():
            report.sections.append((f"Gateway {report.when}", running.report()))
