"""A decoy: takes what the attacker sends while brokers are left alone, so that the machine has the same work without it."""

import asyncio
from multiprocessing.connection import Connection


def be_attacked(addresses: Connection) -> None:
    """The process: gives back its address, and takes and drops whatever comes until it is ended."""
    asyncio.run(_serve(addresses))


async def _serve(addresses: Connection) -> None:
    server = await asyncio.start_server(_drop, "127.0.0.1", 0)
    addresses.send(server.sockets[0].getsockname()[:2])
    await server.serve_forever()


async def _drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.read(65_536):
            pass
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
