"""What all errors have in common, and the table of those that have a number."""

from typing import ClassVar, Final

NO_ERROR: Final = 0


class OttlaError(Exception):
    """Base of all errors of this package; ``hint`` says what to do about it."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False

    def __init__(
        self,
        message: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message or first_line(type(self)))
        self.topic = topic
        self.partition = partition
        self.broker = broker
        self.hint = hint

    def __init_subclass__(
        cls,
        code: int | None = None,
        retriable: bool = False,
        refresh_metadata: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.retriable = retriable or cls.retriable
        cls.refresh_metadata = refresh_metadata
        if code is not None:
            cls.code = code
            assert code not in ERRORS, f"error code {code} stands twice in the table"
            ERRORS[code] = cls

    @classmethod
    def wire_name(cls) -> str:
        """The error's name as Kafka's documentation spells it: NOT_LEADER_OR_FOLLOWER."""
        name = cls.__name__
        return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


ERRORS: dict[int, type[OttlaError]] = {}
"""Every error that has a number, by number."""


def first_line(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]
