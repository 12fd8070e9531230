from benchmarks.chaos.durable import Lease
from benchmarks.chaos.graves import Graves


def leases(*tokens):
    return [Lease(number, token, "x") for number, token in enumerate(tokens) if token]


def healed(graves, *tokens):
    return list(graves.healed(leases(*tokens)))


def test_a_node_is_replaced_when_the_last_of_its_partitions_is_held_again():
    graves = Graves(clock=lambda: 13.0)
    graves.add("dead", 10.0, leases("1", "1", "1"))

    assert healed(graves, "1", "1", "1") == []  # its own leases, not ended yet
    assert healed(graves, "2", None, None) == []
    assert healed(graves, "2", "3", "2") == [("dead", 3.0)]
    assert healed(graves, "2", "3", "2") == []


def test_a_node_that_held_nothing_needs_no_replacement():
    graves = Graves()
    graves.add("dead", 10.0, [])

    assert healed(graves, "2") == []


def test_what_is_forgotten_is_not_waited_for():
    graves = Graves()
    graves.add("dead", 10.0, leases("1"))
    graves.forget()

    assert healed(graves, "2") == []
