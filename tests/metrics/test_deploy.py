"""Rules and the dashboard ask for metrics that there are, and Prometheus reads them."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from frontier.metrics.crawl import CRAWL
from frontier.metrics.node import NODE
from tests.harness.cases import each
from tests.prometheus import program

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARD = GRAFANA / "provisioning" / "dashboards" / "frontier.json"
GROUPS = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
OTHERS = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Names that are Prometheus' own, or prometheus_client's."""
KNOWN = {metric.name: set(metric.labels) for metric in (*NODE, *CRAWL)}
TARGET = {"crawl", "node", "instance", "job"}
"""Labels that every series of a node has from its target."""
WORDS = {"and", "or", "unless", "on", "by", "sum", "topk", "rate", "increase", "delta"}
WORDS |= {"predict_linear", "group_left"}


def queries():
    """What each panel of the dashboard asks, as Prometheus gets it."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    for panel in panels:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "1m")


def names_of(expression):
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]|\b(?:by|on) ?\([^)]*\)', "", expression)
    return set(re.findall(r"[a-z_]{2,}", bare)) - WORDS


def labels_of(expression):
    """Each metric, and the labels by which it is chosen."""
    for name, chosen in re.findall(r"(\w+)\{([^}]*)\}", expression):
        yield name, set(re.findall(r"(\w+)=~?\"", chosen))


EACH = [*(rule["expr"] for rule in RULES), *queries()]


def promtool(*words, **options):
    done = subprocess.run(
        [program("promtool"), *words],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        **options,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_configuration_and_the_rules_are_in_order():
    assert promtool("check", "config", "--syntax-only", "prometheus.yml")[0] == 0
    code, told = promtool("check", "rules", "--lint-fatal", "alerts.yml")
    assert (code, "12 rules found" in told) == (0, True), told


def test_each_alert_fires_when_it_should_and_not_before():
    code, told = promtool("test", "rules", "alerts_test.yml")
    assert code == 0, told

    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text("utf-8"))["tests"]
    asked = [one for test in tests for one in test["alert_rule_test"]]
    alerts = {rule["alert"] for rule in RULES}
    assert {one["alertname"] for one in asked if one["exp_alerts"]} == alerts
    assert {one["alertname"] for one in asked if not one["exp_alerts"]} == alerts


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_says_where_to_read_on(rule):
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    text = (ROOT / page).read_text("utf-8")
    assert f"\n### {rule['alert']}\n" in text
    assert anchor == rule["alert"].lower()


@each("expression", EACH)
def test_alert_and_dashboard_queries_use_exported_metrics_and_labels(expression):
    names = names_of(expression)

    assert names
    assert names - OTHERS <= set(KNOWN)
    for name, labels in labels_of(expression):
        assert labels <= KNOWN.get(name, set()) | TARGET, name


def test_prometheus_reads_what_the_dashboard_asks(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))

    code, told = promtool("check", "rules", str(file))

    assert len(rules) > 30
    assert code == 0, told


def test_the_dashboard_is_what_its_script_makes():
    spec = importlib.util.spec_from_file_location("generate", GRAFANA / "generate.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)

    assert made.text() == DASHBOARD.read_text("utf-8")
