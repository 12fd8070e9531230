import socket

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


def test_all_hosts_have_different_addresses(listen):
    names = listen(5, 0)

    assert len(set(names)) == 5
    assert all(address.startswith("127.0.0.") for address, _ in names)


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
    bind = socket.create_server
    failed = []

    def listen_on(address, **how):
        if address[0] == "127.0.0.3" and not failed:
            failed.append(address)
            raise OSError("taken")
        return bind(address, **how)

    monkeypatch.setattr(socket, "create_server", listen_on)
    names = listen(3, 0)

    assert failed
    assert len(names) == 3
    assert len({port for _, port in names}) == 1
