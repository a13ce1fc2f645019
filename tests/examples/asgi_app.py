"""What the demo application has not: bodies, streams and errors. The Python example wraps it."""

import hashlib
import os

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from redis.asyncio import RedisCluster
from redis_rl_asgi import Limit, RateLimitMiddleware, constant

inner = FastAPI()
mounted = FastAPI()


@inner.get("/stream")
async def stream() -> StreamingResponse:
    async def parts():
        for number in range(3):
            yield f"{number}\n"

    return StreamingResponse(parts())


@inner.get("/missing")
async def missing():
    raise HTTPException(404)


@inner.get("/crash")
async def crash():
    raise RuntimeError("as the test wants it")


@inner.post("/digest")
async def digest(request: Request) -> str:
    return hashlib.sha256(await request.body()).hexdigest()


@mounted.get("/item/{number}")
async def item(number: int) -> int:
    return number


all_of_it = Limit("all", "SLIDING 60 100", constant("k"))
mounted.add_middleware(
    RateLimitMiddleware,
    redis=os.environ["REDIS_URL"],
    routes={"/item/{number}": [Limit("item", "SLIDING 60 2", constant("k"))]},
    timeout=30,
)
inner.mount("/sub", mounted)
app = RateLimitMiddleware(
    inner,
    redis=os.environ["REDIS_URL"],
    routes={
        "/digest": [Limit("digest", "LEAKY 100 10", constant("k"))],
        "/sub/{path:path}": [],
        "/{path:path}": [all_of_it],
    },
    timeout=30,
)

if "CLUSTER" in os.environ:
    app = RateLimitMiddleware(
        inner,
        redis=RedisCluster.from_url(os.environ["REDIS_URL"]),
        routes={
            "/stream": [all_of_it, Limit("more", "TOKEN 5 1", constant("k"))],
            "/missing": [all_of_it],
        },
        hash_tag=lambda request: request.headers["X-Tenant"],
        timeout=30,
        on_error="closed",
    )

if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["PORT"]), log_level="critical")
