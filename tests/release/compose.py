"""What docker-compose.yml declares, as tasks of `tests.release.engine`.

Values are put in for ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}``, as the
Compose specification says. What is declared and not understood here is an error, so
that nothing of the file is skipped in silence.
"""

import os
import re
import shutil

import yaml

from tests.release.engine import Task

VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^}]*))?\})")
ELSEWHERE = {"build", "depends_on", "healthcheck", "image", "ports", "restart"}
"""What is not of one process: the test itself does it, or Docker would."""
UNDERSTOOD = {
    *("cap_drop", "command", "configs", "deploy", "environment", "init", "read_only"),
    *("secrets", "security_opt", "stop_grace_period", "tmpfs", "volumes"),
    "working_dir",
}


class Unset(Exception):
    """A variable that has to be set is not."""


def filled_in(text, given):
    """*text* with the values that *given* has for its variables.

    Raises:
        Unset: One of ``${NAME:?message}`` has none; the message says so.
    """

    def value(found):
        dollar, name, sign, rest = found.groups()
        if dollar:
            return "$"
        if given.get(name):
            return given[name]
        if sign == ":?":
            raise Unset(f"{name}: {rest}")
        return rest or ""

    return VARIABLE.sub(value, text)


def each_text(value, given):
    """*value* with all texts in it filled in."""
    if isinstance(value, str):
        return filled_in(value, given)
    if isinstance(value, list):
        return [each_text(one, given) for one in value]
    if isinstance(value, dict):
        return {name: each_text(one, given) for name, one in value.items()}
    return value


def variables(path):
    """What a file in the format of ``.env`` says."""
    lines = path.read_text("utf-8").splitlines()
    said = [line for line in lines if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in said)


class Project:
    """A compose file with its values; *place* has its volumes and configurations."""

    def __init__(self, path, given, place):
        self._home = path.parent
        self._given = given
        self._place = place
        self.declared = each_text(yaml.safe_load(path.read_text("utf-8")), given)
        self.services = self.declared["services"]

    def health(self, service):
        """The command that says whether *service* is well."""
        kind, *words = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD", kind
        return words

    def task(self, service, image):
        """What a container of *service* runs."""
        said = self.services[service]
        unknown = said.keys() - UNDERSTOOD - ELSEWHERE
        assert not unknown, f"{service}: {unknown} is not understood here"
        if image.user != "0:0":  # these hold of it as the engine runs it
            assert said["cap_drop"] == ["ALL"]
            assert said["security_opt"] == ["no-new-privileges:true"]
        mounts = [self._mount(each, image) for each in said.get("volumes", [])]
        for each in said.get("configs", []):
            content = self.declared["configs"][each["source"]]["content"]
            mounts.append((self._file(each["source"], content), each["target"], "ro"))
        for name in said.get("secrets", []):
            secret = self._given[self.declared["secrets"][name]["environment"]]
            mounts.append((self._file(name, secret), f"/run/secrets/{name}", "ro"))
        environment = said.get("environment", {})
        return Task(
            image,
            command=said.get("command", ()),
            environment={name: str(value) for name, value in environment.items()},
            mounts=mounts,
            temporary=said.get("tmpfs", ()),
            workdir=said.get("working_dir", ""),
            read_only=said.get("read_only", False),
        )

    def _file(self, name, content):
        file = self._place / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def _mount(self, text, image):
        source, there, *mode = text.split(":")
        if source.startswith((".", "/")):
            return (self._home / source).resolve(), there, *(mode or ["rw"])
        assert source in self.declared["volumes"], source
        here = self._place / "volumes" / source
        if not here.exists():  # Docker makes it as the image has it there
            here.mkdir(parents=True)
            like = image.root / there.lstrip("/")
            if like.is_dir():
                shutil.copytree(like, here, dirs_exist_ok=True)
                facts = like.stat()
                os.chown(here, facts.st_uid, facts.st_gid)
        return here, there, *(mode or ["rw"])
