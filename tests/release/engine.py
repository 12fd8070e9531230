"""What a Dockerfile and a container say, done on this machine without an engine.

A stand-in for Docker where there is none: it builds an image by running the lines of
its Dockerfile, and runs a command in it, as the user, with the environment, volumes and
read-only files that it is given. It needs root, and nothing but namespaces.

1.  What is not ours is the machine's own: in place of a base image there are this
    Python and the read-only ``/usr`` of this machine. Its files elsewhere are not seen.
2.  Each container has processes, mounts, a host name and an address of its own. Names
    are answered by a DNS server at the address of the bridge.
3.  Nothing outlives `Engine.close`: a container ends with its first process, and the
    bridge with its namespace.
"""

import contextlib
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.topologies import until

TOOLS = "/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("chroot", "ip", "mount", "nsenter", "setpriv", "unshare")
PYTHON = Path(sys.base_prefix)
SHARED = ("/usr", str(PYTHON))
"""What of this machine is in every image, read-only."""
COPIED = (
    *("alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf"),
    *(
        "ld.so.conf.d",
        "login.defs",
        "mime.types",
        "nsswitch.conf",
        "passwd",
        "pip.conf",
    ),
    *("resolv.conf", "ssl"),
)
"""What of its ``/etc`` an image begins with."""
REGISTRY = ("PIP_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "REQUESTS_CA")
"""Of the environment, what lets pip find its registry while an image is built."""
BRIDGE = "10.77.0.1"
DEVICES = ("full", "null", "random", "urandom", "zero")
WALL = 600.0


@dataclass(frozen=True)
class Image:
    """Files, and what is said of the processes in them."""

    root: Path
    environment: object
    workdir: str = "/"
    user: str = "0:0"
    command: object = ()
    entrypoint: object = ()
    stop_signal: object = signal.SIGTERM
    volumes: object = ()


@dataclass(frozen=True)
class Task:
    """What is to be run in an image. *mounts* are (place here, place there, mode)."""

    image: Image
    command: object = ()
    environment: object = field(default_factory=dict)
    mounts: object = ()
    temporary: object = ()
    workdir: str = ""
    read_only: bool = False


def base(root):
    """What stands in place of an image of somebody else's."""
    (root / "etc").mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for name in COPIED:
        source = Path("/etc") / name
        if source.is_dir():
            shutil.copytree(source, root / "etc" / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, root / "etc")
    path = f"{PYTHON}/bin:/usr/local/sbin:/usr/local/bin:{TOOLS}"
    return Image(root, {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8"})


def lines(dockerfile):
    """Each instruction and what it says."""
    text = re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


def ignored(path, patterns):
    """Whether ``.dockerignore`` keeps *path* out, as the last that fits decides."""
    verdict = False
    above = [path, *(str(parent) for parent in Path(path).parents)][:-1]
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        forms = [wanted, wanted.removeprefix("**/")]
        names = [*above, *(Path(each).name for each in above if "**/" in wanted)]
        if any(fnmatch.fnmatchcase(name, form) for name in names for form in forms):
            verdict = not pattern.startswith("!")
    return verdict


def context(directory, place):
    """What Docker would be sent of *directory*, in *place*."""
    rules = directory / ".dockerignore"
    said = rules.read_text("utf-8").splitlines() if rules.exists() else []
    patterns = [line for line in said if line and not line.startswith("#")]
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "."],
        cwd=directory,
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if not ignored(name, patterns) and (directory / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(directory / name, place / name)
    return place


class Build:
    """One Dockerfile, whose instructions are followed one by one."""

    def __init__(self, engine, directory, place):
        self._engine = engine
        self._place = place
        self._context = context(directory, place / "context")
        self._given = {}
        self._arguments = {}
        self._stages = {}
        self._now = None
        for word, rest in lines((directory / "Dockerfile").read_text("utf-8")):
            getattr(self, f"_{word.lower()}")(rest)

    @property
    def image(self):
        """What is being built; at the end, what was."""
        assert self._now is not None
        return self._now

    def _said(self, text):
        known = {**self._arguments, **(self._now.environment if self._now else {})}
        return re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], text)

    def _arg(self, rest):
        name, _, value = rest.partition("=")
        where = self._given if self._now is None else self._arguments
        where[name] = value or self._given[name]

    def _from(self, rest):
        self._arguments = dict(self._given)
        _, _, name = self._said(rest).partition(" AS ")
        self._arguments = {}
        self._now = base(self._place / f"stage-{len(self._stages)}")
        self._stages[name or str(len(self._stages))] = self._now

    def _change(self, **what):
        names = [name for name, image in self._stages.items() if image is self._now]
        self._now = replace(self.image, **what)
        self._stages[names[0]] = self._now

    def _env(self, rest):
        pairs = [word.split("=", 1) for word in shlex.split(self._said(rest))]
        self._change(environment={**self.image.environment, **dict(pairs)})

    def _workdir(self, rest):
        (self.image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self._change(workdir=rest)

    def _user(self, rest):
        self._change(user=rest)

    def _stopsignal(self, rest):
        self._change(stop_signal=signal.Signals[rest])

    def _volume(self, rest):
        self._change(volumes=json.loads(rest))

    def _cmd(self, rest):
        self._change(command=json.loads(rest))

    def _entrypoint(self, rest):
        self._change(entrypoint=json.loads(rest))

    def _copy(self, rest):
        words = rest.split()
        source = self._context
        if words[0].startswith("--from="):
            source = self._stages[words.pop(0).partition("=")[2]].root
        *names, target = words
        there = self.image.root / self.image.workdir.lstrip("/") / target.lstrip("/")
        if target.startswith("/"):
            there = self.image.root / target.lstrip("/")
        for name in names:
            found = source / name.lstrip("/")
            if found.is_dir():  # what is in it, as Docker does
                shutil.copytree(found, there, symlinks=True, dirs_exist_ok=True)
            else:
                file = there / found.name if target.endswith("/") else there
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, file)

    def _run(self, rest):
        kept = {k: v for k, v in os.environ.items() if k.upper().startswith(REGISTRY)}
        task = Task(
            self.image,
            ["sh", "-c", rest],
            environment={**kept, **self._arguments},
            temporary=["/tmp"],
        )
        done = subprocess.run(
            self._engine.words(task, "build"),
            env=self._engine.environment(task),
            input=b"\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WALL,
        )
        assert done.returncode == 0, f"{rest}\n{done.stdout.decode()[-4000:]}"


class Container:
    """A task that was started."""

    def __init__(self, engine, name, task, log):
        self.name = name
        self.task = task
        self.log = log
        self.address = ""
        self._engine = engine
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                engine.words(task, name, net=True),
                env=engine.environment(task),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self.pid = int(until(children.read_text, "a process of the container"))
        """Of its first process, as this machine numbers it."""

    def go(self):
        """Have it begin; it waits until it has a network."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.close()

    @property
    def exit_code(self):
        """``None`` while it runs."""
        return self._process.poll()

    def run(self, command, **changes):
        """Run *command* beside what runs in it, as a health check is run."""
        user, group = self.task.image.user.split(":")
        drop = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups"]
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-n", "-p", "-r", "-w"]
        return subprocess.run(
            [*enter, "--", *drop, *command],
            env={**self._engine.environment(self.task), **changes},
            capture_output=True,
            encoding="utf-8",
            timeout=WALL,
        )

    def signal(self, number=None):
        """Send *number* to its first process, or what the image says that stops it."""
        os.kill(self.pid, number or self.task.image.stop_signal)

    def wait(self):
        """Its exit code, when it has ended."""
        return self._process.wait(WALL)

    def kill(self):
        """End it now, with all that runs in it.

        Its first process by name: who changes his user no longer dies with his parent.
        """
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait(WALL)


class Engine:
    """Containers that reach each other by name."""

    def __init__(self, place):
        self._place = place
        self._hosts = place / "hosts"
        self._hosts.touch()
        self._names = []
        self._count = 1
        self.containers = {}
        hold = ["unshare", "--net", "--fork", "--kill-child", "sleep", "infinity"]
        self._held = [subprocess.Popen(hold)]
        children = Path(f"/proc/{self._held[0].pid}/task/{self._held[0].pid}/children")
        self._pid = int(until(children.read_text, "a namespace"))
        # With a link address of its own, as it would take that of the newest container.
        own = ["address", "02:00:0a:4d:00:01"]
        self._ip("link", "add", "br0", *own, "type", "bridge")
        self._ip("addr", "add", f"{BRIDGE}/24", "dev", "br0")
        for link in ("lo", "br0"):
            self._ip("link", "set", link, "up")
        dns = ["dns", "--hosts-file", str(self._hosts), "--interface", BRIDGE]
        self.beside([sys.executable, "-m", "twisted", *dns, "--port", "53"], "dns")

    def _ip(self, *words, pid=0):
        enter = ["nsenter", "-t", str(pid or self._pid), "-n"]
        subprocess.run([*enter, "ip", *words], check=True)

    def beside(self, command, name):
        """Start *command* at the address of the bridge; it is no container."""
        with (self._place / f"{name}.log").open("wb") as log:
            enter = ["nsenter", "-t", str(self._pid), "-n"]
            words = [*enter, *command]
            self._held.append(subprocess.Popen(words, stdout=log, stderr=log))
        return self._held[-1]

    def also(self, address, *, gone=False):
        """Have *address* be one of the bridge's, for what is `beside`, or no longer."""
        self._ip("addr", "del" if gone else "add", f"{address}/24", "dev", "br0")

    def ask(self, *command):
        """Run *command* at the address of the bridge, and wait for it."""
        enter = ["nsenter", "-t", str(self._pid), "-n"]
        return subprocess.run([*enter, *command], capture_output=True, timeout=WALL)

    def words(self, task, name, *, net=False):
        """The command that runs *task* once it has read a line."""
        root = task.image.root
        user, group = task.image.user.split(":")
        do = ["set -e", "read go", "exec </dev/null", f"image=$PATH PATH={TOOLS}"]
        do += ["mount --make-rprivate /", f"hostname {name}"]
        do += [f"mount --bind {root} {root}"]
        for place in SHARED:
            (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
            do += [f"mount --bind -o ro {place} {root}{place}"]
            do += [f"mount -o remount,bind,ro {root}{place}"]
        for place in ("proc", "dev", "tmp"):
            (root / place).mkdir(exist_ok=True)
        (root / "tmp").chmod(0o1777)
        do += [f"mount -t proc proc {root}/proc", f"mount -t tmpfs dev {root}/dev"]
        for device in DEVICES:
            there = f"{root}/dev/{device}"
            do += [f"touch {there}; mount --bind /dev/{device} {there}"]
        for place in task.temporary:
            do += [f"mount -t tmpfs -o mode=1777 tmp {root}{place}"]
        for here, there, mode in task.mounts:
            target = root / there.lstrip("/")
            if here.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
            do += [f"mount --bind {here} {target}"]
            if mode == "ro":
                do += [f"mount -o remount,bind,ro {target}"]
        if task.read_only:
            do += [f"mount -o remount,bind,ro {root}"]
        drop = f"setpriv --reuid {user} --regid {group} --clear-groups"
        if user != "0":
            drop += " --inh-caps=-all --bounding-set=-all --no-new-privs"
        command = [*task.image.entrypoint, *(task.command or task.image.command)]
        where = task.workdir or task.image.workdir
        inner = f'cd {where} && PATH=$1 && shift && exec "$@"'
        do += [f'exec chroot {root} {drop} sh -c {shlex.quote(inner)} - "$image" "$@"']
        spaces = ["--mount", "--uts", "--pid", "--fork", "--kill-child"]
        spaces += ["--net"] if net else []
        return [
            "/usr/bin/unshare",
            *spaces,
            "/bin/sh",
            "-c",
            "\n".join(do),
            "-",
            *command,
        ]

    def environment(self, task):
        """What the processes of *task* find in their environment."""
        return {**task.image.environment, **task.environment}

    def build(self, directory, name):
        """The image that the Dockerfile of *directory* makes."""
        return Build(self, directory, self._place / f"image-{name}").image

    def start(self, name, task, *names):
        """Run *task* as the host *name*; it is found under *names*, too."""
        self._count += 1
        (task.image.root / "etc" / "resolv.conf").write_text(f"nameserver {BRIDGE}\n")
        task = replace(task, environment={"HOSTNAME": name, **task.environment})
        made = Container(self, name, task, self._place / f"{name}.log")
        made.address = f"10.77.0.{self._count}"
        link = f"v{self._count}"
        peer = ["peer", "name", "eth0", "netns", str(made.pid)]
        self._ip("link", "add", link, "type", "veth", *peer)
        self._ip("link", "set", link, "master", "br0", "up")
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{made.address}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
        ):
            self._ip(*words, pid=made.pid)
        self._names += [(made.address, each) for each in (name, *names)]
        self._publish()
        self.containers[name] = made
        made.go()
        return made

    def remove(self, container):
        """Forget *container*, which has ended, and its names."""
        del self.containers[container.name]
        self._names = [each for each in self._names if each[0] != container.address]
        self._publish()

    def _publish(self):
        new = self._hosts.with_suffix(".new")
        new.write_text("".join(f"{ip} {name}\n" for ip, name in self._names))
        new.replace(self._hosts)

    def clear(self):
        """End all containers, and forget them."""
        for container in list(self.containers.values()):
            container.kill()
            self.remove(container)

    def close(self):
        """End everything."""
        self.clear()
        for process in reversed(self._held):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(WALL)
