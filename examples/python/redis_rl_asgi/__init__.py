"""Rate limits of redis-rl for FastAPI, Starlette and other ASGI applications."""

from redis_rl_asgi.limits import Limit, address, constant, header
from redis_rl_asgi.middleware import RateLimitMiddleware

__all__ = ["Limit", "RateLimitMiddleware", "address", "constant", "header"]
