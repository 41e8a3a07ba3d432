"""Ports for fleets in tests."""

import os
import socket


def free_ports(count: int) -> int:
    """The first of some consecutive ports that are free."""
    for start in range(21_000 + os.getpid() % 1000 * 20, 60_000, count):
        sockets: list[socket.socket] = []
        try:
            for port in range(start, start + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))  # noqa: PERF401
            return start
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no free ports")
