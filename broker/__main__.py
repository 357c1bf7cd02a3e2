"""``python -m ottla.broker --config server.properties -o key=value``: run one broker until SIGTERM."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from ottla.broker.config import BrokerConfig, load
from ottla.wire.errors import OttlaError

logger = logging.getLogger("ottla.broker")

BROKER_NEEDS = ("aiohttp", "kazoo", "prometheus_client")
"""What `pip install ottla` alone, which is the client, does not bring."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ottla broker", description="Run one broker until it is told to stop.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a properties file with Kafka's names")
    parser.add_argument("-o", "--option", action="append", default=[], metavar="KEY=VALUE", help="overrides the file")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        config, unknown = load(options.config, os.environ, options.option)
        if unknown:
            logger.warning("unknown properties ignored: %s", ", ".join(unknown))
        return run(config)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in BROKER_NEEDS:
            raise
        print(f"error: a broker needs {error.name}, which is not installed", file=sys.stderr)
        print("hint: pip install 'ottla[broker]'", file=sys.stderr)
        return 1
    except OttlaError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1


THREAD_SWITCH_S = 0.0005
"""A thread that converts or reads for one client gives the interpreter back to the event loop so soon when that has something
to do. Python's own 5 ms, at each hop of a record between brokers, made p99 latencies ten times as long."""


def run(config: BrokerConfig) -> int:
    import uvloop

    sys.setswitchinterval(THREAD_SWITCH_S)
    return uvloop.run(_serve(config))


async def _serve(config: BrokerConfig) -> int:
    from ottla.broker.node import Node

    loop = asyncio.get_running_loop()
    this, stopped = asyncio.current_task(), asyncio.Event()
    assert this is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, this.cancel)  # starting may mean to wait for ZooKeeper for a long time
    node = Node(config)
    try:
        await node.start()
    except asyncio.CancelledError:
        logger.info("broker is told to stop before it has started broker=%d", config.broker_id)
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    logger.info("broker is told to stop broker=%d", config.broker_id)
    await node.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
