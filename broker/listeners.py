"""Where a broker listens, and where others find it: Kafka's ``listeners`` and ``advertised.listeners``. Pure.

A broker may listen at several addresses, each with a name. Whoever comes in through one of them is told the addresses that
all brokers advertise under the same name, so clients on either side of a network boundary get addresses they can reach.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.wire.errors import ConfigError
from ottla.wire.messages import ListenerAddress

PROTOCOL = "PLAINTEXT"
"""The only security protocol there is, and the name of a listener that has none."""

OTHER_PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Names that promise what is not kept here, unless they are mapped to PLAINTEXT."""

WILDCARDS = ("", "0.0.0.0", "::")
"""Every address of this machine: good to listen at, but nobody can connect to it."""

_LISTENER = re.compile(r"(?:(\w+)://)?(\[[0-9a-fA-F:]+\]|[^:/,\[\]\s]*):(\d{1,5})")


@dataclass(frozen=True)
class Listeners:
    """All listeners of a broker, as configured."""

    bound: tuple[ListenerAddress, ...]
    told: Mapping[str, ListenerAddress]
    """What advertised.listeners says, by name; nothing if it was not given."""
    inter_broker: str
    """The listener that the other brokers use."""

    def advertised(self, ports: Mapping[str, int]) -> tuple[ListenerAddress, ...]:
        """Where others find this broker, given the ports that it really got, by listener."""
        return tuple(self._advertised(address, ports[address.listener]) for address in self.bound)

    def _advertised(self, bound: ListenerAddress, port: int) -> ListenerAddress:
        told = self.told.get(bound.listener)
        if told is not None:
            return ListenerAddress(bound.listener, told.host, told.port or port)
        return ListenerAddress(bound.listener, bound.host, port)


def parse_listeners(listeners: str, advertised: str, inter_broker: str, protocols: str) -> Listeners:
    """Read the four settings; ConfigError where they do not fit together."""
    bound = parse_addresses("listeners", listeners)
    told = parse_addresses("advertised.listeners", advertised) if advertised.strip() else ()
    names = [address.listener for address in bound]
    _check_ports(bound)
    _check_advertised(names, told)
    _check_protocols(names, protocols)
    between = inter_broker.strip().upper() or names[0]
    if between not in names:
        raise ConfigError(
            f"inter.broker.listener.name={inter_broker} is not allowed; give one of the listeners: {', '.join(names)}"
        )
    _check_wildcards(bound, told)
    return Listeners(bound, {address.listener: address for address in told}, between)


def parse_addresses(setting: str, text: str) -> tuple[ListenerAddress, ...]:
    """``NAME://host:port``, one or more with commas between them, each with a name of its own."""
    addresses = tuple(parse_address(setting, part) for part in text.split(","))
    names = [address.listener for address in addresses]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{setting}={text} has two listeners called {name}; give each a name of its own")
    return addresses


def parse_address(setting: str, text: str) -> ListenerAddress:
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{setting}={text!r} is not allowed; give {PROTOCOL}://host:port")
    return ListenerAddress((match[1] or PROTOCOL).upper(), match[2].strip("[]"), int(match[3]))


def _check_ports(bound: Sequence[ListenerAddress]) -> None:
    ports = [address.port for address in bound if address.port]
    for port in ports:
        if ports.count(port) > 1:
            raise ConfigError(f"listeners has port {port} twice; give each listener a port of its own")


def _check_advertised(names: list[str], told: Sequence[ListenerAddress]) -> None:
    if told and {address.listener for address in told} != set(names):
        raise ConfigError(
            f"advertised.listeners names {', '.join(address.listener for address in told)}, but listeners names"
            f" {', '.join(names)}; give the same names"
        )
    for address in told:
        if address.host in WILDCARDS:
            raise ConfigError(
                f"advertised.listeners={address} is not allowed: nobody can connect to that",
                hint="give a name or an address by which others reach this broker",
            )


def _check_wildcards(bound: Sequence[ListenerAddress], told: Sequence[ListenerAddress]) -> None:
    for address in bound:
        if address.host in WILDCARDS and not told:
            raise ConfigError(
                f"listeners={address} listens everywhere, and does not say where others find this broker",
                hint=f"give advertised.listeners={address.listener}://HOST:{address.port} with this machine's name or address",
            )


def _check_protocols(names: list[str], text: str) -> None:
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not colon:
            raise ConfigError(f"listener.security.protocol.map={text!r} is not allowed; give NAME:{PROTOCOL},...")
        protocols[name.strip().upper()] = protocol.strip().upper()
    for name in names:
        protocol = protocols.get(name, name if protocols or name in OTHER_PROTOCOLS else PROTOCOL)
        if protocols and name not in protocols and name != PROTOCOL:
            raise ConfigError(f"listener.security.protocol.map={text!r} says nothing about listener {name}")
        if protocol != PROTOCOL:
            raise ConfigError(f"listener {name} asks for {protocol}; there is {PROTOCOL} only")
