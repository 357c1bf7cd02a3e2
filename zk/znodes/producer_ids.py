"""The znode from which producer ids are given out, a block at a time."""

from dataclasses import dataclass

from ottla.zk.znodes.json_fields import Fields, encode_json


@dataclass(frozen=True, slots=True)
class ProducerIdBlockZnode:
    """/latest_producer_id_block: the producer ids that were given to a broker last, both ends included."""

    broker_id: int
    block_start: int
    block_end: int

    PATH = "/latest_producer_id_block"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.block_start),
                "block_end": str(self.block_end),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "ProducerIdBlockZnode | None":
        """None if no block has been given out yet: the znode is made without data."""
        if not data:
            return None
        fields = Fields(cls.PATH, data)
        block = cls(fields.number("broker"), fields.number_or_text("block_start"), fields.number_or_text("block_end"))
        if block.block_end < block.block_start:
            fields.refuse(f"the block ends at {block.block_end}, before its start {block.block_start}")
        return block
