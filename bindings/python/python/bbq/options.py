"""The options of a sender as a type, for functions that pass them on. `Sender` in _native.pyi says what they do."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from bbq.values import Notice, Reconnect


class SenderOptions(TypedDict, total=False):
    """The keywords of `Sender`, for `**options: Unpack[bbq.SenderOptions]`. All of them may be left out."""

    ack: Literal["durable", "received", "none", "replicated"]
    delivery: Literal["any", "all"]
    queue_bytes_max: int
    on_full: Literal["block", "drop-newest", "drop-oldest"]
    block_timeout: float | None
    batch_bytes: int
    linger: float
    compress: bool | Literal["auto"]
    reconnect: Reconnect | Mapping[str, Any] | None
    delivery_timeout: float | None
    close_timeout: float
    spool: str | os.PathLike[str] | None
    spool_bytes_max: int | None
    report_drops: bool
    name: str | None
    on_notice: Callable[[Notice], object] | None
    tls_ca: str | os.PathLike[str] | None
    tls_cert: str | os.PathLike[str] | None
    tls_key: str | os.PathLike[str] | None
    tls_server_name: str | None
    token: str | None
