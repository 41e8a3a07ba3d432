"""Sockets that listen, for ports that accept their connections themselves."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from alphaedge.edge.log import warn

PAUSE_SECONDS: Final = 0.5  # before the next attempt when no connection can be accepted


async def open_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Listen on every address of a host. With port 0 the system chooses one. backlog: connections that may wait."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets = []
    for family, address in dict.fromkeys((family, address[:2]) for family, *_, address in found):
        listening = socket.create_server(address, family=family, backlog=backlog)
        listening.setblocking(False)
        sockets.append(listening)
    return sockets


async def accept_forever(listening: socket.socket, handle: Callable[[socket.socket, str], None]) -> None:
    """Call ``handle`` with each connection and its address.

    While the process has no descriptor or memory left, connections wait in the system's queue.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, address = await loop.sock_accept(listening)
        except (OSError, MemoryError) as error:
            warn("accept_failed", reason=error)
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        handle(accepted, str(address[0]))
        await asyncio.sleep(0)  # others have their turn even if there is always one more to accept
