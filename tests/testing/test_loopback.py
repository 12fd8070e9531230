import errno

import pytest

from frontier.errors import ConfigurationError
from frontier.testing import server
from frontier.testing.server import close
from tests.topologies import free_ports


@pytest.fixture
def listen():
    """Listen, until the test is over; return the addresses and ports."""
    opened = []

    def listen(hosts, port):
        sockets = server.listen(hosts, port)
        opened.extend(sockets)
        return [sock.getsockname() for sock in sockets]

    listen.close = lambda: close(opened)
    yield listen
    listen.close()


@pytest.fixture
def without_aliases(monkeypatch):
    """A system as macOS is: of the loopback addresses it has 127.0.0.1 only."""
    bind = server._listen

    def listen_on(address, port):
        if address != "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, "no such address")
        return bind(address, port)

    monkeypatch.setattr(server, "_listen", listen_on)


def test_all_hosts_have_different_addresses(listen):
    names = listen(5, 0)

    assert len(set(names)) == 5
    assert all(address.startswith("127.0.0.") for address, _ in names)


def test_without_aliases_each_host_has_a_port(listen, without_aliases):
    names = listen(3, 0)

    assert {address for address, _ in names} == {"127.0.0.1"}
    assert len({port for _, port in names}) == 3


def test_a_port_can_be_requested_and_reused(listen):
    (port,) = free_ports(1)
    first = listen(2, port)
    listen.close()

    assert listen(2, port) == first


def test_a_port_in_use_is_refused(listen):
    ((_, port),) = listen(1, 0)

    with pytest.raises(ConfigurationError, match="cannot listen"):
        listen(1, port)


def test_another_ephemeral_port_is_tried_if_one_alias_fails(listen, monkeypatch):
    bind = server._listen
    failed = []

    def listen_on(address, port):
        if address == "127.0.0.3" and not failed:
            failed.append(port)
            raise OSError(errno.EADDRINUSE, "taken")
        return bind(address, port)

    monkeypatch.setattr(server, "_listen", listen_on)
    names = listen(3, 0)

    assert failed
    assert len(names) == 3
    assert len({port for _, port in names}) == 1
