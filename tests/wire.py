"""A bare RESP connection: what was really said, byte for byte.

redis-py cuts the `ERR` off an error and turns replies into what Python likes. Where the exact reply
is the point (errors, hostile bytes, RESP2 against RESP3) or speed is (thousands of calls in one
pipeline), the tests speak through this instead.
"""

import socket
from collections.abc import Iterable, Sequence

TIMEOUT = 60


class Failure(str):
    """An error reply, whole: `ERR ...`, `WRONGTYPE ...`."""

    __slots__ = ()


class Push(list):
    """An out-of-band message of RESP3, such as a client-side caching invalidation."""

    __slots__ = ()


def encode(command: Sequence) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        raw = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


class Wire:
    """One connection. Calling it sends a command and returns its reply; errors are returned too."""

    def __init__(self, port: int, protocol: int = 2):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self._replies = self._socket.makefile("rb")
        if protocol == 3:
            self("HELLO", 3)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def __call__(self, *command):
        self.send(*command)
        return self.read()

    def send(self, *command) -> None:
        """Send a command and leave its reply for a later `read`."""
        self._socket.sendall(encode(command))

    def pipeline(self, commands: Iterable[Sequence]) -> list:
        """Send all commands in one go, return all replies."""
        commands = list(commands)
        self._socket.sendall(b"".join(map(encode, commands)))
        return [self.read() for _ in commands]

    def transaction(self, commands: Iterable[Sequence]) -> list:
        """The same in one MULTI/EXEC, where time stands still and no key expires in between."""
        commands = list(commands)
        *queued, replies = self.pipeline([["MULTI"], *commands, ["EXEC"]])
        assert queued == ["OK"] + ["QUEUED"] * len(commands), queued
        return replies

    def read(self):
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the server hung up in the middle of {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Failure(rest.decode(errors="backslashreplace"))
        if kind in b"$=":
            return None if rest == b"-1" else self._exactly(int(rest))
        if kind in b"*~":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b">":
            return Push(self.read() for _ in range(int(rest)))
        if kind == b"%":
            return {_hashable(self.read()): self.read() for _ in range(int(rest))}
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        raise ValueError(f"not RESP: {line!r}")

    def _exactly(self, length: int) -> bytes:
        data = self._replies.read(length + 2)
        if len(data) != length + 2:
            raise ConnectionError("the server hung up in the middle of a string")
        return data[:-2]


def _hashable(key):
    return tuple(key) if isinstance(key, list) else key
