"""The options of `adapter-gateway serve`, and the command line that they make."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from .endpoint import Path

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    # `typing.get_type_hints` works without the name too.
    Unpack = Union

Texts = Optional[Union[str, Sequence[str]]]


class GatewayOptions(TypedDict, total=False):
    """The options of `adapter-gateway serve`, by their names. Those that are left out, or `None`, keep their defaults.

    An option that can be repeated takes one value or several. Times are in seconds.
    """

    settings: Optional[Path]
    listen: Texts
    plain: bool
    tls_cert: Optional[Path]
    tls_key: Optional[Path]
    cert_dir: Optional[Path]
    cert_name: Texts
    connect: Texts
    bind: Texts
    hub: bool
    hub_publishers: Optional[str]
    hub_subscribers: Optional[str]
    encoding: Optional[Literal["json", "msgpack"]]
    check: Optional[Literal["known", "strict", "envelope"]]
    vocabulary: Optional[Literal["as-sent", "older", "newer"]]
    allow_origin: Texts
    io: Optional[Literal["auto", "uring", "epoll"]]
    workers: Optional[int]
    max_body: Optional[int]
    max_head: Optional[int]
    max_connections: Optional[int]
    max_buffered: Optional[int]
    head_timeout: Optional[float]
    body_timeout: Optional[float]
    idle_timeout: Optional[float]
    drain_timeout: Optional[float]
    queue: Optional[int]
    stall_timeout: Optional[float]
    log_time: bool
    events: bool
    stats: Optional[float]


def arguments(options: GatewayOptions) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.extend(f"{option}={text}" for text in texts(value))
    return words


def texts(value: Any) -> list[str]:
    """Returns the texts of an option's value, or of its values."""
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if isinstance(value, (int, float)):
        return [str(value)]
    return [text for one in value for text in texts(one)]
