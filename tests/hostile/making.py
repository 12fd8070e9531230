"""Files as attackers make them: records, archives and indexes that lie."""

import gzip
import json
import zipfile
import zlib

from tests.collection import samples

BIG = 10**13
MSGPACK = {  # what claims more than it has, or nests deeper than anybody reads
    "no-msgpack": b"\xc1" * 100,
    "an-array-of-4-billion": b"\xdd\xff\xff\xff\xff\xa1p",
    "a-map-of-4-billion": b"\xdf\xff\xff\xff\xff",
    "text-of-4-gb": b"\xdb\xff\xff\xff\xff",
    "bytes-of-4-gb": b"\xc6\xff\xff\xff\xff",
    "arrays-of-a-million-levels": b"\x91" * 10**6 + b"\xc0",
    "maps-of-a-million-levels": b"\x81\xa1a" * 10**6 + b"\xc0",
    "an-extension": b"\xc7\x03\x05abc",
    "a-timestamp": b"\xd7\xff" + bytes(8),
    "a-message-that-is-cut": b"\x93\xa1p",
}


def record(number=0, block=None, length=None, kind="response", **headers):
    """A WARC record, and what of its headers is to be otherwise (None for without)."""
    if block is None:
        block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nbody %d" % number
    named = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:00000000-0000-4000-8000-{number:012d}>",
        "WARC-Date": "2026-01-01T00:00:00Z",
        "WARC-Target-URI": f"http://a.example/{number}",
        "Content-Type": "application/http; msgtype=response",
        "WARC-Payload-Digest": f"sha256:{number:064d}",
        "Content-Length": str(len(block) if length is None else length),
    }
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [b"WARC/1.1"]
    for name, value in named.items():
        if value is not None:
            value = value if isinstance(value, bytes) else str(value).encode()
            lines.append(name.encode() + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n" + block + b"\r\n\r\n"


def warc(*records):
    return b"".join(gzip.compress(each, mtime=0) for each in records)


def zeros(count, level=9):
    """A gzip member of *count* MB of zeros, some at a time, and what it begins with."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    for _ in range(count):
        yield deflate.compress(piece)
    yield deflate.flush()


def bomb(head, megabytes, tail=b""):
    """A gzip member of *head*, then so many MB of zeros, then *tail*."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield deflate.compress(head)
    piece = bytes(1 << 20)
    for _ in range(megabytes):
        yield deflate.compress(piece)
    yield deflate.compress(tail) + deflate.flush()


def warc_bomb(megabytes):
    """A packed file of a record whose body inflates to so many."""
    head = record(0, b"", length=megabytes << 20).removesuffix(b"\r\n\r\n")
    return bomb(head, megabytes, b"\r\n\r\n")


def line(number=0, **facts):
    """A line of CDXJ."""
    return f"{samples.line(number, **facts)}\n"


def resource(path, **facts):
    """What a manifest says of a file."""
    given = samples.resource(path, "", **facts)
    return {name: given[name] for name in given if given[name] != ""}


def manifest(*resources):
    return json.dumps({"resources": resources})


def zipped(path, members, method=zipfile.ZIP_STORED):
    """A zip file of *members*, names or `ZipInfo` to data; names may be there twice."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def patched(path, old, new, count=-1):
    """Have the file at *path* say *new* where it says *old*."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, count))
    return path


def wacz(path, lines=None, **more):
    """A WACZ as another tool may make it, with an index of *lines*."""
    text = "".join(lines or [line()])
    members = [
        ("datapackage.json", "{}"),
        ("indexes/index.cdx.gz", gzip.compress(text.encode())),
        *more.items(),
    ]
    return zipped(path, members)


def nested(opening, closing, depth):
    return opening * depth + closing * depth
