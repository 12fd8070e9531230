"""What Browsertrix's indexer does to an index, line for line, as a model.

Written by hand from reading ``src/indexer.ts`` and ``RedisDedupeIndex`` in
``src/util/state.ts`` of browsertrix-crawler, one method for each of theirs; its
key names are in `frontier.store.keys`. Volatile keys are left out.
"""

import json
from collections import Counter, defaultdict


class Indexer:
    """An index in memory."""

    def __init__(self):
        self.alldupes = {}
        self.crawls = defaultdict(dict)
        self.counts = defaultdict(Counter)
        self.allcounts = Counter()
        self.waczs = defaultdict(list)
        self.committed, self.done = set(), set()
        self.rev_sizes, self.rev_counts = defaultdict(Counter), defaultdict(Counter)

    def run(self, resources, lines_of):
        """One run on the *resources* of a manifest, without ``--removing``."""
        queue, queued, kept = [], set(), set()
        for entry in resources:
            if entry["name"] not in self.done | queued:
                queued.add(entry["name"])
                queue.append(entry)
            kept.add(entry["crawlId"])
        # Theirs begins with False, and so leaves what waits from an earlier run.
        unresolved = any(self.rev_counts.values())
        for entry in queue:
            for text in lines_of(entry):
                unresolved = self._line(text, entry["crawlId"], unresolved)
            self._import_done(entry)
        gone = self.committed - kept
        self.allcounts["removedCrawls"] = len(gone)
        sizes = [self.counts[each]["totalCrawlSize"] for each in gone]
        self.allcounts["removedCrawlSize"] = sum(sizes)
        self.allcounts["updateProgress"] = 1

    def _line(self, text, crawl, unresolved):
        head, _, facts = text.partition(" {")
        cdx = json.loads("{" + facts)
        date, url, given = head.split(" ")[1], cdx["url"], cdx["digest"]
        size, digest = int(cdx["length"]), given.split(":")[-1]
        if url.startswith("urn:"):
            return unresolved
        if cdx["mime"] == "warc/revisit":
            found = self.crawls[self.alldupes.get(digest, "")].get(digest)
            known = int(found.split(" ")[3]) if found else 0
            if not known:
                self.rev_sizes[given][crawl] += size
                self.rev_counts[given][crawl] += 1
            self._deduped(self.counts[crawl], known - size, 1)
            self._deduped(self.allcounts, known - size, 1)
            unresolved = unresolved or not known
        else:
            is_new = digest not in self.alldupes
            self.alldupes.setdefault(digest, crawl)
            self.crawls[crawl].setdefault(digest, f"0 {date} {url} {size}")
            if not is_new and size > 1000:
                self.allcounts["estimatedRedundantSize"] += size - 1000
                self.allcounts["redundantUrls"] += 1
            if unresolved:
                self._match(given, size)
        self.counts[crawl]["totalUrls"] += 1
        self.allcounts["totalUrls"] += 1
        return unresolved

    def _match(self, given, known):
        counts = self.rev_counts.pop(given, {})
        sizes = self.rev_sizes.pop(given, {})
        for crawl, count in counts.items():
            self._deduped(self.counts[crawl], count * known - sizes[crawl], 0)
        total = sum(counts.values()) * known - sum(sizes.values())
        self._deduped(self.allcounts, total, 0)

    def _deduped(self, counts, size, count):
        if size > 0:
            counts["conservedSize"] += size
        if count > 0:
            counts["dupeUrls"] += count

    def _import_done(self, entry):
        self.done.add(entry["name"])
        crawl, size = entry["crawlId"], entry["size"]
        self.committed.add(crawl)
        listed = {"filename": entry["name"], "size": size, "hash": entry["hash"]}
        self.waczs[crawl].append(json.dumps(listed, separators=(",", ":")))
        self.counts[crawl]["totalCrawlSize"] += size
        self.allcounts["totalCrawlSize"] += size

    def everything(self):
        """Each key and what is in it, as text."""

        def text(counts):
            return {name: str(count) for name, count in counts.items()}

        found = {
            "alldupes": self.alldupes,
            "allcrawls": self.committed,
            "src:d": self.done,
            "allcounts": text(self.allcounts),
        }
        found |= {f"h:{crawl}": held for crawl, held in self.crawls.items()}
        found |= {f"h:{c}:counts": text(counts) for c, counts in self.counts.items()}
        found |= {f"c:{crawl}:wacz": listed for crawl, listed in self.waczs.items()}
        found |= {f"rev:{d}:s": text(sizes) for d, sizes in self.rev_sizes.items()}
        found |= {f"rev:{d}:c": text(n) for d, n in self.rev_counts.items()}
        return {name: held for name, held in found.items() if held}
