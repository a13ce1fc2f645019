"""What the contract says of an answer (examples/README.md), to the letter."""

from web import Answer

LEGACY = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


def allowed(answer: Answer, policy: str | None, limit: str | None) -> None:
    assert (answer.status, answer.body) == (200, b"ok\n")
    assert answer["Content-Type"].startswith("text/plain")
    assert (answer.policy, answer.limit) == (policy, limit)
    assert answer["Retry-After"] is None


def limited(answer: Answer, policies: list[str], retry_after_ms: int | None) -> None:
    assert answer.status == 429
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Content-Length"] == str(len(answer.body))
    assert answer.json == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too Many Requests",
        "status": 429,
        "detail": f'Limit "{policies[0]}" allows no more now.',
        "violated-policies": policies,
        "retry_after_ms": retry_after_ms,
    }
    seconds = None if retry_after_ms is None else str(-(-retry_after_ms // 1000))
    assert answer["Retry-After"] == seconds


def unlimited(answer: Answer) -> None:
    allowed(answer, None, None)
    assert not [name for name in answer.fields if "ratelimit" in name.lower()]


def unavailable(answer: Answer) -> None:
    assert answer.status == 503
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Retry-After"] == "1"
    assert answer.json == {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "The rate limiter does not answer.",
    }
    assert not [name for name in answer.fields if "ratelimit" in name.lower()]
