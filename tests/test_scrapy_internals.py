"""What Scrapy has no public name for is used in one module."""

import ast
import functools
import importlib
import inspect
import io
import sys
from pathlib import Path

import pytest
import scrapy
from scrapy import signals
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.pipelines.files import FilesPipeline
from scrapy.utils.test import get_crawler

from frontier.scrapy_internals import FeedFiles, keep_items, share_files_stores
from tests.harness.cases import each

ROOT = Path(__file__).parents[1]
HOLDS_THEM = ROOT / "frontier" / "scrapy_internals.py"
ENGINE = {"_slot", "downloader", "nextcall", "scraper", "spidermw"}
"""Parts of the engine that Scrapy's documentation does not have."""
PATHS = [
    path for path in sorted((ROOT / "frontier").rglob("*.py")) if path != HOLDS_THEM
]


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def defined(nodes):
    """The private names that *nodes*, of a module or a class, give to something."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names = [node.attr]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        else:
            continue
        yield from filter(is_private, names)


@functools.cache
def of_class(cls):
    """The private names of *cls*, and all that are used on `self` in it."""
    tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            return frozenset(defined(ast.walk(node)))
    return frozenset()


@functools.cache
def of_scrapy():
    """All private names that Scrapy gives to something."""
    here = Path(scrapy.__file__).parent
    return frozenset(
        name
        for path in here.rglob("*.py")
        for name in defined(ast.walk(ast.parse(path.read_text("utf-8"))))
    )


def imported(nodes):
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("scrapy."):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            yield from filter(is_private, names)


def on_others(nodes):
    """Private names of Scrapy's on what is not `self`, and parts of the engine."""
    known = of_scrapy() - {
        name
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for name in defined(ast.walk(node))
    }
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if node.attr in ENGINE:
                yield f"{ast.unparse(node)}, line {node.lineno}"
            owner = getattr(node.value, "id", "")
            if owner not in {"self", "cls"} and node.attr in known:
                yield f"{ast.unparse(node)}, line {node.lineno}"


def inherited(cls, package):
    """The private names that *cls* has of classes of *package*."""
    bases = [b for b in inspect.getmro(cls) if b.__module__.startswith(package)]
    return frozenset().union(*map(of_class, bases))


def on_self(path, nodes):
    """Private names of Scrapy's classes in what *path* derives from them."""
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    module = importlib.import_module(dotted.removesuffix(".__init__"))
    for node in nodes:
        if not isinstance(node, ast.ClassDef):
            continue
        cls = getattr(module, node.name, object)
        theirs = inherited(cls, "scrapy.") - inherited(cls, "twisted.")
        if not theirs:
            continue
        used = {
            each.attr
            for each in ast.walk(node)
            if isinstance(each, ast.Attribute)
            and getattr(each.value, "id", "") in {"self", "cls"}
        }
        made = {
            each.name
            for each in node.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for name in sorted(theirs & (used | made)):
            yield f"{node.name}.{name}, line {node.lineno}"


def privates(path):
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    return [*imported(nodes), *on_others(nodes), *on_self(path, nodes)]


@each("path", PATHS)
def test_private_names_of_scrapy_are_in_one_module(path):
    assert privates(path) == []


LZMA = "scrapy.extensions.postprocessing.LZMAPlugin"


def test_items_of_a_feed_to_upload_are_on_disk_before_their_page_is_acked(caplog):
    feed = {"ftp://me:secret@127.0.0.1/a.jsonl": {"format": "jsonlines"}}
    feed["ftp://h/a.xz"] = {"format": "jsonlines", "postprocessing": [LZMA]}
    crawler = get_crawler(scrapy.Spider, {"FEEDS": feed})
    crawler.spider = scrapy.Spider.from_crawler(crawler, "a")
    feed_files = FeedFiles(crawler)
    feed_files.require(crawler.spider)
    crawler.signals.send_catch_log(signals.spider_opened, spider=crawler.spider)
    assert "the feed ftp://h/a.xz has plug-ins that hold items back" in caplog.text
    crawler.signals.send_catch_log(
        signals.item_scraped, item={"a": 1}, spider=crawler.spider
    )

    assert feed_files.flush()
    slot, _ = crawler.get_extension(FeedExporter).slots
    assert Path(slot.file.name).read_text() == '{"a": 1}\n'
    feed_files.release()


def test_a_directory_of_files_that_another_node_has_made_is_no_error(
    tmp_path, monkeypatch
):
    crawler = get_crawler(settings_dict={"FILES_STORE": str(tmp_path / "files")})
    monkeypatch.setattr(Path, "exists", lambda _: False)  # it was not there yet
    share_files_stores()

    for _ in range(2):
        made = FilesPipeline.from_crawler(crawler)
        made.store.persist_file("full/a", io.BytesIO(b"a"), None)

    assert (tmp_path / "files/full/a").read_bytes() == b"a"


class PartFile(FileFeedStorage):
    """Writes beside the place where the file is to be."""

    def open(self, spider):
        return Path(f"{self.path}.part").open("wb")


@pytest.mark.parametrize("storage", [FileFeedStorage, PartFile])
def test_a_feed_is_written_wherever_its_storage_has_opened_it(
    storage, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    made = storage("a.jsonl")
    keep_items(made)
    file = made.open(None)
    monkeypatch.chdir("/")
    file.write(b"{}")
    file.flush()
    file.raw.close()

    (written,) = tmp_path.iterdir()
    assert written.read_bytes() == b"{}"


def test_without_feed_exports_acks_are_not_delayed():
    assert FeedFiles(get_crawler(scrapy.Spider)).flush()
