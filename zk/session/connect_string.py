"""`zookeeper.connect`: which servers, and below which znode."""

from dataclasses import dataclass

from ottla.wire.errors import ConfigError

DEFAULT_PORT = 2181


@dataclass(frozen=True, slots=True)
class ConnectString:
    """ZooKeeper's servers as (host, port), and the chroot: "" or a path without a slash at its end."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str

    @property
    def servers(self) -> str:
        """The servers alone, as text: ``zoo1:2181,[::1]:2182``."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)

    def __str__(self) -> str:
        return self.servers + self.chroot


def parse_connect(text: str) -> ConnectString:
    """Read ``zoo1:2181,zoo2:2181/kafka``; the chroot may also be repeated after each host, and end in a slash."""
    hosts: list[tuple[str, int]] = []
    chroots: dict[str, str] = {}
    for part in text.split(","):
        address, slash, path = part.strip().partition("/")
        hosts.append(_address(address, text))
        if slash:
            chroots.setdefault(_chroot(path, text), address)
    if len(chroots) > 1:
        named = " but ".join(f"{chroot or '/'!r} after {address}" for chroot, address in chroots.items())
        raise ConfigError(
            f"zookeeper.connect {text!r} contradicts itself: {named}",
            hint="write the chroot once, at the end: zoo1:2181,zoo2:2181/kafka",
        )
    return ConnectString(tuple(hosts), next(iter(chroots), ""))


def _chroot(path: str, text: str) -> str:
    names = path.rstrip("/").split("/")
    if names == [""]:
        return ""
    if any(name in ("", ".", "..") for name in names):
        raise ConfigError(f"zookeeper.connect {text!r} has an illegal chroot {'/' + path!r}")
    return "/" + "/".join(names)


def _address(address: str, text: str) -> tuple[str, int]:
    host, port = address, ""
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigError(f"zookeeper.connect {text!r} has a broken IPv6 address {address!r}: write [::1]:2181")
        port = rest[1:]
    elif address.count(":") > 1:
        raise ConfigError(f"zookeeper.connect {text!r}: put the IPv6 address {address!r} in brackets: [::1]:2181")
    else:
        host, _, port = address.partition(":")
    if not host:
        raise ConfigError(f"zookeeper.connect {text!r} names no host in {address!r}")
    if not port:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"zookeeper.connect {text!r} has an illegal port {port!r}")
    return host, int(port)
