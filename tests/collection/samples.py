import gzip
import hashlib
import json
import multiprocessing
import os
import zipfile

from frontier.collection.import_ import Import, ImportConfig
from frontier.collection.rounds import Committer
from frontier.collection.sources import sources
from frontier.dedupe.digest_index import decode
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import collection_keys
from tests.harness import commands


def digest(text):
    return hashlib.sha256(str(text).encode()).hexdigest()


def line(number, *, of=None, size=2000, label="sha256:", **more):
    """A line of CDXJ: capture *number*; of payload *of*, a revisit if it is one."""
    facts = {
        "url": f"http://site.example/{number}",
        "mime": "text/html",
        "status": "200",
        "digest": label + digest(number if of is None else of),
        "length": str(size),
        "offset": "0",
        "filename": "rec.warc.gz",
    }
    return f"example,site)/{number} 20260102030405 {json.dumps(facts | more)}"


def revisit(number, of, size=300, **more):
    return line(number, of=of, size=size, mime="warc/revisit", **more)


def make_wacz(path, lines, *, compressed=True):
    text = "".join(f"{each}\n" for each in lines).encode()
    with zipfile.ZipFile(path, "w") as wacz:
        wacz.writestr("datapackage.json", "{}")
        if compressed:
            wacz.writestr("indexes/index.cdx.gz", gzip.compress(text))
            wacz.writestr("indexes/index.idx", "!meta 0 {}\n")
        else:
            wacz.writestr("indexes/index.cdxj", text)
    return path


def resource(path, crawl_id, **more):
    data = path.read_bytes()
    facts = {
        "name": path.name,
        "path": path.name,
        "hash": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "crawlId": crawl_id,
    }
    return facts | more


def make_manifest(path, resources):
    path.write_text(json.dumps({"resources": resources}))
    return path


class Index:
    """A collection of its own on a server, and what is in it."""

    def __init__(self, url, name):
        self.url = url
        self.name = name
        self.store = BlockingStore.from_settings({"REDIS_URL": url})
        self.keys = collection_keys(self.store, name)

    def __call__(self, *parts):
        return self.store.call(Call.command(*parts))

    def put(self, *targets, crawl_id="", removal=True, root=None, **options):
        said = []
        run = Import(self.store, self.keys, ImportConfig(**options), say=said.append)
        found = []
        for target in targets:
            found += sources(
                str(target),
                crawl_id=crawl_id,
                root=root,
                broken=run.broken,
            )
        return run.run(found, removal=removal)

    def committer(self, crawl_id="a", **options):
        return Committer(self.store, self.keys, crawl_id, **options)

    def hash(self, key):
        found = self("HGETALL", key)
        pairs = found.items() if isinstance(found, dict) else found
        return {k.decode(): v.decode() for k, v in pairs}

    def counts(self, crawl_id=None):
        keys = self.keys
        name = keys.allcounts if crawl_id is None else keys.counts(crawl_id)
        return {k: int(v) for k, v in self.hash(name).items() if k != "updateProgress"}

    def waczs(self, crawl_id):
        return [json.loads(x) for x in self("LRANGE", self.keys.waczs(crawl_id), 0, -1)]

    def members(self, key):
        return {member.decode() for member in self("SMEMBERS", key)}

    def value(self, crawl_id, what):
        value = self("HGET", self.keys.crawl(crawl_id), digest(what))
        return value and decode(value)

    def everything(self, *volatile):
        """Every key of the collection without its prefix, and what is in it."""
        found = {}
        prefix = self.keys.alldupes.removesuffix("alldupes")
        for key in set(self.store.scan(f"{prefix}*")):
            name = key.decode()
            short = name.removeprefix(prefix)
            if short in {"last_update_ts", *volatile}:
                continue
            kind = self("TYPE", name)
            kind = kind.decode() if isinstance(kind, bytes) else kind
            if kind == "hash":
                found[short] = self.hash(name)
            elif kind == "set":
                found[short] = self.members(name)
            elif kind == "list":
                found[short] = [x.decode() for x in self("LRANGE", name, 0, -1)]
            else:
                found[short] = self("GET", name).decode()
        return found

    def forked(self, *arguments):
        """Start ``frontier collection`` in a process forked from this one."""

        def child():
            code, _, err = self.run(*arguments)
            os.write(2, err.encode())
            os._exit(code)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        return process

    def run(self, *arguments, cwd=None):
        """Run ``frontier collection`` here; return its code and what it said."""
        here = {"REDIS_URL": self.url, "FRONTIER_COLLECTION": self.name}
        words = ("collection", *arguments)
        done = commands.run(*words, cwd=cwd, env={**os.environ, **here})
        return done.returncode, done.stdout, done.stderr
