import ipaddress

import pytest
from scrapy import Request
from scrapy.http import Headers, Response

from frontier.download.capture import exchange_of


def exchange(request=None, response=None):
    request = request or Request("http://a.example/")
    return exchange_of(request, response or Response(request.url), 12.5)


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://a.example", b"GET / HTTP/1.1", b"a.example"),
        ("http://a.example/x/y?b=1&a", b"GET /x/y?b=1&a HTTP/1.1", b"a.example"),
        ("http://a.example?q", b"GET /?q HTTP/1.1", b"a.example"),
        ("http://a.example:8080/", b"GET / HTTP/1.1", b"a.example:8080"),
        ("http://u:p@a.example/", b"GET / HTTP/1.1", b"a.example"),
        ("http://[::1]:81/", b"GET / HTTP/1.1", b"[::1]:81"),
        ("http://bücher.example/ü", b"GET /%C3%BC HTTP/1.1", b"xn--bcher-kva.example"),
        ("http://a.example/#part", b"GET / HTTP/1.1", b"a.example"),
    ],
)
def test_a_request_head_has_the_target_and_the_host(url, line, host):
    head = exchange(Request(url)).request_head

    assert head == line + b"\r\nHost: " + host + b"\r\n\r\n"


def test_a_host_that_was_sent_is_kept():
    head = exchange(Request("http://a.example/", headers={"Host": "b"})).request_head

    assert head.count(b"Host: ") == 1
    assert b"\r\nHost: b\r\n" in head


def test_a_body_comes_with_its_length():
    request = Request("http://a.example/", method="POST", body=b"a=1\r\n\r\n\x00")
    found = exchange(request)

    assert found.request_head.startswith(b"POST / HTTP/1.1\r\n")
    assert found.request_head.endswith(b"\r\nContent-Length: 8\r\n\r\n")
    assert found.request_body == request.body


def test_a_length_that_was_sent_is_not_said_twice():
    headers = {"Content-Length": "3"}
    found = exchange(Request("http://a.example/", body=b"abc", headers=headers))

    assert found.request_head.lower().count(b"content-length") == 1


def head_with(headers):
    """The head of an archived response with *headers*."""
    answer = Response("http://a.example/", headers=headers)
    return exchange(response=answer).response_head


def test_headers_of_one_name_stay_lines_of_their_own():
    headers = Headers([("Set-Cookie", "a=1; Path=/"), ("Set-Cookie", "b=2")])
    head = head_with(headers)

    assert head == (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\n\r\n"
    )


def test_bytes_of_a_header_stay_as_they_are():
    headers = {"X-Name": "Müller".encode("latin-1"), "Content-Encoding": "gzip"}
    head = head_with(headers)

    assert b"\r\nX-Name: M\xfcller\r\n" in head
    assert b"\r\nContent-Encoding: gzip\r\n" in head


def test_hop_by_hop_headers_are_left_out_of_the_response_head():
    headers = {
        "transfer-encoding": "chunked",
        "Connection": "close",
        "keep-alive": "timeout=5",
        "Content-Type": "text/html",
    }
    head = head_with(headers)

    assert head == b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def test_a_header_cannot_begin_another_one():
    headers = {"X-A": b"1\r\nX-Evil: 2\n\nbody"}
    head = head_with(headers)

    assert head == b"HTTP/1.1 200 OK\r\nX-A: 1  X-Evil: 2  body\r\n\r\n"


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (200, b"HTTP/1.1 200 OK"),
        (404, b"HTTP/1.1 404 Not Found"),
        (999, b"HTTP/1.1 999"),
    ],
)
def test_a_status_line_has_the_standard_phrase(status, line):
    found = exchange(response=Response("http://a.example/", status=status))

    assert found.response_head == line + b"\r\n\r\n"
    assert found.status == status


def test_the_rest_of_an_exchange_is_what_scrapy_says():
    response = Response(
        "http://a.example/",
        body=b"\x1f\x8b",
        flags=["dataloss"],
        ip_address=ipaddress.ip_address("::1"),
    )
    found = exchange(response=response)

    assert (found.url, found.started) == ("http://a.example/", 12.5)
    assert found.response_body == b"\x1f\x8b"
    assert (found.ip, found.truncated) == ("::1", "disconnect")
    ends_with_connection = exchange(response=Response("http://a/", flags=["partial"]))
    assert ends_with_connection.truncated is None
    assert (exchange().ip, exchange().truncated) == (None, None)
