"""What deploy/kubernetes declares, as tasks of `tests.release.engine`.

As with `compose`, what is declared and not understood here is an error.
"""

import os
import re
from typing import Any

import yaml

from tests.release.engine import Task

ELSEWHERE = {
    *("image", "livenessProbe", "name", "ports", "readinessProbe", "resources"),
    *("securityContext", "startupProbe"),
}
"""What is not of one process: the test itself does it, or Kubernetes would."""
UNDERSTOOD = {"args", "command", "env", "volumeMounts", "workingDir"}
REFERENCE = re.compile(r"\$\((\w+)\)")
Declared = dict[str, Any]


def workloads(path):
    """Each StatefulSet and Deployment of *path*."""
    for each in yaml.safe_load_all(path.read_text("utf-8")):
        if each["kind"] in {"StatefulSet", "Deployment"}:
            yield each


def containers(path):
    """Each container of them."""
    for each in workloads(path):
        yield from each["spec"]["template"]["spec"]["containers"]


class Manifests:
    """The objects of a file, with the *secrets* that it takes from the cluster."""

    def __init__(self, path, secrets, place):
        self._place = place
        self._secrets = secrets
        objects = list(yaml.safe_load_all(path.read_text("utf-8")))
        self.configs = {
            each["metadata"]["name"]: each["data"]
            for each in objects
            if each["kind"] == "ConfigMap"
        }
        self.workloads = {each["metadata"]["name"]: each for each in workloads(path)}
        self.services = {
            each["metadata"]["name"]: each["spec"]
            for each in objects
            if each["kind"] == "Service"
        }

    def pod(self, workload):
        """What each pod of *workload* is."""
        return self.workloads[workload]["spec"]["template"]

    def container(self, workload):
        """The one container of each pod of *workload*."""
        (found,) = self.pod(workload)["spec"]["containers"]
        unknown = found.keys() - UNDERSTOOD - ELSEWHERE
        assert not unknown, f"{workload}: {unknown} is not understood here"
        return dict(found)

    def selected(self, service):
        """The workload whose pods *service* leads to."""
        wanted = self.services[service]["selector"].items()
        (found,) = [
            name
            for name in self.workloads
            if wanted <= self.pod(name)["metadata"]["labels"].items()
        ]
        return found

    def probes(self, workload):
        """Each probe of *workload*, by its kind."""
        said = self.container(workload)
        return {name: said[name] for name in said if name.endswith("Probe")}

    def task(self, workload, pod, image):
        """What the container of the pod *pod* of *workload* runs."""
        said = self.container(workload)
        rights = self.pod(workload)["spec"]["securityContext"]
        environment = self._environment(said, pod)

        def told(words):
            return [
                REFERENCE.sub(lambda f: environment.get(f[1], f[0]), w) for w in words
            ]

        return Task(
            image,
            command=[*told(said["command"]), *told(said.get("args", []))],
            environment=environment,
            mounts=[self._mount(each, workload, pod) for each in said["volumeMounts"]],
            workdir=said.get("workingDir", ""),
            user=f"{rights['runAsUser']}:{rights['runAsGroup']}",
            read_only=said["securityContext"]["readOnlyRootFilesystem"],
        )

    def _environment(self, said, pod):
        found = {}
        for each in said["env"]:
            source = each.get("valueFrom", {})
            if "secretKeyRef" in source:
                assert source["secretKeyRef"]["name"] == "frontier"
                value = self._secrets[source["secretKeyRef"]["key"]]
            elif "configMapKeyRef" in source:
                key = source["configMapKeyRef"]
                value = self.configs[key["name"]][key["key"]]
            elif "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "metadata.name"
                value = pod
            else:
                value = REFERENCE.sub(lambda f: found[f[1]], each["value"])
            found[each["name"]] = value
        return found

    def _mount(self, said, workload, pod):
        volumes = {each["name"]: each for each in self._volumes(workload)}
        volume = volumes[said["name"]]
        here = self._place / pod / said["name"]
        if not here.exists():
            here.mkdir(parents=True)
            rights = self.pod(workload)["spec"]["securityContext"]
            group = rights.get("fsGroup", rights["runAsGroup"])
            os.chown(here, 0, group)
            here.chmod(0o2777 if "emptyDir" in volume else 0o2775)
            if "configMap" in volume:
                data = self.configs[volume["configMap"]["name"]]
                for item in volume["configMap"]["items"]:
                    (here / item["path"]).write_text(data[item["key"]])
        return here, said["mountPath"], "ro" if said.get("readOnly") else "rw"

    def _volumes(self, workload):
        yield from self.pod(workload)["spec"].get("volumes", [])
        for claim in self.workloads[workload]["spec"].get("volumeClaimTemplates", []):
            yield claim["metadata"]
