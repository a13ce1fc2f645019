"""What an application says wrongly is an error at its start, and what a field cannot hold is cut.

For Python and Node; the Rust example has the same as tests of its own.
"""

import subprocess

import apps

PYTHON = """
from redis_rl_asgi import Limit, RateLimitMiddleware, constant
from redis_rl_asgi.limits import Reply

def refused(make):
    try:
        make()
    except ValueError:
        return
    raise AssertionError

limit = lambda name: Limit(name, "FIXED 60 5", constant("k"))
assert limit("per-user_v1.2").name == "per-user_v1.2"
for name in ("", "a:b", "a b", 'a"', "{a}", "\\u00fc"):
    refused(lambda: limit(name))
twice = {"/": [limit("a"), limit("a")]}
refused(lambda: RateLimitMiddleware(None, redis="redis://127.0.0.1:1", routes=twice))

slow = Limit("b", f"TOKEN {2**53 - 1} 0.000001", constant("k"))
reply = Reply(1, 2**53 - 1, 2**53 - 2, 0, 1)
assert slow.policy(reply) == '"b";q=999999999999999;w=999999999999999'
assert slow.state(reply) == '"b";r=999999999999999;t=1'
"""

NODE = """
import assert from 'node:assert';
import { rateLimit } from './redis-rl.js';

const most = 2 ** 53 - 1;
const redis = { ask: async () => [1, most, most - 1, 0, 1], report: (error) => { throw error; } };
const limit = (name) => ({ name, algorithm: `TOKEN ${most} 0.000001`, key: () => 'k' });
for (const name of ['', 'a:b', 'a b', 'a"', '{a}', '\\u00fc']) {
  assert.throws(() => rateLimit(redis, { limits: [limit(name)] }), TypeError);
}
assert.throws(() => rateLimit(redis, { limits: [limit('a'), limit('a')] }), TypeError);

const headers = {};
const res = {
  getHeader: (name) => headers[name],
  setHeader: (name, value) => { headers[name] = value; },
};
const middleware = rateLimit(redis, { limits: [limit('per-user_v1.2')] });
await new Promise((go, fail) => middleware({}, res, (error) => error ? fail(error) : go()));
assert.deepEqual(headers, {
  'RateLimit-Policy': '"per-user_v1.2";q=999999999999999;w=999999999999999',
  RateLimit: '"per-user_v1.2";r=999999999999999;t=1',
});
"""


def run(demo: apps.Demo, *arguments: str) -> None:
    done = subprocess.run(
        [demo.command[0], *arguments],
        cwd=demo.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_python():
    run(apps.python(), "-c", PYTHON)


def test_node():
    run(apps.node(), "--input-type=module", "-e", NODE)
