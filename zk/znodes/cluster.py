"""The znodes that a cluster has one of: its id and its secret."""

from dataclasses import dataclass

from ottla.zk.znodes.json_fields import Fields, MalformedZnode, encode_json


@dataclass(frozen=True, slots=True)
class ClusterIdZnode:
    """/cluster/id: the name of this cluster, made up once."""

    cluster_id: str

    PATH = "/cluster/id"

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> "ClusterIdZnode":
        return cls(Fields(cls.PATH, data).text("id"))


class SecretZnode:
    """/ottla/secret, ours: what brokers prove to know to each other, as hexadecimal text."""

    PATH = "/ottla/secret"

    @classmethod
    def decode(cls, data: bytes) -> str:
        text = data.decode("ascii", "replace")
        if len(text) < 32 or any(c not in "0123456789abcdef" for c in text):
            raise MalformedZnode(cls.PATH, "not at least 32 hexadecimal digits")
        return text
