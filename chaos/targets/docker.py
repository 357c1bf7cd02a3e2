"""The docker command and what it tells about containers of a compose project."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from ottla.chaos.faults import NotOffered

COMMAND_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Container:
    """A container as it is now: a restart changes process and address."""

    id: str
    service: str
    running: bool
    pid: int
    address: str
    gateway: str
    ports: dict[int, int]
    """Published ports of this machine, by the port inside."""
    environment: dict[str, str]
    image: str = ""


def containers(project: str) -> dict[str, Container]:
    """The containers of a project, by service."""
    ids = docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={project}").split()
    if not ids:
        return {}
    found = [_container(one) for one in json.loads(docker("inspect", *ids))]
    return {container.service: container for container in found}


def docker(*arguments: str) -> str:
    return docker_bytes(*arguments).decode(errors="replace")


def docker_bytes(*arguments: str) -> bytes:
    """What a docker command prints; NotOffered, with what it says, if it fails."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise NotOffered("there is no docker command on this machine") from None
    except subprocess.TimeoutExpired:
        raise NotOffered(f"docker {arguments[0]} took longer than {COMMAND_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise NotOffered(f"docker {' '.join(arguments[:2])}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def in_network_of(container: Container, *command: str) -> bool:
    """Run a command of this machine in a container's network; whether it succeeded."""
    done = subprocess.run(
        ["nsenter", "--target", str(container.pid), "--net", *command],
        capture_output=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return done.returncode == 0


def _container(told: dict[str, Any]) -> Container:
    networks = [network for network in told["NetworkSettings"]["Networks"].values() if network["IPAddress"]]
    bindings = told["HostConfig"]["PortBindings"] or {}
    environment = (line.partition("=") for line in told["Config"]["Env"] or [])
    return Container(
        told["Id"],
        told["Config"]["Labels"]["com.docker.compose.service"],
        told["State"]["Running"],
        told["State"]["Pid"],
        networks[0]["IPAddress"] if networks else "",
        networks[0]["Gateway"] if networks else "",
        {int(inside.split("/")[0]): int(outside[0]["HostPort"]) for inside, outside in bindings.items() if outside},
        {name: value for name, _, value in environment},
        told["Image"],
    )
