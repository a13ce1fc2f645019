"""The ASGI middleware: asks Redis before the application sees a request."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

from redis.asyncio import Redis, RedisCluster
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redis_rl_asgi.limits import Limit, Reply, seconds
from redis_rl_asgi.store import Away, Store

KEPT = 65_536  # bytes of a body that are read while its request is held, to see a client hang up

Decision = list[tuple[Limit, Reply]]


class RateLimitMiddleware:
    """`app.add_middleware(RateLimitMiddleware, redis=..., routes={"/login": [Limit(...)]})`

    `routes` has paths as routes are declared (`/users/{id}`, `/files/{path:path}`); the first that
    matches counts. Other paths, WebSockets and lifespan pass through. `redis` is a URL, or a
    client, such as that of a cluster.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        redis: str | Redis | RedisCluster,
        routes: Mapping[str, Sequence[Limit]],
        on_error: Literal["open", "closed"] = "open",
        timeout: float = 0.1,
        legacy_headers: bool = False,
        hash_tag: str | Callable[[Request], str] | None = None,
        max_wait: float = 10,
    ) -> None:
        if on_error not in ("open", "closed"):
            raise ValueError(f"on_error is 'open' or 'closed', not {on_error!r}")
        for path, limits in routes.items():
            if len({limit.name for limit in limits}) < len(limits):
                raise ValueError(f"two limits of {path} have the same name")
        self.app = app
        self.routes = [(compile_path(path)[0], limits) for path, limits in routes.items()]
        self.store = Store(redis, timeout, on_error)
        self.closed = on_error == "closed"
        self.legacy_headers = legacy_headers
        self.hash_tag = hash_tag
        self.max_wait_ms = round(max_wait * 1000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self.app(scope, receive, send)
            finally:
                await self.store.close()
        elif scope["type"] == "http" and (limits := self._limits(scope)):
            await self._limited(limits, scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _limits(self, scope: Scope) -> Sequence[Limit]:
        path, root = scope["path"], scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        return next((limits for regex, limits in self.routes if regex.match(path)), ())

    async def _limited(
        self, limits: Sequence[Limit], scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            decision = await self._decide(limits, Request(scope))
        except Away:
            if self.closed:
                return await unavailable()(scope, receive, send)
            decision = []
        if not decision:
            return await self.app(scope, receive, send)

        denials = self._denials(decision)
        with_headers = self._adding_headers(decision, denials, send)
        if denials:
            return await too_many_requests(denials)(scope, receive, with_headers)
        hold_ms = max(reply.wait_ms for _, reply in decision)
        later = await hold(hold_ms / 1000, receive) if hold_ms > 0 else receive
        if later is not None:
            await self.app(scope, later, with_headers)
        return None

    async def _decide(self, limits: Sequence[Limit], request: Request) -> Decision:
        """What each limit that applies to the request says of it."""
        tag = self.hash_tag(request) if callable(self.hash_tag) else self.hash_tag
        asked = [(limit, args) for limit in limits if (args := limit.arguments(request, tag))]
        if not asked:
            return []
        if len(asked) == 1:
            [(limit, arguments)] = asked
            return [(limit, Reply(*await self.store.ask(f"RL.{limit.algorithm}", *arguments)))]
        words = [word for limit, arguments in asked for word in (limit.algorithm, *arguments)]
        _, _, *replies = await self.store.ask("RL.ALL", *words)
        return [(limit, Reply(*reply)) for (limit, _), reply in zip(asked, replies, strict=True)]

    def _denials(self, decision: Decision) -> dict[Limit, int]:
        """Which limits let the request not pass, and how long for, in ms; -1 is for ever."""
        denials = {limit: reply.wait_ms for limit, reply in decision if not reply.allowed}
        if denials:
            return denials
        late = {limit: reply.wait_ms - self.max_wait_ms for limit, reply in decision}
        return {limit: ms for limit, ms in late.items() if ms > 0}

    def _adding_headers(self, decision: Decision, denials: Mapping[Limit, int], send: Send) -> Send:
        added = {
            "RateLimit-Policy": ", ".join(limit.policy(reply) for limit, reply in decision),
            "RateLimit": ", ".join(limit.state(reply) for limit, reply in decision),
        }
        if self.legacy_headers:
            added |= legacy(decision, denials)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers[name] = value
            await send(message)

        return send_with_headers


def legacy(decision: Decision, denials: Mapping[Limit, int]) -> dict[str, str]:
    """X-RateLimit-*: of the first limit that denies, else of that with the least share left."""
    if denials:
        reply = next(reply for limit, reply in decision if limit in denials)
    else:
        reply = min((reply for _, reply in decision), key=lambda r: Fraction(r.remaining, r.limit))
    return {
        "X-RateLimit-Limit": str(reply.limit),
        "X-RateLimit-Remaining": str(reply.remaining),
        "X-RateLimit-Reset": str(seconds(reply.reset_ms)),
    }


def too_many_requests(denials: Mapping[Limit, int]) -> Response:
    names = [limit.name for limit in denials]
    never = -1 in denials.values()
    retry_after_ms = None if never else max(denials.values())
    return problem(
        {
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": f'Limit "{names[0]}" allows no more now.',
            "violated-policies": names,
            "retry_after_ms": retry_after_ms,
        },
        None if retry_after_ms is None else seconds(retry_after_ms),
    )


def unavailable() -> Response:
    return problem(
        {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": "The rate limiter does not answer.",
        },
        retry_after=1,
    )


def problem(what: dict[str, Any], retry_after: int | None) -> Response:
    return Response(
        json.dumps(what),
        what["status"],
        {} if retry_after is None else {"Retry-After": str(retry_after)},
        "application/problem+json",
    )


async def hold(delay: float, receive: Receive) -> Receive | None:
    """Wait. Returns how the application receives from now on, or None if the client hung up.

    Only who reads a request sees that its client is gone. What was read is kept for the
    application; where that becomes too much, the client is no longer watched.
    """
    kept: deque[Message] = deque()
    size = 0
    try:
        async with asyncio.timeout(delay):
            while size <= KEPT:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                kept.append(message)
                size += len(message.get("body", b""))
            await asyncio.sleep(delay)
    except TimeoutError:
        pass

    async def receive_kept() -> Message:
        return kept.popleft() if kept else await receive()

    return receive_kept
