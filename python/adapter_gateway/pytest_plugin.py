"""The fixture `gateway` of pytest: see `adapter_gateway.testing`."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any, Callable

import pytest

from . import testing

_MARKER = (
    'gateway(scope="function", **options): the options of `adapter-gateway serve` for the fixture `gateway`; with \
scope="session", all tests with the same options share one gateway'
)

_Maker = Callable[..., contextlib.AbstractContextManager[testing.GatewayForTests]]
_SHOWN = pytest.StashKey[testing.GatewayForTests]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def _shared_gateway() -> Iterator[_Maker]:
    """Lends the gateway of the session with these options, and ends it with the session."""
    with contextlib.ExitStack() as stack:
        running: dict[str, testing.GatewayForTests] = {}

        def shared(**options: Any) -> contextlib.nullcontext[testing.GatewayForTests]:
            key = repr(sorted(options.items()))
            if key not in running:
                running[key] = stack.enter_context(testing.gateway(**options))
            running[key].begin()
            return contextlib.nullcontext(running[key])

        yield shared


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Iterator[testing.GatewayForTests]:
    """A gateway with a hub, a token and a settings file of its own, on free ports.

    `@pytest.mark.gateway(...)` has its options, which are those of `adapter-gateway serve`.
    """
    options: dict[str, Any] = {"scope": "function"}
    for marker in reversed(list(request.node.iter_markers("gateway"))):
        options.update(marker.kwargs)
    scope = options.pop("scope")
    if scope not in ("function", "session"):
        raise pytest.UsageError(f"the scope of a gateway is function or session, and not {scope!r}")
    made: _Maker = request.getfixturevalue("_shared_gateway") if scope == "session" else testing.gateway
    with made(**options) as running:
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
