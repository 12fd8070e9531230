"""Several servers that a test may stop, pause, fill, and start again."""

import signal

from tests.topologies import until


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
        until(lambda: all(map(_serves, self.processes)), "a whole cluster")


class SentinelAgain(Again):
    def again(self):
        super().again()
        until(self._has_primary, "that Sentinel names the primary")

    def _has_primary(self):
        found = self.sentinel.ask("SENTINEL", "MASTER", "frontier")
        return found[b"flags"] == b"master"  # and not down, or failed over

    @property
    def holders(self):
        """The primary, whichever of the two that is now."""
        port = self.primary_port()
        return [one for one in (self.primary, self.replica) if one.port == port]


def _serves(process):
    found = process.ask("CLUSTER", "INFO")
    return b"cluster_state:ok" in (
        found if isinstance(found, bytes) else found.encode()
    )
