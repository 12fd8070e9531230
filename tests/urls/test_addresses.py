"""Classes of addresses, by every spelling under which a page may have them."""

import ipaddress
import socket

import pytest

from frontier.urls.addresses import (
    address_in,
    class_of,
    class_of_host,
    class_of_peer,
)
from tests.harness.cases import each

HOSTS = {
    "loopback": """127.0.0.1 127.1 127.0.1 0177.0.0.1 0x7f.0.0.1 0x7F.1 2130706433
        017700000001 0x7f000001 127.0.0.1. localhost LOCALHOST localhost. a.localhost
        [::1] ::1 [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1]
        [64:ff9b::127.0.0.1] [2002:7f00:1::] 0.0.0.0 0 [::] 127.255.255.254
        127。0。0。1 ①②⑦.0.0.1""",
    "private": """10.0.0.1 10.1 012.0.0.1 0xa.0.0.1 167772161 172.16.0.1 172.31.255.255
        192.168.1.1 192.168.257 100.64.0.1 198.18.0.1 [fc00::1] [fd12:3456::1]
        [::ffff:10.0.0.1] [64:ff9b::a00:1] [2002:a00:1::] [fec0::1] [64:ff9b:1::1]
        0.1.2.3 192.0.2.1 198.51.100.1 203.0.113.9 [2001:db8::1] 192.0.0.1""",
    "link-local": "169.254.1.1 [fe80::1] [fe80::1%25eth0] fe80::1%eth0 169.254.257",
    "metadata": """169.254.169.254 0xa9fea9fe 2852039166 0251.0376.0251.0376
        169.254.43518 [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [fd00:ec2::254]
        [FD00:EC2:0:0:0:0:0:254] 100.100.100.200 168.63.129.16 [64:ff9b::a9fe:a9fe]
        metadata.google.internal Metadata.Google.Internal. 169.254.170.2""",
    "reserved": """224.0.0.1 255.255.255.255 240.0.0.1 [ff02::1] [100::1] [4000::1]
        [5f00::1] [::127.0.0.1] [::ffff:0:127.0.0.1]""",
    "public": """93.184.216.34 1.1.1.1 1.1 8.8.8.8 0x08080808 172.32.0.1 11.0.0.1
        [2606:4700::1111] [64:ff9b::8.8.8.8] [2002:808:808::1] [::ffff:8.8.8.8]""",
}


@each(
    ("host", "kind"),
    [(host, kind) for kind, hosts in HOSTS.items() for host in hosts.split()],
)
def test_every_spelling_of_an_address_has_its_class(host, kind):
    assert class_of_host(host) == kind


NAMES = """example.org localhost.example.org notlocalhost 127.0.0.1.example.org 1e3
    256.0.0.1 1.2.3.4.5 0x1ffffffff a1.2 xn--bcher-kva.example 127.0.0.08
    169.254.169.254.nip.io [::g] localhost- 0xg"""


@pytest.mark.parametrize("host", NAMES.split())
def test_a_name_says_nothing_by_itself(host):
    assert class_of_host(host) is None


def test_a_host_is_read_as_the_system_reads_it():
    """By a judge that nobody here wrote: what `getaddrinfo` makes of numbers."""
    for host in " ".join(HOSTS.values()).split():
        text = host.strip("[]").partition("%")[0]
        if not text.isascii() or not text[-1].isalnum() or "localhost" in text.lower():
            continue
        try:
            found = socket.getaddrinfo(text, 80, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            continue
        judged = ipaddress.ip_address(found[0][4][0])
        assert address_in(host) == judged
        assert class_of_peer(found[0][4][0]) == class_of(judged)


def test_a_peer_that_is_no_address_is_not_public():
    assert class_of_peer("nonsense") == "reserved"
