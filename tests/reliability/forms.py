"""The two forms of this suite, and what it has counted.

The short form is part of `make test`. `RL_LONG=1` asks for the long one, which takes its time.
"""

import os
from collections import Counter, defaultdict

LONG = os.environ.get("RL_LONG", "") not in ("", "0")

# Of each point: how many of what, over all servers. Shown at the end of a run.
COUNTS: defaultdict[str, Counter] = defaultdict(Counter)


def form(short, long):
    """How much of something this run does."""
    return long if LONG else short
