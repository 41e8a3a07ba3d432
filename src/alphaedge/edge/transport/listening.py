"""Sockets that listen, for ports that accept their connections themselves."""

import asyncio
import socket


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
