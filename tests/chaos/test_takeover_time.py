from tests.chaos.durable import Lease
from tests.chaos.takeover_time import Takeovers


def leases(*tokens):
    return [Lease(number, token, "x") for number, token in enumerate(tokens) if token]


def healed(takeovers, *tokens):
    return list(takeovers.healed(leases(*tokens)))


def test_a_node_is_replaced_when_the_last_of_its_partitions_is_held_again():
    takeovers = Takeovers(clock=lambda: 13.0)
    takeovers.add("dead", 10.0, leases("1", "1", "1"))

    assert healed(takeovers, "1", "1", "1") == []  # its own leases, not ended yet
    assert healed(takeovers, "2", None, None) == []
    assert healed(takeovers, "2", "3", "2") == [("dead", 3.0)]
    assert healed(takeovers, "2", "3", "2") == []


def test_forgotten_takeovers_and_those_of_nothing_are_never_reported():
    takeovers = Takeovers()
    takeovers.add("dead", 10.0, leases("1"))
    takeovers.forget()
    takeovers.add("idle", 10.0, [])

    assert healed(takeovers, "2") == []
