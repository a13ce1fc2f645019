"""What a sliding log costs: at most 12 bytes for each live millisecond, also while it slides on."""

import pytest

from limiters import FIXED, LEAKY, TOKEN

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


# Key bytes over all four servers; a key named `k`, with its expiry.
FIXED_SIZES = [
    (FIXED.call("k", 10**6), 26, 104),
    (TOKEN.call("k", 10**6), 34, 112),
    (LEAKY.call("k", 10**6), 34, 112),
    (["RL.THROTTLE", "k", 10**6, 1, 1000], 34, 112),
    (["RL.COUNTER", "k", 60, 10**6], 64, 144),
    (["RL.COUNTER", "k", 60, 10**6, "BUCKETS", 256], 1048, 1400),
]


@pytest.mark.parametrize(
    ("command", "length", "usage"), FIXED_SIZES, ids=lambda part: str(part).strip("[]")
)
def test_state_of_fixed_size(wire, command, length, usage):
    """As many bytes after the first call as after 10,000, whatever time they fall into."""
    sizes, has_clock = set(), command[0] != "RL.THROTTLE"
    for start in range(0, 10_000, 1_000):
        calls = [command + ["AT", NOW + 37 * i] * has_clock for i in range(start, start + 1_000)]
        for some in (calls[:1], calls[1:]):
            assert {reply[0] for reply in wire.pipeline(some)} == {1 if has_clock else 0}
            sizes.add((wire("STRLEN", "k"), wire("MEMORY", "USAGE", "k", "SAMPLES", 0)))
    assert len(sizes) == 1
    assert sizes.pop() <= (length, usage)


def test_a_counter_of_billions_is_wider_while_it_holds_them(wire):
    """Counts take four bytes each, and eight while one of them is above 2^32 - 1."""
    line = ["RL.COUNTER", "k", 10, 2**53 - 1, "AT", NOW]
    lengths = []
    for cost, at in ((2**32 - 1, NOW), (1, NOW), (1, NOW + 10_999), (1, NOW + 11_000)):
        reply = wire(*line[:-1], at, "COST", cost)
        lengths.append((wire("STRLEN", "k"), reply[0]))
    assert lengths == [(64, 1), (108, 1), (108, 1), (64, 1)]
