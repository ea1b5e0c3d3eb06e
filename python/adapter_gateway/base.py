"""What both kinds of `Gateway` share: the options, the command line, and what the events have told."""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import options as serve
from .binary import find_binary
from .errors import GatewayError
from .lifeline import watch_options
from .listeners import Listeners
from .state import Event, GatewayState, Until

if TYPE_CHECKING:
    from typing_extensions import Unpack

ANSWER_TIMEOUT_S = 10.0
"""How long the answer to a signal may take."""

START_TIMEOUT_S = 10.0
"""How long a start may take, if nothing else is said."""

_STOP_MARGIN_S = 5.0

_log = logging.getLogger("adapter_gateway")


class GatewayBase:
    """The part of a gateway that does not depend on how one waits."""

    def __init__(
        self,
        *,
        on_event: Callable[[Event], object] | None = None,
        until: Until = "ready",
        start_timeout_s: float = START_TIMEOUT_S,
        replaceable: bool = False,
        extra_arguments: Sequence[str] = (),
        **options: Unpack[serve.GatewayOptions],
    ) -> None:
        """Keeps what the start needs.

        `on_event` is called with each event, in their order. It must return soon, and call no method that waits.
        `until` says what the start waits for, for `start_timeout_s` at most: `ready`, `listening` or `started`.
        `replaceable` makes `replace` possible: the sockets of `listen` then belong to this process.
        `extra_arguments` stand behind the options on the command line.
        The other arguments are the options of `adapter-gateway serve`, such as `settings`, `listen` and `plain`.

        Raises `TypeError` for an option that `serve` does not have.
        """
        serve.check_names(options)
        self._on_event = on_event
        self._until: Until = until
        self._start_timeout_s = start_timeout_s
        self._replaceable = replaceable
        self._extra_arguments = list(extra_arguments)
        self._options = options
        self._listeners: Listeners | None = None
        self._owner = os.getpid()

    def _state(self) -> GatewayState:
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Where messages are posted: the URL of the first listening socket.

        Raises `GatewayDisabledError` while the settings do not switch the gateway on.
        """
        return str(self._first_listener()["url"])

    @property
    def socket(self) -> str | None:
        """The path of the first Unix socket that the gateway listens on, if it has one."""
        return next((one["socket"] for one in self.listeners if one.get("socket")), None)

    @property
    def listeners(self) -> list[Event]:
        """The `listening` event of each listening socket. There are none while the gateway is disabled."""
        return list(self._state().listeners)

    @property
    def certificate(self) -> pathlib.Path | None:
        """The certificate that clients trust: the one that the gateway makes for itself.

        There is none with `plain`, and none with `tls_cert`, where clients trust whoever signed that certificate.
        """
        return serve.certificate(self._options)

    @property
    def is_ready(self) -> bool:
        """Whether a message that is posted now is taken."""
        state = self._state()
        return state.is_ready and state.status is None

    @property
    def status(self) -> int | None:
        """The exit status, the negative number of the signal that ended the process, or `None` while it runs."""
        return self._state().status

    def _first_listener(self) -> Event:
        state = self._state()
        state.check_enabled()
        if not state.listeners:
            raise GatewayError("the gateway does not listen yet")
        return state.listeners[0]

    def _stop_timeout_s(self) -> float:
        """Returns how long a stop may take on a busy machine."""
        return serve.drain_timeout_s(self._options) + _STOP_MARGIN_S

    def _is_forked(self) -> bool:
        """Returns whether this is the copy of a fork, to which the gateway does not belong."""
        return os.getpid() != self._owner

    def _check_started(self, is_started: bool) -> None:
        if not is_started:
            raise GatewayError("the gateway is not started")
        if self._is_forked():
            raise GatewayError("the gateway belongs to the process that started it")

    def _check_replaceable(self) -> None:
        if self._listeners is None:
            raise GatewayError("only a gateway that is `replaceable` can be replaced")

    def _call(self, event: Event | None) -> None:
        """Passes an event to `on_event`."""
        if event is None or self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:  # whatever it is, the reading must go on
            _log.exception("the function that takes events failed")

    def _command(self) -> list[str]:
        """Returns the command line. On the first call it opens the listening sockets that are to outlive a process."""
        options = serve.GatewayOptions(**self._options)
        if self._replaceable:
            if self._listeners is None:
                self._listeners = Listeners(serve.texts(options.get("listen") or ()))
            options["listen"] = [f"fd:{number}" for number in self._listeners.descriptors()]
        words = [str(find_binary()), "serve", *serve.arguments(options), *watch_options()]
        return words + self._extra_arguments

    def _descriptors(self) -> list[int]:
        """Returns the descriptors that the process inherits."""
        if self._listeners is not None:
            return self._listeners.descriptors()
        listen = serve.texts(self._options.get("listen") or ())
        return [int(place[len("fd:") :]) for place in listen if place.startswith("fd:")]

    def _close_listeners(self) -> None:
        if self._listeners is not None:
            self._listeners.close()
            self._listeners = None
