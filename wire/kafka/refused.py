"""Apis that are told only to be refused, as Kafka's brokers do: who asks is answered, where others would be hung up on."""

from ottla.wire.errors import IllegalSaslState, OttlaError

SASL_HANDSHAKE = 17
SASL_AUTHENTICATE = 36

REFUSED: dict[int, range] = {SASL_HANDSHAKE: range(2), SASL_AUTHENTICATE: range(3)}
"""Their versions. A client that is set to SASL hears what is wrong, and one that only tries goes on without."""


def refusal(api: int) -> OttlaError:
    return IllegalSaslState(f"api {api}: there is no SASL here; set security.protocol to PLAINTEXT")
