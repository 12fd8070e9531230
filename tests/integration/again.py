"""Several servers that a test may stop, pause, fill, and start again."""

import signal
import time

DEADLINE = 60.0


class Again:
    """What is put before a class of `topologies`."""

    formed = False

    def start(self):
        """Start all; again, with what their append-only files have."""
        if self.formed:
            self.again()
        else:
            super().start()
        self.formed = True

    def again(self):
        super().start()

    def kill(self):
        """Kill all of them."""
        for process in self.processes:
            process.kill()

    def pause(self):
        self._send(signal.SIGSTOP)

    def resume(self):
        self._send(signal.SIGCONT)

    def _send(self, number):
        for process in self.processes:
            process._process.send_signal(number)

    def restore(self):
        """Be as if just started, whatever a test has done."""
        self.resume()
        if any(process._process.poll() is not None for process in self.processes):
            self.kill()
            self.start()
        self.configure("maxmemory", 0)
        self.configure("maxmemory-policy", "noeviction")
        self.clear()

    def configure(self, name, value):
        """Set a parameter of the servers that have keys."""
        for process in self.holders:
            process.ask("CONFIG", "SET", name, value)


class ClusterAgain(Again):
    def again(self):
        for process in self.processes:
            process.launch()
        for process in self.processes:
            process.wait()
        limit = time.monotonic() + DEADLINE
        while not all(
            b"cluster_state:ok" in info for info in map(_info, self.processes)
        ):
            assert time.monotonic() < limit, "the cluster is not whole again"
            time.sleep(0.01)


class SentinelAgain(Again):
    @property
    def holders(self):
        """The primary, whichever of the two that is now."""
        port = self.primary_port()
        return [one for one in (self.primary, self.replica) if one.port == port]


def _info(process):
    found = process.ask("CLUSTER", "INFO")
    return found if isinstance(found, bytes) else str(found).encode()
