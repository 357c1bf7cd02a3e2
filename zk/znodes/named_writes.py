"""The znodes of named writes.

/producers/<writer>/<task>: under which numbers a task's newest batch is written.
/producers_ended/<shard>/<writer>: nothing more is written under that name.
"""

import base64
import binascii
import zlib
from dataclasses import dataclass

from ottla.zk.znodes.consumers import name_in_path
from ottla.zk.znodes.json_fields import Fields, encode_json


@dataclass(frozen=True, slots=True)
class NamedWriteZnode:
    """The newest batch of one task of one writer."""

    producer_id: int
    epoch: int
    batch: int
    note: bytes
    done: bool
    touched_ms: int
    """When it was written last."""

    PARENT = "/producers"

    @classmethod
    def writer_path(cls, writer: str) -> str:
        return f"{cls.PARENT}/{name_in_path(writer)}"

    @classmethod
    def path(cls, writer: str, task: int) -> str:
        return f"{cls.writer_path(writer)}/{task}"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "producer_id": str(self.producer_id),
                "epoch": self.epoch,
                "batch": self.batch,
                "note": base64.b64encode(self.note).decode(),
                "done": self.done,
                "touched": self.touched_ms,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> "NamedWriteZnode":
        fields = Fields(path, data)
        try:
            note = base64.b64decode(fields.text("note"), validate=True)
        except (binascii.Error, ValueError):
            fields.refuse("'note' is not base64")
        return cls(
            fields.number_or_text("producer_id"),
            fields.number("epoch"),
            fields.number("batch"),
            note,
            fields.flag("done"),
            fields.number("touched"),
        )


@dataclass(frozen=True, slots=True)
class EndedWriterZnode:
    """A writer all of whose tasks are done: none of them may begin anew, for it would get other numbers."""

    ended_ms: int

    PARENT = "/producers_ended"
    SHARDS = 256
    """Names of very many must not stand in one answer of ZooKeeper."""

    @classmethod
    def shard_path(cls, writer: str) -> str:
        return f"{cls.PARENT}/{zlib.crc32(writer.encode()) % cls.SHARDS:02x}"

    @classmethod
    def path(cls, writer: str) -> str:
        return f"{cls.shard_path(writer)}/{name_in_path(writer)}"

    def encode(self) -> bytes:
        return encode_json({"version": 1, "ended": self.ended_ms})

    @classmethod
    def decode(cls, path: str, data: bytes) -> "EndedWriterZnode":
        return cls(Fields(path, data).number("ended"))
