"""Reads files that are elsewhere, such as on S3 or a web server, by ranges with fsspec.

What always holds:

1.  They are only read: no method of a path writes. Uploads (`frontier.warc.upload`)
    take nothing but the storage from here.
2.  Each read asks for its range. A server that gives none is named, and nothing of its
    file is used: it would send the whole file for each record.
3.  A file that was replaced is recognized by the server's tag or time, or by its size
    and its ends.
4.  A server's failure is an `OSError` that names the URL, as for any file.

fsspec, and what it needs for the scheme, is imported when a URL is given.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from typing_extensions import override

from frontier.errors import ConfigurationError
from frontier.files import open_input
from frontier.settings.values import without_secrets

AHEAD = 1 << 23
"""Bytes that are asked for beyond a read, if a file is read from beginning to end."""
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_GONE = frozenset({404, 410})
_WEB = frozenset({"http", "https"})
_TAGS = ("ETag", "LastModified", "Last-Modified", "mtime", "modification_time")
_NO_RANGES = "its server gives no ranges, and without them it is not read"
_FSSPECS = re.compile("support range requests|than requested")
"""What fsspec says of an answer with the whole file."""
_NO_NAMES = frozenset({"", ".", ".."})


def is_url(text: str) -> bool:
    """Whether *text* is the URL of a file, and not a path."""
    return _URL.match(text) is not None


def path_of(text: str) -> Path:
    """The path or URL *text*, as steps take it.

    Raises:
        ConfigurationError: It is a URL that names no file, or one with a password.
    """
    if not is_url(text):
        return Path(text)
    if without_secrets(text) != text:
        raise ConfigurationError(
            f"{without_secrets(text)!r}: manifests would contain its password"
        )
    found = RemotePath(text.rstrip("/"))
    if _NO_NAMES & set(found.place.split("/")) or "\0" in text:
        raise ConfigurationError(f"{text!r} names no file")
    return cast("Path", found)  # it has what steps need of one


@dataclass(frozen=True, slots=True, order=True)
class RemotePath:
    """A URL that steps take for a `Path`: it has what they need of one, and no more."""

    url: str
    size: int | None = field(default=None, compare=False)
    """Its size in bytes, if it was listed."""

    def __fspath__(self) -> str:
        return self.url

    @override
    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.url.partition("?")[0].rpartition("/")[2]

    @property
    def place(self) -> str:
        """Where it is on its server or in its storage."""
        return self.url.partition("?")[0].partition("://")[2]

    def absolute(self) -> RemotePath:
        """Itself."""
        return self

    def resolve(self) -> RemotePath:
        """Itself."""
        return self

    def is_symlink(self) -> bool:
        """No."""
        return False

    def exists(self) -> bool:
        """Whether it exists; yes if nobody answers: opening it then says why."""
        try:
            return self.size is not None or self.is_dir() or bool(_facts(self.url))
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def is_dir(self) -> bool:
        """Whether there are files below it; web servers' listings are not looked at."""
        if self.size is not None or _is_web(self.url):
            return False
        try:
            storage, where = storage_of(self.url)
            return bool(storage.isdir(where))
        except ConfigurationError:
            raise
        except Exception:  # noqa: BLE001 - each storage has its own; see `exists`
            return False

    def stat(self) -> Stat:
        """Its size; 0 if that is not known."""
        try:
            size = _facts(self.url).get("size") if self.size is None else self.size
        except OSError:
            size = None
        return Stat(size or 0)

    def below(self) -> Iterator[Path]:
        """All files below it, in the order of their names.

        Raises:
            OSError: They cannot be listed.
            ConfigurationError: One has a name that no file here can have.
        """
        storage, where = storage_of(self.url)
        try:
            found = storage.find(where, detail=True)
        except Exception as error:
            raise _failed(self.url, error) from error
        for name in sorted(found):
            url = os.fspath(path_of(storage.unstrip_protocol(name)))
            yield cast("Path", RemotePath(url, found[name].get("size")))


class Stat(NamedTuple):
    """What a file that is elsewhere has of an `os.stat_result`."""

    st_size: int


class State(NamedTuple):
    """Tells which bytes an open file has."""

    size: int
    changed: int
    """When it was written, in nanoseconds; for a remote file, what stands for that."""
    node: int = 0
    """Its inode; 0 for a remote file."""


def open_file(path: Path | str, *, ahead: bool = False) -> IO[bytes]:
    """Open the file or URL *path* for reading; with *ahead*, from beginning to end.

    Raises:
        OSError: It cannot be read, or is elsewhere and gives no ranges.
        ConfigurationError: A package that its URL needs is not installed.
    """
    text = os.fspath(path)
    return cast("IO[bytes]", _Ranged(text, ahead)) if is_url(text) else open_input(path)


