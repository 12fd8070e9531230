"""WARC files of zstd frames, by IIPC's "Zstandard Compression for WARC Files 1.0".

What always holds:

1.  A record is one frame or several in a row, and its offset is that of the first.
    Skippable and empty frames between records belong to none, and stay.
2.  A file that begins with a dictionary is read with it, and what is added to such a
    file is packed with it: the specification asks for it in every frame.
3.  Output is bounded, even that of a bomb: `WINDOW_LOG` and `DICTIONARY_LIMIT` limit
    windows and dictionaries, and parts are no larger than was asked for.

The package ``backports.zstd`` (from Python 3.14 on, the standard library) is imported
when there is such a file. Unlike ``zstandard`` it returns no more than was asked for.
"""

from __future__ import annotations

import importlib
from functools import cache, lru_cache
from typing import IO, TYPE_CHECKING, Any, cast

from frontier.errors import BadWarc, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frontier.model import Body

FRAME = b"\x28\xb5\x2f\xfd"
DICTIONARY = b"\x5d\x2a\x4d\x18"
"""The start of a skippable frame that has the dictionary for all other frames."""
WINDOW_LOG = 27
"""Log2 of the largest window: 128 MiB. The specification asks for 2^23 bytes; zstd's
own tool reads 2^27 by default."""
DICTIONARY_LIMIT = 1 << 23
"""Most bytes of a dictionary, packed and unpacked: what the specification asks for."""
_HEAD = 8
_PART = 1 << 20


class Frames:
    """How the frames of one file are unpacked and packed."""

    def __init__(self, dictionary: Any = None, start: int = 0) -> None:
        """*start* is where the file's first record begins."""
        self.start = start
        self._dictionary = dictionary

    @property
    def error(self) -> type[Exception]:
        """What a `member` raises if it is not a frame, or exceeds a limit."""
        return cast("type[Exception]", zstd_module().ZstdError)

    def member(self) -> Any:
        """A decompressor for one frame."""
        zstd = zstd_module()
        options = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        return zstd.ZstdDecompressor(self._dictionary, options)

    def compressed(self, parts: Iterable[Body]) -> Iterator[bytes]:
        """*parts* as one frame, with the fields that the specification asks for."""
        zstd, parts = zstd_module(), tuple(parts)
        options = {zstd.CompressionParameter.checksum_flag: 1}
        packer = zstd.ZstdCompressor(options=options, zstd_dict=self._dictionary)
        packer.set_pledged_input_size(sum(map(len, parts)))
        for part in parts:
            for at in range(0, len(part), _PART):
                yield packer.compress(part[at : at + _PART])
        yield packer.flush()


def is_zstd(begin: bytes) -> bool:
    """Whether a file with the first bytes *begin* has zstd frames."""
    return begin.startswith((FRAME, DICTIONARY))


def frames_of(file: IO[bytes], name: str) -> Frames:
    """How *file*, which is called *name*, is packed; this moves its position.

    Raises:
        BadWarc: Its dictionary is damaged or too large.
        ConfigurationError: The package for zstd is not installed.
        OSError: It cannot be read.
    """
    file.seek(0)
    head = file.read(_HEAD)
    if not head.startswith(DICTIONARY):
        return Frames()
    size = int.from_bytes(head[4:], "little")
    if size > DICTIONARY_LIMIT:
        raise BadWarc(name, 0, f"a dictionary of {size:,} bytes: too large")
    data = file.read(size)
    try:
        if len(data) < size:
            raise ValueError("cut off")  # noqa: TRY301
        return Frames(_dictionary(data), _HEAD + size)
    except ValueError as error:
        raise BadWarc(name, 0, f"a dictionary that cannot be used ({error})") from None


@lru_cache(maxsize=4)  # a file is opened again for each record that is read alone
def _dictionary(data: bytes) -> Any:
    """The dictionary in *data*, which may be a frame; ``None`` if there is none.

    Raises:
        ValueError: It is damaged or too large.
    """
    if not data.startswith(FRAME):
        return zstd_module().ZstdDict(data) if data else None
    frames = Frames()
    member = frames.member()
    try:
        found: bytes = member.decompress(data, DICTIONARY_LIMIT + 1)
    except frames.error as error:
        raise ValueError(str(error)) from None
    if not member.eof or member.unused_data or len(found) > DICTIONARY_LIMIT:
        raise ValueError("damaged, or too large")
    return zstd_module().ZstdDict(found) if found else None


@cache  # Python looks each time for a package that is not there
def zstd_module() -> Any:
    """The package for zstd.

    Raises:
        ConfigurationError: It is not installed.
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ConfigurationError(
        "files of zstd need backports.zstd; install it with: "
        "pip install 'frontier-crawl[postcrawl]'"
    )
