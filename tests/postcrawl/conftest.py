"""A collection that nobody deduplicated, written by warcio."""

from io import BytesIO

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from tests.harness import commands

PAGE = b"<p>one page, which is in the collection again and again</p>" * 20
OTHER = b"<p>another</p>" * 90


class Written:
    """A WARC file, and what it has."""

    def __init__(self, path, info=None, *, packed=True, version="WARC/1.1"):
        self.path = path
        self._file = path.open("wb")
        self._writer = WARCWriter(self._file, gzip=packed, warc_version=version)
        self._write(self._writer.create_warcinfo_record(path.name, info or {}))

    def response(self, url, second, body, *, status="200 OK", headers=(), **warc):
        """A response, and its id; of the day's *second*, with *warc* headers."""
        named = {f"WARC-{name.replace('_', '-')}": text for name, text in warc.items()}
        record = self._writer.create_warc_record(
            url,
            "response",
            payload=BytesIO(body),
            http_headers=StatusAndHeaders(
                status,
                [*({"Content-Type": "text/html"} | dict(headers)).items()],
                protocol="HTTP/1.1",
            ),
            warc_headers_dict={"WARC-Date": date(second)},
        )
        for name, text in named.items():
            record.rec_headers.replace_header(name, text)
        self._write(record)
        return record.rec_headers.get_header("WARC-Record-ID")

    def post(self, url, second, body):
        """A response to a POST, and the request behind it."""
        answer = self.response(url, second, body)
        self._write(
            self._writer.create_warc_record(
                url,
                "request",
                payload=BytesIO(b"a=1"),
                http_headers=StatusAndHeaders(
                    f"POST {url} HTTP/1.1",
                    [("Content-Type", "application/x-www-form-urlencoded")],
                    is_http_request=True,
                ),
                warc_headers_dict={
                    "WARC-Date": date(second),
                    "WARC-Concurrent-To": answer,
                },
            )
        )

    def revisit(self, url, second, digest, of, at):
        """A revisit as another tool has made it."""
        record = self._writer.create_revisit_record(
            url, digest, of, date(at), warc_headers_dict={"WARC-Date": date(second)}
        )
        self._write(record)

    def fields(self, url, second, line):
        """A metadata record with *line*."""
        self._write(
            self._writer.create_warc_record(
                url,
                "metadata",
                payload=BytesIO(f"{line}\r\n".encode()),
                warc_content_type="application/warc-fields",
                warc_headers_dict={"WARC-Date": date(second)},
            )
        )

    def _write(self, record):
        self._writer.write_record(record)
        record.raw_stream.close()  # a temporary file, by now

    def close(self):
        self._file.close()
        return self.path


def date(second):
    return f"2020-01-01T00:{second // 60:02}:{second % 60:02}Z"


@pytest.fixture
def new_warc(tmp_path):
    directory = tmp_path / "before"
    directory.mkdir()
    return lambda name, **how: Written(directory / name, **how)


@pytest.fixture
def before(tmp_path, new_warc):
    """Two files, of which the second repeats what the first has."""
    first = new_warc("one.warc.gz")
    first.response("http://a.example/", 1, PAGE)
    first.response("http://a.example/other", 2, OTHER)
    first.close()
    second = new_warc("two.warc.gz")
    second.response("http://a.example/", 10, PAGE)
    second.response("http://b.example/", 11, PAGE)
    second.response("http://b.example/new", 12, PAGE + b"!")
    second.response("http://b.example/other", 13, OTHER)
    second.close()
    return tmp_path / "before"


@pytest.fixture
def planned(before, tmp_path):
    """The directory of the manifests of `before`, and of a plan."""
    manifests = tmp_path / "manifests"
    for words in (["manifest", before, "-o", manifests], ["plan", manifests]):
        assert commands.run("warc", *words).returncode == 0
    return manifests
