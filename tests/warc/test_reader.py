"""Heads of records and of HTTP messages, compared with what says the same in a line."""

import base64
import gzip
import hashlib
import random
import re

import pytest

from frontier.dedupe.digest import hashing
from frontier.errors import BadWarc
from frontier.postcrawl.payload import payload_in
from frontier.warc.reader import Found, Head, Source, body_start, records_of

END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
CHUNKED = re.compile(rb"(?im)^transfer-encoding[ \t]*:[^\r\n]*\bchunked\b")
FOLD = re.compile(rb"\r\n[ \t]+")
BODY = b"a body"


def drawn(dice, pieces):
    return b"".join(dice.choice(pieces) for _ in range(dice.randrange(16)))


def test_the_head_of_a_message_ends_at_its_first_empty_line():
    dice = random.Random(1)
    lines = [b"\r", b"\n", b"\r\n", b"a", b"Transfer-Encoding: ", b"chunked", b", "]
    ends = set()
    for _ in range(20_000):
        block = b"HTTP/1.1 200 OK" + drawn(dice, lines)
        end = END_OF_HEAD.search(block)
        if end is None:
            with pytest.raises(ValueError, match="without an end"):
                body_start(block)
            continue
        has_chunks = CHUNKED.search(block[: end.start()]) is not None
        assert body_start(block) == (end.end(), has_chunks), block
        ends.add((end[0], has_chunks))

    assert len(ends) == 8


def test_first_of_repeated_headers_wins_and_header_names_are_ascii():
    dice = random.Random(2)
    kelvin = "\N{KELVIN SIGN}".encode()  # in lower case a k
    parts = [b"\r\n", b"\n", b":", b" ", b"\t", b"a", b"A", b"k", kelvin, b"\xff", b"x"]
    for _ in range(20_000):
        top = drawn(dice, parts)
        first = {}
        for line in FOLD.sub(b" ", top).decode("utf-8", "replace").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon and name.isascii():
                first.setdefault(name.rstrip().lower(), value.strip(" \t\n"))
        head = Head(top)
        assert {name: head.get(name) for name in first} == first
        assert head.get("k", "none") == first.get("k", "none"), top


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5", "sha512", "blake3"])
def test_a_claimed_digest_is_compared_however_it_is_spelled(algorithm):
    def agrees(claimed):
        top = f"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Payload-Digest: {claimed}"
        found = Found(0, Head(top.encode(), len(BODY)), Source("", [BODY]))
        return payload_in(found, algorithm, claimed).agrees

    computed = hashing(algorithm)
    computed.update(BODY)
    right = computed.hexdigest()
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    other = hashlib.sha1(BODY).digest()

    assert agrees(f"{algorithm}:{right}")
    assert agrees(f"{algorithm.upper()}:{right.upper()}")
    assert agrees(f"sha1:{base64.b32encode(other).decode()}")
    assert not agrees(f"{algorithm}:{wrong}")
    assert not agrees(f"{algorithm}:{right}0")
    assert not agrees(f"{algorithm}:crc:{right}")


def test_a_record_with_endless_headers_is_refused():
    many = gzip.compress(b"WARC/1.1\r\n" + b"A: b\r\n" * 100_000 + b"\r\n")

    with pytest.raises(BadWarc, match="endless headers"):
        list(records_of("x.warc.gz", [many]))
