"""What a client says and hears: plain HTTP/1.1, a connection for each request."""

import http.client
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60  # seconds, after which an answer will not come any more


@dataclass(frozen=True)
class Answer:
    status: int
    fields: http.client.HTTPMessage
    body: bytes

    def __getitem__(self, name: str) -> str | None:
        """The value of a header, None without it. It must not come twice."""
        values = self.fields.get_all(name, [])
        assert len(values) < 2, f"{name} comes {len(values)} times: {values}"
        return values[0] if values else None

    @property
    def policy(self) -> str | None:
        return self["RateLimit-Policy"]

    @property
    def limit(self) -> str | None:
        return self["RateLimit"]

    @property
    def remaining(self) -> int:
        """`r` of the one limit that the answer tells of."""
        return int(self.limit.split(";r=")[1].split(";")[0])

    @property
    def json(self):
        return json.loads(self.body)


def get(
    port: int,
    path: str,
    headers: Mapping[str, str | bytes | list[str]] | None = None,
    source: str = "127.0.0.1",
) -> Answer:
    """`source` is the client's own address, any of 127.0.0.0/8."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=PATIENCE, source_address=(source, 0)
    )
    try:
        connection.putrequest("GET", path)
        for name, value in (headers or {}).items():
            for line in value if isinstance(value, list) else [value]:
                connection.putheader(name, line)
        connection.endheaders()
        response = connection.getresponse()
        return Answer(response.status, response.msg, response.read())
    finally:
        connection.close()


def at_once(count: int, call: Callable[[int], T]) -> list[T]:
    """What `call(0)` ... `call(count - 1)` return, each called by a thread of its own."""
    start = Barrier(count)

    def run(number: int) -> T:
        start.wait(PATIENCE)
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
