import pytest

from frontier.download.wire import protocol, suite, tls_of


@pytest.mark.parametrize(
    ("openssl", "iana"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("ECDHE-ECDSA-AES256-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
        (
            "ECDHE-RSA-CHACHA20-POLY1305",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ),
        ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"),
        ("DHE-RSA-AES256-GCM-SHA384", "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
        ("PSK-AES128-CBC-SHA", None),
        ("", None),
    ],
)
def test_a_suite_has_its_standard_name_or_none(openssl, iana):
    assert suite(openssl) == iana


def test_a_version_is_spelled_as_warc_protocol_has_it():
    spelled = [protocol(v) for v in ("TLSv1", "TLSv1.2", "TLSv1.3", "SSLv3", "what")]

    assert spelled == ["tls/1.0", "tls/1.2", "tls/1.3", "ssl/3.0", "tls"]


def test_a_transport_without_tls_says_nothing():
    assert tls_of(object()) == ((), None)
