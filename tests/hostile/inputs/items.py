"""Items of the queue, as whoever may write to the store leaves them."""

import msgpack

from frontier.errors import CodecError
from frontier.queue.item import VERSION, decode, encode
from tests.hostile.corpus import hostile, hostile_each, refused
from tests.hostile.making import MSGPACK

HEAD = b"0" + bytes([VERSION])


def ext(code, content):
    return msgpack.ExtType(code, msgpack.packb(content))


def holding(value):
    return HEAD + msgpack.packb({"url": "http://a.example/", "meta": {"x": value}})


def tuples(depth):
    value = 1
    for _ in range(depth):
        value = ext(1, [value])
    return value


REFUSED = {
    "empty": b"",
    "another-version": b"0\xfe" + msgpack.packb({"url": "http://a.example/"}),
    "a-pickle": b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.",
    "no-map": HEAD + msgpack.packb([1]),
    "no-url": HEAD + msgpack.packb({"meta": {}}),
    "url-of-no-host": b"0\x03" + msgpack.packb({"url": "/page"}),
    "url-of-a-number": HEAD + msgpack.packb({"url": 7}),
    **{name: HEAD + data for name, data in MSGPACK.items()},
    "tuples-of-100-levels": holding(tuples(100)),
    "an-extension-of-nobody": holding(ext(99, [])),
    "a-set-of-lists": holding(ext(2, [[1]])),
    "a-date-of-words": holding(ext(5, "yesterday")),
    "a-zone-that-climbs": holding(
        ext(4, ["2026-01-01T00:00:00", "../../etc/passwd", 0])
    ),
    "a-zone-of-an-absolute-path": holding(
        ext(4, ["2026-01-01T00:00:00", "/etc/passwd", 0])
    ),
    "a-number-of-a-megabyte": holding(ext(16, b"\x7f" * 10**6)),
    "a-decimal-of-words": holding(ext(6, "many")),
    "a-uuid-of-one-byte": holding(ext(17, b"x")),
    "a-factory-of-nobody": holding(ext(9, ["os.system", {}])),
    "a-timedelta-of-infinity": holding(ext(14, [float("inf"), 0, 0])),
    "a-bytearray-of-a-number": holding(ext(7, 10**12)),
    "a-deque-of-a-number": holding(ext(11, 7)),
    "a-path-of-a-list": holding(ext(19, ["x"])),
}


@hostile_each("item", REFUSED)
def _(given, data):
    with refused(CodecError):
        decode(data)


@hostile("item/a-decimal-of-10-to-the-10-to-the-18")
def _(given):
    found = decode(holding(ext(6, "1E+999999999999999999")))
    assert len(str(found["meta"]["x"])) < 100  # and nobody may make an int of it


@hostile("item/one-of-every-byte-changed")
def _(given):
    """Every single byte of a good item, changed in four ways: read, or refused."""
    good = encode(
        {
            "url": "http://a.example/",
            "method": "POST",
            "body": b"x",
            "meta": {"a": (1,)},
        }
    )
    item = b"0" + good[1:]
    for at in range(2, len(item)):
        for value in (0, 0x7F, 0xC1, 0xFF):
            odd = item[:at] + bytes([value]) + item[at + 1 :]
            try:
                found = decode(odd)
            except CodecError:
                continue
            assert isinstance(found["url"], str)


@hostile("item/every-length-of-a-good-one")
def _(given):
    item = HEAD + msgpack.packb({"url": "http://a.example/", "meta": {"a": [1] * 100}})
    for size in range(len(item)):
        with refused(CodecError):
            decode(item[:size])


@hostile("item/an-int-of-1024-bytes-that-is-printed")
def _(given):
    found = decode(holding(ext(16, b"\x7f" + b"\xff" * 1_023)))
    with refused(ValueError, "Exceeds"):
        for _ in range(3):  # Python refuses what would take the square of its length
            found = str(found["meta"]["x"] ** 2)
