import base64
import hashlib

import pytest

from frontier.dedupe.digest import (
    EMPTY,
    digest_of,
    labelled,
    parse,
    spelled,
)

SHA1 = hashlib.sha1(b"abc").digest()
SHA256 = hashlib.sha256(b"abc").digest()
MD5 = hashlib.md5(b"abc").digest()


def base32(raw):
    return base64.b32encode(raw).decode()


def test_the_index_spells_bare_lower_case_hex_and_headers_add_the_label():
    assert digest_of(b"abc") == SHA256.hex()
    assert labelled(digest_of(b"abc")) == f"sha256:{SHA256.hex()}"
    assert digest_of(b"") == EMPTY


@pytest.mark.parametrize(
    ("text", "algorithm", "value"),
    [
        (f"sha256:{SHA256.hex()}", "sha256", SHA256),
        (SHA256.hex(), "sha256", SHA256),
        (SHA256.hex().upper(), "sha256", SHA256),
        (f"SHA-256:{SHA256.hex()}", "sha256", SHA256),
        (f"sha256:{base32(SHA256)}", "sha256", SHA256),
        (base32(SHA256).rstrip("="), "sha256", SHA256),
        (f"sha1:{base32(SHA1)}", "sha1", SHA1),
        (f"urn:sha1:{base32(SHA1)}", "sha1", SHA1),
        (base32(SHA1), "sha1", SHA1),
        (base32(SHA1).lower(), "sha1", SHA1),
        (SHA1.hex(), "sha1", SHA1),
        (f" sha1:{SHA1.hex()}\n", "sha1", SHA1),
        (f"md5:{MD5.hex()}", "md5", MD5),
        (MD5.hex(), "md5", MD5),
        (hashlib.sha512(b"").hexdigest(), "sha512", hashlib.sha512(b"").digest()),
    ],
)
def test_digest_spellings_parse_to_the_same_value(text, algorithm, value):
    assert parse(text) == (algorithm, value)


def test_a_label_decides_what_32_ambiguous_characters_mean():
    text = "ABCDEF22" * 4

    assert parse(text).algorithm == "md5"
    assert parse(f"sha1:{text}") == ("sha1", base64.b32decode(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        "sha1:abc",
        f"sha256:{SHA1.hex()}",
        f"crc32:{SHA1.hex()}",
        SHA256.hex()[:-1],
        "\u017f" * 32,  # its upper case is an ASCII letter
        "-" * 32,
        "g" * 64,
    ],
)
def test_invalid_payload_digest_is_refused(text):
    with pytest.raises(ValueError, match="not a payload digest"):
        parse(text)


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "blake3"])
def test_the_index_has_one_spelling_for_each_digest(algorithm):
    digest = digest_of(b"abc", algorithm)

    assert parse(digest).algorithm == algorithm
    assert spelled(digest) == digest
    assert parse(labelled(digest)) == parse(digest)
    assert labelled(digest).startswith(f"{algorithm}:")


def test_sha1_is_spelled_as_heritrix_does_and_others_are_refused():
    assert spelled(f"sha1:{SHA1.hex()}") == digest_of(b"abc", "sha1") == base32(SHA1)
    with pytest.raises(ValueError, match="crc32"):
        digest_of(b"abc", "crc32")
