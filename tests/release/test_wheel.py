"""What is built for a release, compared with the tree and with what documents say."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MADE = {"__pycache__"}
LINK = re.compile(r"\]\(([^)#?]+)[^)]*\)")


def build(kind, place, source=ROOT, **environment):
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", place]
    env = {**os.environ, **environment}
    subprocess.run(words, cwd=source, env=env, check=True, capture_output=True)
    (path,) = [each for each in place.iterdir() if each.is_file()]
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def metadata_of(archive):
    (name,) = [each for each in archive.namelist() if each.endswith("/METADATA")]
    return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def metadata(wheel):
    return metadata_of(wheel)


def files(directory):
    return {
        path.relative_to(ROOT / directory).as_posix()
        for path in (ROOT / directory).rglob("*")
        if path.is_file() and not MADE & set(path.parts)
    }


def test_wheel_contains_every_file_of_the_package(
    wheel,
):
    there = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {f"frontier/{name}" for name in files("frontier")}
    for name in ("settings", "spiders"):
        wanted |= {f"frontier/project/{name}/{file}" for file in files(name)}
    wanted.add("frontier/project/scrapy.cfg")
    data = f"frontier_crawl-{PROJECT['version']}.data/data/share"
    wanted |= {f"{data}/{name}" for name in files("share")}

    assert "frontier/store/lua/queue_push.lua" in wanted
    assert there == wanted


def test_wheel_files_equal_those_of_the_tree(wheel):
    for name in files("frontier"):
        assert wheel.read(f"frontier/{name}") == (ROOT / "frontier" / name).read_bytes()


def test_wheel_version_is_that_of_pyproject(metadata):
    assert metadata["Name"] == "frontier-crawl"
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert set(metadata.get_all("Provides-Extra")) == set(
        PROJECT["optional-dependencies"]
    )


def test_changelog_has_this_version():
    page = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = rf"^## \[{re.escape(PROJECT['version'])}\] - \d{{4}}-\d\d-\d\d$"

    assert len(re.findall(heading, page, re.MULTILINE)) == 1


def test_no_project_url_is_invented(metadata):
    assert metadata.get_all("Project-URL") is None
    assert metadata.get_payload() == (ROOT / "README.md").read_text("utf-8")


def test_metadata_urls_follow_repository_url(tmp_path):
    address = "https://host.example/us/frontier"
    (tmp_path / "sdist").mkdir()
    sdist = build("sdist", tmp_path / "sdist", REPOSITORY_URL=f"{address}/")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    (tmp_path / "wheel").mkdir()
    # Of the sdist, as pip does it, on a machine that knows nothing of the address.
    path = build("wheel", tmp_path / "wheel", source, REPOSITORY_URL="")
    with zipfile.ZipFile(path) as archive:
        found = metadata_of(archive)

    urls = dict(each.split(", ") for each in found.get_all("Project-URL"))
    assert urls["Repository"] == address
    assert urls["Issues"] == f"{address}/issues"
    files = f"{address}/blob/v{PROJECT['version']}/"
    links = LINK.findall(found.get_payload())
    ours = [link for link in links if link.startswith(address)]
    assert len(ours) > 20
    assert all((ROOT / link.removeprefix(files)).exists() for link in ours)
    assert all(link.startswith("https://") for link in links)
    assert f"({files}docs/images/dashboard.png?raw=true)" in found.get_payload()
