"""Whose data folder this is: ``meta.properties``, Kafka's file, plus an id of the data itself.

The data id tells a broker that came back with its records from one that came back with an empty disk.
"""

import uuid
from pathlib import Path

from ottla.broker.storage.checkpoint_file import replace_file
from ottla.wire.errors import ConfigError

FILE_NAME = "meta.properties"


def claim_data_folder(folder: Path, broker_id: int, cluster_id: str) -> str:
    """Check that ``folder`` belongs to this broker of this cluster, or make it so; gives the id of the data."""
    path = folder / FILE_NAME
    wanted = {"broker.id": str(broker_id), "cluster.id": cluster_id}
    try:
        found = _parse(path.read_text("utf-8"))
    except FileNotFoundError:
        data_uuid = str(uuid.uuid4())
        lines = {"version": "0", **wanted, "data.uuid": data_uuid}
        replace_file(path, "".join(f"{key}={value}\n" for key, value in lines.items()))
        return data_uuid
    for key, value in wanted.items():
        if found.get(key) != value:
            raise ConfigError(
                f"{path} says {key}={found.get(key)}, this broker has {key}={value}",
                hint="the folder belongs to another broker or cluster: set log.dirs to the right one",
            )
    if not found.get("data.uuid"):
        raise ConfigError(f"{path} has no data.uuid", hint="restore the file from a backup")
    return found["data.uuid"]


def _parse(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
