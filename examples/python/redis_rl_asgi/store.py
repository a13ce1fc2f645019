"""The connections to Redis: an answer within the timeout, or `Away`."""

import asyncio
import logging
import time
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.retry import Retry

CONNECTIONS = 32  # at most; further requests wait for one, within the timeout
LOG_PAUSE = 60  # seconds in which the same trouble is not logged again

log = logging.getLogger("redis_rl_asgi")


class Away(Exception):
    """Redis is away, slow, or answers an error."""


class Store:
    def __init__(self, redis: str | Redis | RedisCluster, timeout: float, on_error: str) -> None:
        self._own = isinstance(redis, str)
        self._redis = connect(redis, timeout) if isinstance(redis, str) else redis
        self._timeout = timeout
        self._on_error = on_error
        self._asking: set[asyncio.Task[Any]] = set()
        self._logged: dict[str, float] = {}  # when, by a message's first word

    async def ask(self, command: str, *arguments: str | bytes | int) -> list[Any]:
        # A task of its own: when time is up, or this request is cancelled, the question is left to
        # its own timeouts. A cancelled one could lose its connection on the way back to the pool.
        asking = asyncio.create_task(self._redis.execute_command(command, *arguments))
        self._asking.add(asking)
        asking.add_done_callback(self._done)
        await asyncio.wait([asking], timeout=self._timeout)
        try:
            if asking.done():
                reply: list[Any] = asking.result()
                return reply
            raise TimeoutError(f"no answer within {self._timeout * 1000:g} ms")
        except (RedisError, RedisClusterException, OSError) as error:  # OSError: also time is up
            self._log(error, command)
            raise Away from error

    def _done(self, asking: asyncio.Task[Any]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # so that asyncio does not complain that nobody looked

    def _log(self, error: Exception, command: str) -> None:
        said, now = str(error), time.monotonic()
        kind = said.partition(" ")[0]
        if now - self._logged.get(kind, -LOG_PAUSE) < LOG_PAUSE:
            return
        self._logged[kind] = now
        if isinstance(error, ResponseError) and said.startswith("unknown command"):
            # Redis' own words go on with the arguments, and so with somebody's key.
            said = f"it does not know {command}: is the module redis-rl loaded?"
        passing = "pass unlimited" if self._on_error == "open" else "are refused"
        log.error("Redis: %s (requests %s)", said, passing)

    async def close(self) -> None:
        """A client that was given is closed by who gave it."""
        if self._own:
            await self._redis.aclose()


def connect(url: str, timeout: float) -> Redis:
    # A pool that raises when it is used up would let a burst of requests pass unlimited.
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),  # what is asked twice may be taken twice
        protocol=2,  # one exchange less to connect
    )
    return Redis.from_pool(pool)
