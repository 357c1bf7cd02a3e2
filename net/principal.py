"""Who a peer is, as far as it has proven it."""


class Principal:
    """A kind and a name, in Kafka's words and way of writing: ``User:ANONYMOUS``. Handlers that prove more set another one."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""Everybody who has proven nothing."""
