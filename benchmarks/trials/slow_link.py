"""A slow network between roles and their relay, for benchmarks: a proxy that delays and throttles every connection."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

BLOCK = 2**14


@dataclass(frozen=True, slots=True)
class Link:
    """How fast a connection is in each direction, and how long a byte is under way."""

    megabits: float
    delay_s: float

    @property
    def name(self) -> str:
        """As a row's name has it."""
        return f"{self.megabits:.0f}mbit-{1000 * self.delay_s:.0f}ms"


def carry(link: Link, port: int, relay_port: int) -> None:
    """Listen at ``port`` and pass all bytes on to ``relay_port`` as ``link`` allows, until the process ends."""
    asyncio.run(_serve(link, port, relay_port))


async def _serve(link: Link, port: int, relay_port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", relay_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(link, reader, far_writer), _pass(link, far_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


async def _pass(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction: blocks leave one after the other at the link's speed, each after its delay."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
    deliverer = asyncio.create_task(_deliver(waiting, writer))
    free = 0.0
    try:
        while block := await reader.read(BLOCK):
            free = max(free, time.monotonic()) + 8e-6 * len(block) / link.megabits
            await waiting.put((free + link.delay_s, block))
    except OSError:
        pass
    await waiting.put((0.0, b""))
    await deliverer


async def _deliver(waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    try:
        while block := await _due(waiting):
            writer.write(block)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def _due(waiting: asyncio.Queue[tuple[float, bytes]]) -> bytes:
    due, block = await waiting.get()
    await asyncio.sleep(max(0.0, due - time.monotonic()))
    return block
