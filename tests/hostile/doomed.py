"""Inputs that do each thing that the runner must see: for `test_runner`."""

import os
import socket
import subprocess
import threading
import time

from tests.hostile.corpus import Said, hostile


@hostile("doomed/nothing")
def _(given):
    given.file("x", "y")


@hostile("doomed/wrong")
def _(given):
    assert given.file("x", "y").read_text() == "z"


@hostile("doomed/raises")
def _(given):
    raise ValueError("a fault")


@hostile("doomed/aborts")
def _(given):
    os.abort()


@hostile("doomed/waits", wall=1.0)
def _(given):
    threading.Event().wait()


@hostile("doomed/waits-in-another-process", wall=1.0)
def _(given):
    if not os.fork():
        time.sleep(1_000)
    os.wait()


@hostile("doomed/counts", cpu=1)
def _(given):
    while True:
        pass


@hostile("doomed/allocates")
def _(given):
    bytearray(2 << 30)


@hostile("doomed/writes-beside")
def _(given):
    (given.directory.parent / "x").write_text("y")


@hostile("doomed/renames-to-beside")
def _(given):
    given.file("x", "y").rename(given.directory.parent / "x")


@hostile("doomed/takes-the-bait")
def _(given):
    given.bait("x").read_bytes()


@hostile("doomed/connects")
def _(given):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect(("169.254.169.254", 80))


@hostile("doomed/runs-a-program")
def _(given):
    subprocess.run(["/bin/true"], check=True)


@hostile("doomed/prints-an-escape")
def _(given):
    Said(0, "\x1b[31m", "")
