"""A FastAPI application with a limit of each kind. Settings come from the environment.

python demo.py
"""

import os

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from redis_rl_asgi import Limit, RateLimitMiddleware, address, constant, header


def cost(request: Request) -> int:
    """`?cost=n`, within what Redis takes: a cost that is an error there would not be limited."""
    text = request.query_params.get("cost", "")
    return min(max(int(text[:9]), 1), 1000) if text.isascii() and text.isdigit() else 1


ip = address(trusted_proxies=int(os.environ.get("TRUSTED_PROXIES", "0")))
user = header("X-User")

app = FastAPI(default_response_class=PlainTextResponse)
app.add_middleware(
    RateLimitMiddleware,
    redis=os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"),
    routes={
        "/default": [Limit("default", "SLIDING 60 100", ip)],
        "/tiers": [Limit("tiers", "SLIDING 10 3 60 5", ip)],
        "/login": [Limit("login", "FIXED 3600 3", header("X-Api-Key"))],
        "/upload": [Limit("upload", "TOKEN 5 2", ip, cost)],
        "/feed": [Limit("feed", "COUNTER 10 10", user)],
        "/queue": [Limit("queue", "LEAKY 3 2", ip)],
        "/layers": [
            Limit("ip", "SLIDING 60 100", ip),
            Limit("user", "TOKEN 5 1", user),
            Limit("endpoint", "FIXED 3600 1000", constant("all")),
        ],
    },
    on_error="closed" if os.environ.get("ON_ERROR") == "closed" else "open",
    timeout=int(os.environ.get("TIMEOUT_MS", "100")) / 1000,
    legacy_headers=os.environ.get("LEGACY_HEADERS") == "1",
    hash_tag=os.environ.get("HASH_TAG"),
    max_wait=int(os.environ.get("MAX_WAIT_MS", "10000")) / 1000,
)

served = 0  # requests of /queue that came through


@app.get("/free")
@app.get("/default")
@app.get("/tiers")
@app.get("/login")
@app.get("/upload")
@app.get("/feed")
@app.get("/layers")
async def answer() -> str:
    return "ok\n"


@app.get("/queue")
async def queue() -> str:
    global served
    served += 1
    return "ok\n"


@app.get("/served")
async def count() -> str:
    return f"{served}\n"


if __name__ == "__main__":
    # Without `proxy_headers=False` uvicorn itself believes X-Forwarded-For from 127.0.0.1.
    uvicorn.run(
        app, port=int(os.environ.get("PORT", "8000")), log_level="warning", proxy_headers=False
    )
