"""Was more admitted than SPEC.md allows? Asked of a list of admissions, and of nothing else.

An admission is (time, cost), in the order in which they were decided. Times never go back. Of a
correct limiter any part of what it admitted is within the limit, too, so it does not matter if
some admissions are unknown: those that a crash cut off before they were acknowledged.
"""

from collections import deque
from fractions import Fraction


def over_fixed(admissions, window, limit) -> list:
    """Those with which a window on the clock came above the limit."""
    over, counts = [], {}
    for time, cost in admissions:
        start = time // window
        counts[start] = counts.get(start, 0) + cost
        if counts[start] > limit:
            over.append((time, cost, counts[start]))
    return over


def over_sliding(admissions, window, limit) -> list:
    """Those with which any stretch of a window's length came above the limit."""
    over, inside, total = [], deque(), 0
    for time, cost in admissions:
        inside.append((time, cost))
        total += cost
        while inside[0][0] <= time - window:
            total -= inside.popleft()[1]
        if total > limit:
            over.append((time, cost, total))
    return over


def over_counter(admissions, window, limit, buckets=10) -> list:
    """Those with which the estimate of a sliding window came above the limit."""
    over, counts = [], {}
    part = -(-window // buckets)
    for time, cost in admissions:
        i = time // part
        counts[i] = counts.get(i, 0) + cost
        leaving = Fraction(counts.get(i - buckets, 0) * (part - time % part), part)
        estimate = sum(counts.get(i - back, 0) for back in range(buckets)) + leaving
        if estimate > limit:
            over.append((time, cost, estimate))
    return over


def over_bucket(admissions, capacity, rate: Fraction) -> list:
    """Those with which a bucket that drains at `rate` per millisecond came above its capacity."""
    over, used, last = [], Fraction(0), 0
    for time, cost in admissions:
        used = max(Fraction(0), used - rate * (time - last)) + cost
        last = time
        if used > capacity:
            over.append((time, cost, used))
    return over
