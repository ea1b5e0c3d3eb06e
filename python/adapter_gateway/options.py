"""The options of `adapter-gateway serve`, and the command line that they make."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Optional, TypedDict, Union

from .endpoint import Path
from .settings import CERTIFICATE, default_path

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
    stats: Optional[float]


DEFAULT_DRAIN_TIMEOUT_S = 5.0


def check_names(options: Iterable[str]) -> None:
    """Raises `TypeError` for a name that is no option."""
    unknown = sorted(set(options) - GatewayOptions.__optional_keys__)
    if unknown:
        raise TypeError(f"serve has no option {', '.join(unknown)}")


def arguments(options: GatewayOptions) -> list[str]:
    """Returns the words of the command line."""
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


def drain_timeout_s(options: GatewayOptions) -> float:
    """Returns the time that the gateway takes for its stop at most."""
    given = options.get("drain_timeout")
    return DEFAULT_DRAIN_TIMEOUT_S if given is None else given


def certificate(options: GatewayOptions) -> Optional[pathlib.Path]:
    """Returns the file of the self-signed certificate. With an own certificate, and with http, there is none."""
    if options.get("plain") or options.get("tls_cert") is not None:
        return None
    folder = options.get("cert_dir")
    if folder is None:
        folder = pathlib.Path(options.get("settings") or default_path()).parent
    return pathlib.Path(folder) / CERTIFICATE