def read_remote(url: str, limit: int) -> bytes:
    """All of the file at *url*, whose server need not give ranges.

    Raises:
        OSError: It cannot be read, or has more than *limit* bytes.
        ConfigurationError: A package that its URL needs is not installed.
    """
    storage, where = storage_of(os.fspath(path_of(url)))
    how = {"block_size": 0} if _is_web(url) else {}  # as a stream, whatever its size
    try:
        with storage.open(where, "rb", **how) as file:
            data: bytes = file.read(limit + 1)
    except Exception as error:
        raise _failed(url, error) from error
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", url)
    return data


def state_of(file: IO[bytes]) -> State:
    """Which bytes *file*, from `open_file`, has."""
    if isinstance(file, _Ranged):
        return State(file.size, file.changed)
    found = os.fstat(file.fileno())
    return State(found.st_size, found.st_mtime_ns, found.st_ino)


def is_here(file: IO[bytes]) -> bool:
    """Whether *file*, from `open_file`, is on this machine."""
    return not isinstance(file, _Ranged)


class _Ranged(io.RawIOBase):
    """A file of fsspec's, whose errors are `OSError`."""

    def __init__(self, url: str, ahead: bool) -> None:
        self._file: IO[bytes] = io.BytesIO()
        self._url = url
        self._at = 0
        storage, where = storage_of(url)
        how: dict[str, Any] = {"cache_type": "readahead" if ahead else "none"}
        facts = _facts(url)
        size = facts.get("size")
        if size is None or not facts.get("partial", True):
            raise OSError(errno.ESPIPE, _NO_RANGES, url)
        if _is_web(url):  # or fsspec would ask again
            how["size"] = size
        if size:  # an empty file has no range
            try:
                self._file = storage.open(where, "rb", block_size=AHEAD, **how)
            except Exception as error:
                raise _failed(url, error) from error
        self.size = int(size)
        tag = "".join(str(facts.get(name, "")) for name in _TAGS)
        self.changed = int.from_bytes(hashlib.sha256(tag.encode()).digest()[:7])

    @override
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_CUR: self._at, os.SEEK_END: self.size}.get(whence, 0)
        self._at = max(0, start + offset)
        return self._at

    @override
    def seekable(self) -> bool:
        return True

    @override
    def read(self, size: int = -1) -> bytes:
        left = max(0, self.size - self._at)
        wanted = left if size < 0 else min(size, left)
        if not wanted:
            return b""
        try:
            self._file.seek(self._at)
            data: bytes = self._file.read(wanted)
        except Exception as error:
            raise _failed(self._url, error) from error
        if len(data) != wanted:
            got = f"it sent {len(data):,} of {wanted:,} bytes from byte {self._at:,}"
            raise OSError(errno.EIO, got, self._url)
        self._at += wanted
        return data

    @override
    def close(self) -> None:
        self._file.close()
        super().close()


def _facts(url: str) -> dict[str, Any]:
    """What the storage says of *url*.

    Raises:
        OSError: It is not there, or nobody answers.
    """
    storage, where = storage_of(url)
    try:
        facts: dict[str, Any] = storage.info(where)
    except Exception as error:
        raise _failed(url, error) from error
    return facts


def _failed(url: str, error: Exception) -> OSError:
    """*error*, of whatever type the storage raises, as the `OSError` of a file."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError):
        is_gone = cause is None or getattr(cause, "status", 0) in _GONE
        if _is_web(url) and not is_gone:  # fsspec raises it for any failure
            return OSError(errno.EIO, str(cause)[:300] or type(cause).__name__, url)
        return FileNotFoundError(errno.ENOENT, "there is no such file", url)
    reason = str(error).partition("\n")[0][:300] or type(error).__name__
    if isinstance(error, OSError) and error.errno:
        reason = error.strerror or reason
    if isinstance(error, ValueError) and _FSSPECS.search(reason):
        reason = _NO_RANGES
    return OSError(errno.EIO, reason, url)


def _is_web(url: str) -> bool:
    return url.partition("://")[0].lower() in _WEB


@lru_cache(maxsize=1024)
def storage_of(url: str) -> tuple[Any, str]:
    """The storage that reads and writes *url*, and its name for it there.

    Raises:
        ConfigurationError: A package is not installed, or nobody knows the scheme.
        OSError: The storage asks its server at once, which does not answer.
    """
    how: dict[str, Any] = {"use_listings_cache": False}
    if _is_web(url):  # a range of a body compressed for transfer is of no use
        how["headers"] = {"Accept-Encoding": "identity"}
        how["client_kwargs"] = {"trust_env": True}  # proxies of the environment
    try:
        from fsspec.core import url_to_fs

        storage, where = url_to_fs(url, **how)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"{without_secrets(url)}: {error}; for files that are elsewhere install: "
            "pip install 'frontier-crawl[remote]'"
        ) from None
    except Exception as error:  # some ask at once, such as FTP
        raise _failed(url, error) from error
    return storage, where
