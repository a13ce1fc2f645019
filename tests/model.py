"""What docs/commands says, written again as slowly and plainly as it can be: lists and fractions.

Nothing here was taken from the module. Times are whole milliseconds, a rate is a Fraction of units
per millisecond. Each class is one key; `call` returns the five integers.
"""

from fractions import Fraction
from math import ceil, floor

LARGEST = 9_007_199_254_740_991  # of all numbers, a time of 285,000 years among them


def reply(allowed, limit, room, wait, reset) -> list[int]:
    wait, reset = min(ceil(wait), LARGEST), min(ceil(reset), LARGEST)
    return [int(allowed), limit, max(0, floor(room)), wait, reset]


class Fixed:
    """A count, and the start of the window that it belongs to."""

    def __init__(self):
        self.start = None
        self.count = 0

    def call(self, now, window, limit, cost=1, offset=0) -> list[int]:
        deciding = now
        if self.start is not None and self.start > now:
            if self.start - now <= window:
                deciding = self.start  # time stands still
            else:
                self.start = now  # the clock was changed: moved back
        start = (deciding + offset) // window * window - offset
        end = start + window
        kept = self.start is not None and start <= self.start < end
        count = self.count if kept else 0
        allowed = count + cost <= limit
        if allowed:
            count += cost
            self.start, self.count = start, count
        wait = 0 if allowed else -1 if cost > limit else end - now
        return reply(allowed, limit, limit - count, wait, end - now if count else 0)


class Sliding:
    """Every request ever let through, as (time, cost)."""

    def __init__(self):
        self.log = []

    def call(self, now, pairs, cost=1) -> list[int]:
        longest = max(window for window, _ in pairs)
        deciding = now
        if self.log:
            newest = self.log[-1][0]
            if newest - now > longest:  # the clock was changed: moved back, ages kept
                self.log = [(time - (newest - now), spent) for time, spent in self.log]
            else:
                deciding = max(now, newest)  # time stands still while it lies ahead
        waits = [self._wait(deciding, window, limit, cost) for window, limit in pairs]
        allowed = all(wait == 0 for wait in waits)
        if allowed:
            self.log.append((deciding, cost))
        rooms = [limit - self._count(deciding, window) for window, limit in pairs]
        if allowed:
            tier = min(range(len(pairs)), key=lambda i: (max(0, rooms[i]), i))
            wait = 0
        else:
            tier = min(range(len(pairs)), key=lambda i: (waits[i] != -1, -waits[i], i))
            wait = waits[tier] if waits[tier] == -1 else waits[tier] + deciding - now
        live = [time for time, _ in self.log if time > deciding - longest]
        reset = live[-1] + longest - now if live else 0
        return reply(allowed, pairs[tier][1], rooms[tier], wait, reset)

    def _count(self, time, window) -> int:
        return sum(spent for made, spent in self.log if made <= time < made + window)

    def _wait(self, time, window, limit, cost) -> int:
        """How long after `time` this one tier allows the cost: 0 for at once, -1 for never."""
        if cost > limit:
            return -1
        ends = [made + window for made, _ in self.log if made + window > time]
        return next(t - time for t in [time, *ends] if self._count(t, window) + cost <= limit)


class Token:
    """What has been used, and when that was so."""

    def __init__(self):
        self.used = Fraction(0)
        self.last = 0

    def call(self, now, capacity, rate, cost=1) -> list[int]:
        if self.last - now > self.used / rate:
            self.last = now  # the clock was changed: moved back
        deciding = max(now, self.last)  # time stands still while the last time lies ahead
        used = max(Fraction(0), self.used - rate * (deciding - self.last))
        allowed = used + cost <= capacity
        wait = (used + cost - capacity) / rate + deciding - now
        if allowed:
            used += cost
            self.used, self.last = used, deciding
            wait = 0
        elif cost > capacity:
            wait = -1
        reset = used / rate + deciding - now if used else 0
        return reply(allowed, capacity, capacity - used, wait, reset)


class Counter:
    """Costs by the number of their sub-window, each `width` long and `parts` of them a window."""

    def __init__(self):
        self.costs = {}
        self.width, self.parts = 1, 1

    def call(self, now, window, limit, cost=1, parts=10) -> list[int]:
        width = -(-window // parts)
        deciding = now
        if self.costs:
            ahead = max(self.costs) * self.width - now
            if ahead > window:  # the clock was changed: moved back, ages kept
                back = max(self.costs) - now // self.width
                self.costs = {number - back: spent for number, spent in self.costs.items()}
            elif ahead > 0:
                deciding = max(self.costs) * self.width  # time stands still
        carried = ceil(self._estimate(deciding))
        before = self.costs, self.width, self.parts
        if (self.width, self.parts) != (width, parts):
            self.costs = {deciding // width: carried} if carried else {}
            self.width, self.parts = width, parts
        estimate = self._estimate(deciding)
        allowed = estimate + cost <= limit
        wait = 0 if allowed else self._wait(deciding, limit, cost)
        if allowed:
            number = deciding // width
            self.costs[number] = self.costs.get(number, 0) + cost
            estimate += cost
        live = [number for number in self.costs if self._end(number) > deciding]
        reset = max(map(self._end, live)) - now if live else 0
        wait = wait + deciding - now if wait > 0 else wait
        if not allowed and not carried:  # nothing to move: a denied call wrote nothing
            self.costs, self.width, self.parts = before
        return reply(allowed, limit, limit - estimate, wait, reset)

    def _end(self, number) -> int:
        """When the last of this sub-window's cost has left the estimate."""
        return (number + self.parts + 1) * self.width

    def _estimate(self, time) -> Fraction:
        number, passed = divmod(time, self.width)
        whole = sum(self.costs.get(number - age, 0) for age in range(self.parts))
        leaving = self.costs.get(number - self.parts, 0)
        return whole + Fraction(leaving * (self.width - passed), self.width)

    def _wait(self, time, limit, cost) -> int:
        """The estimate only falls while nobody calls, so the first right time can be narrowed."""
        if cost > limit:
            return -1
        early, late = time, max(map(self._end, self.costs))  # denied, allowed
        while late - early > 1:
            middle = (early + late) // 2
            if self._estimate(middle) + cost <= limit:
                late = middle
            else:
                early = middle
        return late - time


class Leaky:
    """A queue: when it was so long, in units of cost."""

    def __init__(self):
        self.level = Fraction(0)
        self.since = 0

    def call(self, now, capacity, rate, cost=1) -> list[int]:
        empty_after = self.level / rate
        if self.since - now > empty_after:
            self.since = now  # the clock was changed: moved back
        deciding = max(now, self.since)  # time stands still while the last time lies ahead
        queued = max(Fraction(0), self.level - (deciding - self.since) * rate)
        allowed = queued + cost <= capacity
        late = deciding - now
        if allowed:
            wait = queued / rate + late if queued else 0
            queued += cost
            self.level, self.since = queued, deciding
        else:
            wait = -1 if cost > capacity else (queued + cost - capacity) / rate + late
        reset = queued / rate + late if queued else 0
        return reply(allowed, capacity, capacity - queued, wait, reset)
