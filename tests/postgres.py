"""A PostgreSQL of Debian's, started by the tests, as a user who is not root."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.foreign import lacks
from tests.harness.commands import output_of
from tests.topologies import free_ports

DEADLINE = 120.0
PASSWORD = "s3cret/@:?pw"
QUOTED = "s3cret%2F%40%3A%3Fpw"


def binaries():
    """Where ``initdb`` and ``postgres`` are: Debian does not have them on the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    debians = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return debians[-1].parent if debians else lacks("PostgreSQL")


def other_user():
    """Words that start a command as somebody else, if we are root; and who that is."""
    if os.getuid() != 0:
        return [], pwd.getpwuid(os.getuid())
    names = {user.pw_name for user in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
    return ["setpriv", *ids, "--clear-groups", "--"], user


class Postgres:
    """A server on a socket in a directory of its own, and on a port of loopback."""

    def __init__(self):
        self._home = binaries()
        self._as_user, user = other_user()
        self.directory = Path(tempfile.mkdtemp(prefix="frontier-pg-", dir="/tmp"))
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        self.directory.chmod(0o755)
        word = self.directory / "password"
        word.write_text(PASSWORD)
        word.chmod(0o644)
        self._data = self.directory / "data"
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "frontier",
            f"--pwfile={word}",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        (self.port,) = free_ports(1)
        self._process = None

    def _run(self, command, *arguments):
        output_of([*self._as_user, self._home / command, *arguments], cwd="/")

    def start(self):
        options = {
            "fsync": "off",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.directory,
            "log_timezone": "UTC",
            "timezone": "Atlantic/Azores",  # ours is not to depend on it
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        server = [self._home / "postgres", "-D", self._data, "-p", str(self.port)]
        with (self.directory / "log").open("a") as log:
            self._process = subprocess.Popen(
                [*self._as_user, *server, *words], cwd="/", stdout=log, stderr=log
            )
        limit = time.monotonic() + DEADLINE
        while not self._answers():
            log = (self.directory / "log").read_text()
            assert self._process.poll() is None, log
            assert time.monotonic() < limit, log
            time.sleep(0.02)

    def _answers(self):
        import psycopg

        try:
            self.run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def run(self, *statements, database="postgres"):
        """Run *statements* as the owner; what the last of them returns."""
        import psycopg

        with psycopg.connect(
            host=str(self.directory),
            port=self.port,
            user="frontier",
            dbname=database,
            autocommit=True,
        ) as connection:
            for statement in statements:
                done = connection.execute(statement)
            return done.fetchall() if done.description else None

    def stop(self):
        """End it at once, as a crash does."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(DEADLINE)

    def url(self, database, user="frontier", password=QUOTED):
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def remove(self):
        if self._process is not None and self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.directory)


class Fresh:
    """A new database: its URL, and its owner's SQL."""

    def __init__(self, url, run):
        self.url = url
        self.run = run


@contextlib.contextmanager
def started():
    """A server of its own, while this lasts."""
    if find_spec("psycopg") is None:
        lacks("psycopg")
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def shared_postgres():
    with started() as server:
        yield server


@pytest.fixture
def postgres(shared_postgres, unique):
    """An empty database on PostgreSQL."""
    name = f"feeds_{unique}"
    shared_postgres.run(f"CREATE DATABASE {name}")

    def run(*statements):
        return shared_postgres.run(*statements, database=name)

    fresh = Fresh(shared_postgres.url(name), run)
    fresh.server, fresh.name = shared_postgres, name
    return fresh


@pytest.fixture
def own_postgres():
    """A server that the test may stop and start, with an empty database ``feeds``."""
    with started() as server:
        server.run("CREATE DATABASE feeds")
        yield server
