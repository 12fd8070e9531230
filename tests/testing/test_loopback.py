import errno

import pytest

from frontier.errors import ConfigurationError
from frontier.testing import server
from frontier.testing.server import close, listen
from tests.topologies import free_ports


def names(sockets):
    return [sock.getsockname() for sock in sockets]


@pytest.fixture
def without_aliases(monkeypatch):
    """A system as macOS is: of the loopback addresses it has 127.0.0.1 only."""
    bind = server._listen

    def listen_on(address, port):
        if address != "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, "no such address")
        return bind(address, port)

    monkeypatch.setattr(server, "_listen", listen_on)


def test_all_hosts_have_different_addresses():
    sockets = listen(5, 0)
    try:
        assert len(set(names(sockets))) == 5
        assert all(address.startswith("127.0.0.") for address, _ in names(sockets))
    finally:
        close(sockets)


def test_without_aliases_each_host_has_a_port(without_aliases):
    sockets = listen(3, 0)
    try:
        assert {address for address, _ in names(sockets)} == {"127.0.0.1"}
        assert len({port for _, port in names(sockets)}) == 3
    finally:
        close(sockets)


def test_a_port_can_be_requested_and_reused():
    (port,) = free_ports(1)
    sockets = listen(2, port)
    first = names(sockets)
    close(sockets)

    sockets = listen(2, port)
    try:
        assert names(sockets) == first
    finally:
        close(sockets)


def test_a_port_in_use_is_refused():
    sockets = listen(1, 0)
    try:
        with pytest.raises(ConfigurationError, match="cannot listen"):
            listen(1, sockets[0].getsockname()[1])
    finally:
        close(sockets)


def test_another_ephemeral_port_is_tried_if_one_alias_fails(monkeypatch):
    bind = server._listen
    failed = []

    def listen_on(address, port):
        if address == "127.0.0.3" and not failed:
            failed.append(port)
            raise OSError(errno.EADDRINUSE, "taken")
        return bind(address, port)

    monkeypatch.setattr(server, "_listen", listen_on)
    sockets = listen(3, 0)
    try:
        assert failed
        assert len(sockets) == 3
        assert len({port for _, port in names(sockets)}) == 1
    finally:
        close(sockets)
