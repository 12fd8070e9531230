"""Seeds: files of them, and lines as JSON objects."""

import json

from frontier.errors import ConfigurationError
from frontier.seeds.read import Line, SeedFault, read_seeds
from tests.hostile.corpus import hostile, hostile_each, refused
from tests.hostile.making import nested

GOOD = "http://a.example/"


def line(**facts):
    return json.dumps({"url": GOOD} | facts)


REFUSED = {  # name to a line, and what is said of it
    "no-scheme": ("a.example", "is not an http or https URL"),
    "no-url": ('{"meta": {}}', "is not an http or https URL"),
    "a-url-of-a-number": (line(url=7), "a url that is not of type str"),
    "a-priority-of-text": (line(priority="1"), "a priority that is not of type int"),
    "a-priority-of-true": (line(priority=True), "a priority that is not of type int"),
    "meta-of-a-list": (line(meta=[]), "a meta that is not of type dict"),
    "a-file-url": ("file:///etc/passwd", "is not an http or https URL"),
    "a-script": ("javascript:alert(1)", "is not an http or https URL"),
    "a-data-url": ("data:text/html,x", "is not an http or https URL"),
    "an-ftp-url-in-json": (line(url="ftp://a.example/"), "is not an http or https URL"),
    "brackets": ("http://[::1/", "is not an http or https URL"),
    "a-port-of-words": ("http://a.example:many/", "is not an http or https URL"),
    "a-port-of-65536": ("http://a.example:65536/", "is not an http or https URL"),
    "no-host": ("http:///path", "is not an http or https URL"),
    "white-space": ("http://a.example/a b", "white space or a control"),
    "a-nul": ("http://a.example/a\0b", "or a control character"),
    "an-escape": ("http://a.example/\x1b[2J", "or a control character"),
    "a-line-end-in-json": (line(url="http://a.example/\r\nX: y"), "control character"),
    "a-surrogate-in-json": ('{"url": "http://a.example/\\ud800"}', "control character"),
    "json-that-is-cut": ('{"url": "http://a.exam', "is not JSON"),
    "json-of-100000-levels": (nested('{"url":', "}", 100_000), "is not JSON"),
    "json-of-a-million-digits": ('{"url": ' + "9" * 10**6 + "}", "is not JSON"),
    "a-dunder-callback": (line(callback="__init__"), "is not the name of a public"),
    "a-callback-with-dots": (line(callback="os.system"), "is not the name of a public"),
    "a-method-with-line-ends": (line(method="GET\r\nX: y"), "that HTTP does not have"),
    "a-method-of-a-megabyte": (line(method="A" * 10**6), "that HTTP does not have"),
    "a-header-with-line-ends": (line(headers={"X": "a\r\nY: b"}), "control character"),
    "a-header-name-with-line-ends": (line(headers={"X\n": "a"}), "control character"),
    "headers-of-a-list": (line(headers=["X"]), "is not of type dict"),
    "a-priority-of-10-to-the-30": (line(priority=10**30), "is beyond"),
    "a-priority-of-nan": (
        line(priority=float("nan")),
        "is not of type int",
    ),
    "an-unknown-name": (line(flags=["x"]), "which is none of"),
    "a-field-of-a-megabyte": (line(**{"x" * 10**6: 1}), "which is none of"),
}


@hostile_each("seeds", REFUSED)
def _(given, text, told):
    with refused(SeedFault, told):
        Line("", text).seed()


@hostile("seeds/a-file-of-20-mb-without-a-line-end")
def _(given):
    path = given.file("seeds.txt", b"http://a.example/" + b"a" * (20 << 20))
    with refused(ConfigurationError, "no seed in"):  # the line is left out, and said
        read_seeds(str(path))


@hostile("seeds/a-file-of-every-byte-and-one-url")
def _(given):
    noise = bytes(n for n in range(256) if n not in (10, 13)) * 10
    path = given.file("seeds.txt", noise + b"\n" + GOOD.encode() + b"\n" + noise)
    assert read_seeds(str(path)) == [GOOD]


@hostile("seeds/utf-16-with-a-mark")
def _(given):
    path = given.file("seeds.txt", GOOD.encode("utf-16"))
    with refused(ConfigurationError, "can be crawled"):
        read_seeds(str(path))


@hostile("seeds/a-name-with-a-nul")
def _(given):
    with refused(ConfigurationError):
        read_seeds("seeds\0.txt")


@hostile("seeds/a-name-of-a-megabyte")
def _(given):
    with refused(ConfigurationError):
        read_seeds("s" * 10**6)
