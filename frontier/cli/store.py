"""``frontier store``: the store that the nodes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer
from rich.filesize import decimal
from rich.text import Text

from frontier.cli.options import (
    STORE_DIR,
    Commands,
    Output,
    StoreDir,
    StoreOptions,
    connected,
)
from frontier.cli.output import ExitCode, complain, show
from frontier.errors import NoStore, StoreRefused
from frontier.status.validate import printable, whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frontier.store.client import BlockingStore

app = Commands("Look at the store that the nodes share, or stop it.")

LIBC = "libc"
"""How a server says that it was built without jemalloc."""
SERVER_FACTS = (
    "server_name",
    "redis_version",
    "valkey_version",
    "used_memory",
    "mem_allocator",
    "maxmemory_policy",
    "connected_clients",
    "aof_enabled",
)


@app.command()
def status(output: Output, options: StoreOptions) -> None:
    """Show whether the store runs, and what it holds. Starts nothing."""
    facts = (
        _server(options.redis_url)
        if options.redis_url
        else _embedded(options.store_dir)
    )
    output.result(facts, _told(facts))


@app.command()
def stop(store_dir: StoreDir = STORE_DIR) -> None:
    """Stop the embedded store, unless nodes use it. Deletes nothing."""
    from frontier.store.embedded import EmbeddedStore

    _require(store_dir)
    if not EmbeddedStore.status(store_dir).running:
        show([Text(f"no store runs in {store_dir.absolute()}")])
        return
    EmbeddedStore.join(store_dir).leave()
    left = EmbeddedStore.status(store_dir)
    if left.running:
        complain(f"the store in {store_dir.absolute()} is in use; stop its nodes first")
        raise typer.Exit(ExitCode.IN_USE)
    show([Text(f"stopped the store in {store_dir.absolute()}")])


def _embedded(store_dir: Path) -> dict[str, Any]:
    from frontier.store.embedded import EmbeddedStore

    _require(store_dir)
    found = EmbeddedStore.status(store_dir)
    files = [path for path in (store_dir / "store").rglob("*") if path.is_file()]
    facts: dict[str, Any] = {
        "kind": "embedded",
        "where": str(store_dir.absolute()),
        "running": found.running,
        "pid": found.pid,
        "socket": None if found.socket is None else str(found.socket),
        "disk_bytes": sum(path.stat().st_size for path in files),
    }
    if found.socket is not None:
        facts |= _info("unix://" + quote(str(found.socket))) | {"where": facts["where"]}
    return facts


def _server(redis_url: str) -> dict[str, Any]:
    facts = _info(redis_url)
    return {"kind": "server", "where": facts.pop("where"), "running": True, **facts}


def _info(url: str) -> dict[str, Any]:
    from frontier.store.client import Call

    with connected(url, STORE_DIR) as store:
        info = store.call(Call.command("INFO"))
        facts: dict[str, Any] = {"where": store.where}
        if not store.alone:
            facts["full_coverage"] = _wants_full_coverage(store)
    for name in SERVER_FACTS:
        if name in info:
            value = info[name]
            facts[name] = value if isinstance(value, int) else printable(str(value))
    if facts.get("mem_allocator") == LIBC:
        complain(
            "the store's server allocates memory with libc: in a crawl of millions of "
            "URLs a new one costs it more CPU time than with jemalloc, which the "
            "servers of Debian and of the Redis and Valkey images have"
        )
    return facts


def _wants_full_coverage(store: BlockingStore) -> bool | None:
    """Whether the whole cluster stops without one primary; `None`: not told."""
    from frontier.store.client import Call

    name = "cluster-require-full-coverage"
    try:
        found = store.call(Call.command("CONFIG", "GET", name))
    except StoreRefused:
        return None
    if b"yes" not in found.get(name.encode(), b""):
        return False
    complain(
        f"{name} is yes: if one primary is unreachable for longer than "
        "cluster-node-timeout, and no replica takes its place, the others refuse all "
        f"calls, and the crawl stops; set {name} no on each server"
    )
    return True


def _told(facts: dict[str, Any]) -> Iterator[Text]:
    width = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        is_size = value is not None and name in {"used_memory", "disk_bytes"}
        shown = decimal(whole(value)) if is_size else _word(value)
        yield Text(f"{name.replace('_', ' '):{width}}{shown}")


def _require(store_dir: Path) -> None:
    if not (store_dir / "store").is_dir():
        raise NoStore(str(store_dir.absolute()))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
