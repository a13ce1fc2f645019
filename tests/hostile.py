"""Each argument of each limiter's command, and what it may never be."""

HOSTILE = {
    "0": "0",
    "-1": "-1",
    "-0": "-0",
    "1e309": "1e309",
    "nan": "nan",
    "inf": "inf",
    "empty": "",
    "2^63": 2**63,
    "2^64": 2**64,
    "0.0000001": "0.0000001",
    "binary": b"1\x00\r\n\xff",
    "1 MB of digits": b"9" * 1_000_000,
    "1 MB of bytes": bytes(range(256)) * 4096,
}

# Each argument of each command: a right command line, where the argument stands, its name.
ARGUMENTS = [
    ("RL.FIXED k 60 10 COST 2 OFFSET 8h AT 1699999200000", 2, "window"),
    ("RL.FIXED k 60 10 COST 2 OFFSET 8h AT 1699999200000", 3, "max"),
    ("RL.FIXED k 60 10 COST 2 OFFSET 8h AT 1699999200000", 5, "COST"),
    ("RL.FIXED k 60 10 COST 2 OFFSET 8h AT 1699999200000", 7, "OFFSET"),
    ("RL.FIXED k 60 10 COST 2 OFFSET 8h AT 1699999200000", 9, "AT"),
    ("RL.SLIDING k 60 10 3600 90 COST 2 AT 1699999200000", 2, "window"),
    ("RL.SLIDING k 60 10 3600 90 COST 2 AT 1699999200000", 3, "max"),
    ("RL.SLIDING k 60 10 3600 90 COST 2 AT 1699999200000", 4, "window"),
    ("RL.SLIDING k 60 10 3600 90 COST 2 AT 1699999200000", 5, "max"),
    ("RL.SLIDING k 60 10 3600 90 COST 2 AT 1699999200000", 7, "COST"),
    ("RL.SLIDING k 60 10 3600 90 COST 2 AT 1699999200000", 9, "AT"),
    ("RL.TOKEN k 10 2 COST 2 AT 1699999200000", 2, "capacity"),
    ("RL.TOKEN k 10 2 COST 2 AT 1699999200000", 3, "rate"),
    ("RL.TOKEN k 10 2 COST 2 AT 1699999200000", 5, "COST"),
    ("RL.TOKEN k 10 2 COST 2 AT 1699999200000", 7, "AT"),
    ("RL.COUNTER k 60 10 BUCKETS 5 COST 2 AT 1699999200000", 2, "window"),
    ("RL.COUNTER k 60 10 BUCKETS 5 COST 2 AT 1699999200000", 3, "max"),
    ("RL.COUNTER k 60 10 BUCKETS 5 COST 2 AT 1699999200000", 5, "BUCKETS"),
    ("RL.COUNTER k 60 10 BUCKETS 5 COST 2 AT 1699999200000", 7, "COST"),
    ("RL.COUNTER k 60 10 BUCKETS 5 COST 2 AT 1699999200000", 9, "AT"),
    ("RL.LEAKY k 10 2 COST 2 AT 1699999200000", 2, "capacity"),
    ("RL.LEAKY k 10 2 COST 2 AT 1699999200000", 3, "rate"),
    ("RL.LEAKY k 10 2 COST 2 AT 1699999200000", 5, "COST"),
    ("RL.LEAKY k 10 2 COST 2 AT 1699999200000", 7, "AT"),
]
ARGUMENT_IDS = [f"{line.split()[0]} {i} {name}" for line, i, name in ARGUMENTS]
