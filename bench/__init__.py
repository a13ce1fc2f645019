"""The benchmark of redis-rl: `make bench`, or `python -m bench --help`."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"

# The tests know where the four servers are and how one is started; so does the benchmark.
sys.path.insert(0, str(REPOSITORY / "tests"))
