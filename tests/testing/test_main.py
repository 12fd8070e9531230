import json
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest
import warm

from frontier.testing.oracle import RequestLog

COMMAND = [sys.executable, "-m", "frontier.testing"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_site_serves_until_a_signal(tmp_path, number):
    log = tmp_path / "requests.jsonl"
    arguments = ["--urls", "150", "--hosts", "2", "--log", str(log)]
    with warm.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            ready = json.loads(process.stdout.readline())
            urlopen(ready["seeds"][1], timeout=120).close()
        finally:
            process.send_signal(number)
        rest = process.stdout.read()

    assert process.returncode == 0
    assert rest == ""
    assert ready["pid"] == process.pid
    assert ready["log"] == str(log)
    assert ready["seeds"] == [f"http://{host}/" for host in ready["hosts"]]
    assert RequestLog.read(log).fetched() == {ready["seeds"][1]: 1}
