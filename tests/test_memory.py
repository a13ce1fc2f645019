"""What a sliding log costs: at most 12 bytes for each live millisecond, also while it slides on."""

import pytest

from limiters import FIXED, TOKEN

NOW = 1_699_999_200_000
WINDOW = 60_000

# A script keeps half a million calls off the network. It asks at `first`, `first + 1`, ... and
# returns how many were allowed.
FILL = """
    local allowed = 0
    local limit, first, milliseconds, each = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
    for ms = first, first + milliseconds - 1 do
        local at = string.format('%.0f', ms)
        for i = 1, each do
            allowed = allowed + redis.call('RL.SLIDING', KEYS[1], 60, limit, 'AT', at)[1]
        end
    end
    return allowed
"""
STEP = 2_500  # milliseconds of traffic between two looks at the memory


def fill(wire, first, milliseconds, each):
    """One request after the other; yields the key's bytes every few thousand calls."""
    for start in range(first, first + milliseconds, STEP):
        allowed = wire("EVAL", FILL, 1, "k", 10**6, start, STEP, each)
        assert allowed == STEP * each
        yield wire("MEMORY", "USAGE", "k", "SAMPLES", 0)


def test_twelve_bytes_for_each_live_millisecond(wire):
    """60,000 distinct milliseconds, then half a window more: the log drops what it gains."""
    *_, filled = fill(wire, NOW, WINDOW, each=1)
    assert filled <= 12 * WINDOW
    churned = list(fill(wire, NOW + WINDOW, WINDOW // 2, each=1))
    assert max(churned) <= 12 * WINDOW
    last = wire("RL.SLIDING", "k", 60, 60_000, "AT", NOW + WINDOW * 3 // 2 - 1)
    assert last == [0, 60_000, 0, 1, 60_000]


def test_six_hundred_thousand_requests(wire):
    """Calls in the same millisecond share a slot."""
    *_, filled = fill(wire, NOW, WINDOW, each=10)
    assert filled <= 1_200_000
    last = wire("RL.SLIDING", "k", 60, 600_000, "AT", NOW + WINDOW - 1)
    assert last == [0, 600_000, 0, 1, 60_000]
    assert max(fill(wire, NOW + WINDOW, WINDOW // 2, each=10)) <= 1_200_000


def test_a_log_shrinks_when_its_traffic_does(wire):
    """A busy minute long ago is no reason to keep its slots."""
    *_, full = fill(wire, NOW, WINDOW, each=1)
    for i in range(10):
        wire("RL.SLIDING", "k", 60, 10**6, "AT", NOW + 10 * WINDOW + i)
    assert wire("MEMORY", "USAGE", "k", "SAMPLES", 0) < full // 100


@pytest.mark.parametrize("small", [FIXED, TOKEN], ids=lambda small: small.command)
def test_small_states_do_not_grow(wire, small):
    """A window's count and a bucket take the same few bytes after one call and after thousands."""
    sizes = set()
    for i in range(3_000):
        wire(*small.call("k", 10**6, at=NOW + 40 * i))
        if i % 1_000 in (0, 999):
            sizes.add((wire("STRLEN", "k"), wire("MEMORY", "USAGE", "k", "SAMPLES", 0)))
    assert len(sizes) == 1
    assert sizes.pop()[0] <= 64
