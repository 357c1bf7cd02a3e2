"""The znodes of one broker: that it lives and where, which life of it that is, and what its data folders must hold."""

import enum
from dataclasses import dataclass

from ottla.wire.messages import ListenerAddress
from ottla.zk.znodes.json_fields import Fields, decimal, encode_json

_PLAINTEXT = "PLAINTEXT"


class DataState(enum.StrEnum):
    """What a broker's data folders hold of what it had acknowledged."""

    WHOLE = "whole"
    TAIL_SUSPECT = "tail-suspect"
    """The machine crashed: the last records may be missing."""
    LOST = "lost"
    """A folder is empty, is missing, or is an older copy: what was written there since is missing."""


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """/brokers/ids/<id>, ephemeral: a live broker and where to reach it.

    ``host`` and ``port`` are for other brokers. ``listeners`` has all addresses; empty means PLAINTEXT at host and port.
    ``uuid`` names the data folder behind the broker, ``broker_epoch`` this life of it, ``data`` what its folders hold,
    ``lost_partitions`` in which single partitions records are missing, and ``reported`` whether a controller has acted on
    that; these keys are ours, the last three only if something is missing.
    """

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    uuid: str = ""
    broker_epoch: int = -1
    timestamp_ms: int = 0
    listeners: tuple[ListenerAddress, ...] = ()
    data: DataState = DataState.WHOLE
    reported: bool = False
    lost_partitions: tuple[str, ...] = ()

    PARENT = "/brokers/ids"

    @classmethod
    def path(cls, broker_id: int) -> str:
        return f"{cls.PARENT}/{broker_id}"

    def endpoints(self) -> tuple[ListenerAddress, ...]:
        return self.listeners or (ListenerAddress(_PLAINTEXT, self.host, self.port),)

    def encode(self) -> bytes:
        endpoints = self.endpoints()
        return encode_json(
            {
                "version": 5,
                "host": self.host,
                "port": self.port,
                "endpoints": [str(endpoint) for endpoint in endpoints],
                "jmx_port": -1,
                "timestamp": str(self.timestamp_ms),
                **({"rack": self.rack} if self.rack is not None else {}),
                "listener_security_protocol_map": {endpoint.listener: _PLAINTEXT for endpoint in endpoints},
                "features": {},
                "uuid": self.uuid,
                "broker_epoch": self.broker_epoch,
                **({"data": self.data.value, "reported": self.reported} if self._lacks_records else {}),
                **({"lost_partitions": list(self.lost_partitions)} if self.lost_partitions else {}),
            }
        )

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> "BrokerZnode":
        fields = Fields(cls.path(broker_id), data)
        host, port = fields.text("host", ""), fields.number("port", -1)
        listeners = tuple(_endpoint(fields, text) for text in fields.texts("endpoints", ()))
        if not host or port < 0:  # Kafka leaves them empty if no listener is PLAINTEXT
            if not listeners:
                fields.refuse("it has neither host and port nor endpoints")
            host, port = listeners[0].host, listeners[0].port
        return cls(
            broker_id=broker_id,
            host=host,
            port=port,
            rack=fields.text("rack") if "rack" in fields else None,
            uuid=fields.text("uuid", ""),
            broker_epoch=fields.number("broker_epoch", -1),
            timestamp_ms=fields.number_or_text("timestamp", 0),
            listeners=() if listeners == (ListenerAddress(_PLAINTEXT, host, port),) else listeners,
            data=_data_state(fields),
            reported=fields.flag("reported", False),
            lost_partitions=fields.texts("lost_partitions", ()),
        )

    @property
    def _lacks_records(self) -> bool:
        return self.data is not DataState.WHOLE or bool(self.lost_partitions)


def _data_state(fields: Fields) -> DataState:
    text = fields.text("data", DataState.WHOLE.value)
    if text not in list(DataState):
        fields.refuse(f"data {text!r} is none of {', '.join(DataState)}")
    return DataState(text)


def _endpoint(fields: Fields, text: str) -> ListenerAddress:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if not host:
        fields.refuse(f"endpoint {text!r} is not protocol://host:port")
    return ListenerAddress(listener, host.strip("[]"), decimal(fields.path, port))


class BrokerState(enum.StrEnum):
    """Whether the last word about a broker was its registration or its fencing."""

    LIVE = "live"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class BrokerEpochZnode:
    """/brokers/epochs/<id>, persistent, ours.

    Every registration and every fence is one write, so the znode's version is the broker epoch.
    """

    incarnation: str
    boot_id: str
    state: BrokerState

    PARENT = "/brokers/epochs"

    @classmethod
    def path(cls, broker_id: int) -> str:
        return f"{cls.PARENT}/{broker_id}"

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "incarnation": self.incarnation,
                "boot_id": self.boot_id,
                "state": self.state.value,
            }
        )

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> "BrokerEpochZnode":
        fields = Fields(cls.path(broker_id), data)
        state = fields.text("state")
        if state not in list(BrokerState):
            fields.refuse(f"state {state!r} is neither live nor fenced")
        return cls(fields.text("incarnation"), fields.text("boot_id"), BrokerState(state))


@dataclass(frozen=True, slots=True)
class BrokerDataZnode:
    """/brokers/data/<id>, persistent, ours: the data folders of a broker, and the stamp that each of them must bear.

    A stamp is written into the folders first and here afterwards, so a folder that does not know the one that stands here
    is not the folder that was in use then.
    """

    stamp: str
    folders: tuple[str, ...]

    PARENT = "/brokers/data"

    @classmethod
    def path(cls, broker_id: int) -> str:
        return f"{cls.PARENT}/{broker_id}"

    def encode(self) -> bytes:
        return encode_json({"version": 1, "stamp": self.stamp, "folders": list(self.folders)})

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> "BrokerDataZnode | None":
        """None if nothing has been stamped yet: the znode is made without data."""
        if not data:
            return None
        fields = Fields(cls.path(broker_id), data)
        return cls(fields.text("stamp"), fields.texts("folders", ()))


@dataclass(frozen=True, slots=True)
class BrokerClockZnode:
    """/brokers/clocks/<id>, persistent, ours: the wall clock of a broker when it last compared it."""

    now_ms: int

    PARENT = "/brokers/clocks"

    @classmethod
    def path(cls, broker_id: int) -> str:
        return f"{cls.PARENT}/{broker_id}"

    def encode(self) -> bytes:
        return encode_json({"version": 1, "now_ms": self.now_ms})

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> "BrokerClockZnode":
        return cls(Fields(cls.path(broker_id), data).number("now_ms"))
