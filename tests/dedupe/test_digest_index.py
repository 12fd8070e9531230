import pytest

from frontier.dedupe.digest_index import decode, encode
from frontier.model import Original
from frontier.warc.records import dated, digits

DATE = "2026-01-01T00:00:00.123Z"
URL = "http://example.com/?q=a+b"


def test_a_value_has_the_layout_of_browsertrix():
    assert encode(DATE, URL, 1234) == f"0 20260101000000123 {URL} 1234"


def test_encoded_original_is_decoded_unchanged():
    value = encode(DATE, URL, 1234).encode()

    assert decode(value, "crawl") == Original(URL, DATE, "crawl", 1234)


def test_a_url_keeps_its_place_although_it_has_spaces():
    value = decode(encode(DATE, "http://example.com/a b\n", 1))

    assert value == Original("http://example.com/a%20b%0A", DATE, "", 1)


def test_an_imported_date_stays_as_precise_as_it_was():
    found = decode(f"7 20260101000000 {URL} 1", minted=True)
    assert found == Original(URL, "2026-01-01T00:00:00Z", "", 1)
    assert not found.minted
    assert digits("2026-01-01T00:00:00Z") == "20260101000000"
    assert dated("20260101000000123") == DATE


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        b"\xff\xfe",
        f"0 20260101000000123 {URL}",
        f"0 20260101000000123 {URL} 1 2",
        f"0 20260101000000123  {URL} 1",
        f"-1 20260101000000123 {URL} 1",
        f"0 20260101000000123 {URL} -1",
        f"0 20260101000000123 {URL} 1_0",
        f"0 20260101000000123 {URL} \u0661",
        f"0 20260101000000123 {URL} {'9' * 5000}",
        f"0 2026010100000012 {URL} 1",
        f"0 20261301000000123 {URL} 1",
        f"0 20260230000000123 {URL} 1",
        f"0 00000101000000123 {URL} 1",
        f"0 2026-01-01T00:00 {URL} 1",
        "0 20260101000000123 http://a/\r\nX:y 1",
        "0 20260101000000123 http://a/é 1",
        f"0 20260101000000123 http://a/{'x' * 70_000} 1",
    ],
)
def test_a_malformed_value_counts_as_absent(value):
    assert decode(value) is None
