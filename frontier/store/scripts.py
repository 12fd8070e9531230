"""Every Lua script, by name.

A script is a file in ``lua/``; its header declares its keys, its arguments and
its result, and a test compares both with its body. What several scripts need, or one
that would be too long to read, is in *fragments*, files in ``lua/fragments/``: the line
``-- include: <fragment> ...`` of a header puts their code, in that order, in front of
the script's own. The server gets one script.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script."""

    name: str
    source: str
    sha: str
    """SHA-1 of the source in hex, as EVALSHA wants it."""


_LUA = files("frontier.store") / "lua"
_HEADER = re.compile(r"\A(?:--.*\n)+")
_INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)


def included(source: str) -> list[str]:
    """The fragments that the script or fragment *source* includes, in their order."""
    return " ".join(_INCLUDE.findall(source)).split()


def fragment(name: str) -> str:
    """The fragment *name*, with its header.

    Raises:
        FileNotFoundError: There is none.
    """
    return (_LUA / "fragments" / f"{name}.lua").read_text("utf-8")


def _read(name: str) -> Script:
    text = (_LUA / f"{name}.lua").read_text("utf-8")
    header = _HEADER.match(text)
    end = header.end() if header else 0
    code = [_HEADER.sub("", fragment(one), count=1) for one in included(text)]
    source = text[:end] + "".join(code) + text[end:]
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, digest)


ADDRESS_SAY = _read("address_say")
COLLECTION_ADD = _read("collection_add")
COLLECTION_CLAIM = _read("collection_claim")
COLLECTION_ENTER = _read("collection_enter")
COLLECTION_IMPORT = _read("collection_import")
COLLECTION_IMPORTED = _read("collection_imported")
COLLECTION_MEND = _read("collection_mend")
COMMIT_BEGIN = _read("commit_begin")
COMMIT_CANCEL = _read("commit_cancel")
COMMIT_MOVE = _read("commit_move")
COMMIT_SETTLE = _read("commit_settle")
COOKIES_MERGE = _read("cookies_merge")
CRAWL_ALLOT = _read("crawl_allot")
CRAWL_CANCEL = _read("crawl_cancel")
CRAWL_CLOSE = _read("crawl_close")
CRAWL_CONTROL = _read("crawl_control")
CRAWL_END = _read("crawl_end")
CRAWL_FETCHED = _read("crawl_fetched")
CRAWL_FINISH = _read("crawl_finish")
CRAWL_OPEN = _read("crawl_open")
CRAWL_REMOVE = _read("crawl_remove")
CRAWL_REOPEN = _read("crawl_reopen")
CRAWL_SPEND = _read("crawl_spend")
LEASE_ACQUIRE = _read("lease_acquire")
LEASE_LOOK = _read("lease_look")
LEASE_RELEASE = _read("lease_release")
NODE_BEAT = _read("node_beat")
NODE_LEAVE = _read("node_leave")
NODE_REMOVE = _read("node_remove")
PARTITION_REPAIR = _read("partition_repair")
PARTITION_SCAN = _read("partition_scan")
QUEUE_ACK = _read("queue_ack")
QUEUE_AGAIN = _read("queue_again")
QUEUE_BURY = _read("queue_bury")
QUEUE_DUE = _read("queue_due")
QUEUE_PURGE = _read("queue_purge")
QUEUE_PUSH = _read("queue_push")
QUEUE_REQUEUE = _read("queue_requeue")
QUEUE_RESERVE = _read("queue_reserve")
QUEUE_REVIVE = _read("queue_revive")
REPORTS_FOLD = _read("reports_fold")
SEED_DONE = _read("seed_done")
SEED_HOLD = _read("seed_hold")
ROUND_CLAIM = _read("round_claim")
ROUND_NOTE = _read("round_note")
SEEN_FORGET = _read("seen_forget")
SEEN_GIVE_UP = _read("seen_give_up")
SEEN_GROW = _read("seen_grow")
SITES_DUE = _read("sites_due")
SITE_REFETCH = _read("site_refetch")
SITE_TAKE = _read("site_take")
SITE_UPDATE = _read("site_update")
TXN = _read("txn")

SCRIPTS = tuple(
    value for value in list(globals().values()) if isinstance(value, Script)
)
