"""How long a key lives after a call."""


def assert_lifetime(r, command, at_least=0) -> list[int]:
    """After this allowed call the key lives for reset_ms to 1.5 * reset_ms (or `at_least`).

    Call and PTTL stand in one transaction, in which no key can vanish; the two TIMEs around them
    bound what passed in between (where the server does not freeze its clock for a transaction).
    """
    transaction = r.pipeline(transaction=True)
    transaction.time().execute_command(*command).pttl(command[1]).time()
    before, reply, ttl, after = transaction.execute()
    passed = (after[0] - before[0]) * 1000 + after[1] // 1000 - before[1] // 1000 + 1
    assert reply[0] == 1
    needed = max(reply[4], at_least)
    assert needed - passed <= ttl <= needed * 3 // 2 + passed
    return reply
