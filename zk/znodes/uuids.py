"""A uuid as Kafka spells it."""

import base64
import binascii
import uuid


def uuid_to_text(value: uuid.UUID) -> str:
    """A uuid in Kafka's spelling: 22 characters of base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> uuid.UUID:
    """Undo ``uuid_to_text``; ValueError if it is none."""
    try:
        return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is not a uuid in base64: {error}") from None
