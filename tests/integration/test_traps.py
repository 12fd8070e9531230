"""Traps and floods: what the spider `site` leaves out, and says."""

from tests.rawsite import RawSite, page


def traps_of(cluster):
    assert cluster.store  # starts it again, for the command
    status = cluster.ask("crawl", "status")
    figures = cluster.shown("crawl", "status")
    return " ".join(status.stdout.split()), figures["totals"]


def test_trap_limits_are_logged_with_an_example_and_counted(cluster):
    deep = "/" + "/".join(f"s{n}" for n in range(21))
    many = [f"/l/{n}" for n in range(60)]
    home = page("/p/0", "/long?" + "x" * 2100, deep, "/a/a/a", *many)
    chain = {f"/p/{n}": page(f"/p/{n + 1}") for n in range(24)}
    site = RawSite({"/": home, **dict.fromkeys(many, page()), **chain})
    cluster.start(
        "node-1",
        *("-a", f"seeds={site.url('/')}"),
        ROBOTSTXT_OBEY="False",
        FRONTIER_TRAP_PAGE_LINKS=50,
    )

    cluster.finish()
    shown, totals = traps_of(cluster)
    one_each = {"length": 1, "segments": 1, "path": 1, "hops": 1}
    assert totals["traps"] == {"links": 13, **one_each}
    assert totals["trapped"] == 17
    assert "17 more links left out: " in shown
    assert "1 over FRONTIER_TRAP_HOPS" in shown
    assert len([path for path in site.requests if path.startswith("/p/")]) == 20
    text = cluster.text_of("node-1")
    told = f"links over FRONTIER_TRAP_HOPS = 20 are left out, first {site.url('/p/20')}"
    assert text.count(told) == 1
    assert f"first {site.url('/l/47')} of {site.url('/')}; the report" in text
    assert (
        f"FRONTIER_TRAP_PATH_SEGMENTS = 20 are left out, first {site.url(deep)}" in text
    )
    assert (
        f"FRONTIER_TRAP_PATH_REPEATS = 2 are left out, first {site.url('/a/a/a')}"
        in text
    )
    assert "FRONTIER_TRAP_URL_LENGTH = 2083 are left out" in text


def test_a_link_with_too_many_hops_is_followed_where_it_has_fewer(cluster):
    first = ["/late", *(f"/l/{n}" for n in range(40)), "/a"]
    pages = {"/": page(*first), **dict.fromkeys(first, page())}
    for path, link in (("/a", "/x"), ("/x", "/target"), ("/late", "/target")):
        pages[path] = page(link)
    site = RawSite(pages)
    cluster.start(
        "node-1",
        *("-a", f"seeds={site.url('/')}"),
        ROBOTSTXT_OBEY="False",
        FRONTIER_TRAP_HOPS=2,
        FRONTIER_ORDER="dfs",
        CONCURRENT_REQUESTS_PER_DOMAIN=1,
    )

    cluster.finish()
    assert site.times["/x"] < site.times["/late"] < site.times["/target"]
