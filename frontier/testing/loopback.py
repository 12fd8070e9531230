"""Listening sockets for several hosts on one machine."""

from __future__ import annotations

import errno
import socket

from frontier.errors import ConfigurationError

BACKLOG = 1024
ATTEMPTS = 50
"""How many ephemeral ports are tried until all hosts can have the same one."""


def listen(hosts: int, port: int) -> list[socket.socket]:
    """A listening socket for each host.

    They are 127.0.0.2 and up with one port in common where the system lets
    such addresses be bound (Linux does), otherwise 127.0.0.1 with a port each.
    *port* is the common or the first port; 0 picks free ones.

    Raises:
        ConfigurationError: A port that was asked for is taken, or no ephemeral
            one is free on all hosts.
    """
    aliases = [f"127.0.0.{2 + number}" for number in range(hosts)]
    try:
        for _ in range(1 if port else ATTEMPTS):
            try:
                return _listen_on_aliases(aliases, port)
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                taken = e
    except OSError as e:
        if e.errno == errno.EADDRNOTAVAIL:
            return _listen_on_ports(hosts, port)
        raise ConfigurationError(f"cannot listen on loopback: {e}") from e
    raise ConfigurationError(f"cannot listen on {aliases}: {taken}") from taken


def _listen_on_aliases(aliases: list[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for alias in aliases:
            sockets.append(_listen(alias, port))
            port = sockets[0].getsockname()[1]
    except OSError:
        close(sockets)
        raise
    return sockets


def _listen_on_ports(hosts: int, port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < hosts:
            sockets.append(_listen("127.0.0.1", port and port + len(sockets)))
    except OSError as e:
        close(sockets)
        raise ConfigurationError(f"cannot listen on 127.0.0.1: {e}") from e
    return sockets


def _listen(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def close(sockets: list[socket.socket]) -> None:
    """Close all of *sockets*."""
    for sock in sockets:
        sock.close()
