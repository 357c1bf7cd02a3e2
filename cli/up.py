"""``ottla up``, ``down`` and ``status``: a cluster on this machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.errors import FAILED, NotFound, show_error
from ottla.cli.options import DataFolder, Format, parse_pair
from ottla.cli.output import Table, flush, note, show, write_line
from ottla.wire.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.local import LocalCluster
    from ottla.local.state import ClusterState, Member

_POLL_S = 0.2
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 60.0
UP_LOG = "up.log"
OWN_FILE = ".lock"
"""What every folder of a local cluster has."""
START_PREFIX = "start-"

BrokerName = Annotated[str, typer.Argument(metavar="BROKER", help="Its name or number: broker-2, or 2.")]


def up(
    brokers: Annotated[int, typer.Option("--brokers", min=1, help="How many brokers.")] = 3,
    zookeepers: Annotated[int, typer.Option("--zookeepers", help="How many ZooKeeper servers: 1, 3 or 5.")] = 1,
    racks: Annotated[int, typer.Option("--racks", min=1, help="Over how many racks the brokers are spread.")] = 1,
    port: Annotated[int, typer.Option("--port", help="The first broker's port; the others count up.")] = 9092,
    data: DataFolder = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Go on in the background.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="A property of all brokers.")
    ] = None,
) -> None:
    """Start a cluster on this machine. Data is kept; Ctrl-C, or `ottla down`, stops it."""
    folder = data_folder(data)
    properties = dict(parse_pair(pair, "-o") for pair in option or [])
    if detach:
        _start_in_background(folder, brokers, zookeepers, racks, port, properties)
        return
    from ottla.local import LocalCluster
    from ottla.local.state import load_state, remove_state, save_state

    cluster = LocalCluster(brokers, zookeepers, racks, folder=folder, port=port, broker_config=properties)
    stopped = _Stopped()
    note(f"starting {zookeepers} ZooKeeper and {brokers} broker{'' if brokers == 1 else 's'} in {folder} ...")
    try:
        with cluster:
            save_state(cluster)
            state = load_state(folder)
            assert state is not None
            _tell(state, data, "Ctrl-C stops all.")
            _wait(cluster, stopped)
            note("stopping ...")
            remove_state(folder)
    except KeyboardInterrupt:
        stopped.by_keyboard = True
    if stopped.by_keyboard:
        raise KeyboardInterrupt
    note("stopped")


def down(
    data: DataFolder = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the cluster's folder with all its data.")] = False,
) -> None:
    """Stop the cluster that `ottla up` started."""
    import shutil

    from ottla.local.state import load_state, stop_owner

    folder = data_folder(data)
    if not delete:
        stop_owner(_running(folder), _STOP_TIMEOUT_S)
        write_line(f"stopped; the data is kept in {folder}")
        return
    if not (folder / OWN_FILE).exists():  # whatever else it is, it is not ours to delete
        raise NotFound(f"{folder} is no folder of a local cluster", hint="--data names another one")
    state = load_state(folder)
    if state is not None:
        stop_owner(state, _STOP_TIMEOUT_S)
    shutil.rmtree(folder)
    write_line(f"stopped; {folder} is deleted")


def start(broker: BrokerName, data: DataFolder = None) -> None:
    """Start a broker of the cluster that `ottla up` started, after it has ended."""
    folder = data_folder(data)
    member = _member(_running(folder), broker)
    if member.process.alive:
        raise ConfigError(f"{member.name} is running already, as process {member.process.pid}")
    asked = folder / f"{START_PREFIX}{member.name}"
    asked.touch()
    deadline = time.monotonic() + _START_TIMEOUT_S
    while asked.exists():
        if time.monotonic() > deadline:
            asked.unlink(missing_ok=True)
            raise TimeoutError(f"{member.name} was not started in {_START_TIMEOUT_S:g} s; its log is {member.log_path}")
        time.sleep(_POLL_S / 4)
    if not _member(_running(folder), broker).process.alive:
        raise FailedStart(f"{member.name} did not start", hint=f"its log is {member.log_path}")
    write_line(f"started {member.name} at {member.address}")


def stop(
    broker: BrokerName,
    data: DataFolder = None,
    kill: Annotated[bool, typer.Option("--kill", help="As a crash would: SIGKILL, nothing in good order.")] = False,
) -> None:
    """Stop one broker of the cluster that `ottla up` started; `ottla start` brings it back."""
    member = _member(_running(data_folder(data)), broker)
    process = member.process
    if not member.process.alive:
        raise NotFound(f"{member.name} does not run", hint=f"`ottla start {member.name}` starts it")
    os.kill(member.process.pid, signal.SIGKILL if kill else signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while process.alive:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{member.name} still runs after {_STOP_TIMEOUT_S:g} s")
        time.sleep(_POLL_S / 4)
    write_line(f"stopped {member.name}")


class FailedStart(OttlaError):
    """A broker ended before it served."""


def _member(state: "ClusterState", name: str) -> "Member":
    wanted = f"broker-{name}" if name.isdigit() else name
    for member in state.brokers:
        if member.name == wanted:
            return member
    there = ", ".join(member.name for member in state.brokers)
    raise NotFound(f"there is no broker {name!r}", hint=f"there are {there}")


def status(data: DataFolder = None, output_format: Format = None) -> int:
    """Show the processes of the cluster that `ottla up` started; ends with 1 unless all is well."""
    state = _running(data_folder(data))
    controller = _find_controller(state)
    rows = [_row(member, controller) for member in (*state.zookeepers, *state.brokers)]
    columns = ("Process", "Pid", "Address", "Admin", "Rack", "State", "Controller")
    value = {
        "bootstrap": state.bootstrap,
        "zookeeper": state.zookeeper,
        "supervisor": state.owner.pid,
        "controller": controller,
        "processes": [dict(zip(map(str.lower, columns), row, strict=True)) for row in rows],
    }
    show([Table(columns, rows)], value, output_format)
    flush()
    return 0 if all(row[5] in ("ready", "running") for row in rows) and controller is not None else FAILED


def data_folder(given: Path | None) -> Path:
    """Where a local cluster is kept: as told, else where a user's programs keep their state."""
    if given is not None:
        return given.resolve()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ottla"


class _Stopped:
    """Whether SIGTERM came, which must not tear a cluster that is just starting, or Ctrl-C, which may."""

    def __init__(self) -> None:
        self.told = False
        self.by_keyboard = False
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, number: int, frame: object) -> None:
        self.told = True


def _wait(cluster: "LocalCluster", stopped: _Stopped) -> None:
    """Until somebody wants the end; a broker that ends by itself is told, once."""
    dead: set[int] = set()
    try:
        while not stopped.told:
            time.sleep(_POLL_S)
            _start_asked(cluster, dead)
            for broker_id in cluster.brokers:
                if broker_id not in dead and not cluster.alive(broker_id):
                    dead.add(broker_id)
                    show_error(f"broker {broker_id} has ended", f"its log is {cluster.log_path(broker_id)}")
    except KeyboardInterrupt:
        stopped.by_keyboard = True


def _start_asked(cluster: "LocalCluster", dead: set[int]) -> None:
    """`ottla start broker-2` leaves a file: brokers must be children of whoever keeps the cluster."""
    from ottla.local.state import save_state

    for broker_id in cluster.brokers:
        asked = cluster.folder / f"{START_PREFIX}broker-{broker_id}"
        if not asked.exists():
            continue
        try:
            if not cluster.alive(broker_id):
                cluster.start(broker_id)
            dead.discard(broker_id)
        except OttlaError as error:
            show_error(f"broker {broker_id} was not started: {error}")
        finally:
            save_state(cluster)
            asked.unlink(missing_ok=True)


def _tell(state: "ClusterState", data: Path | None, ending: str) -> None:
    option = f" --data {data}" if data is not None else ""
    bootstrap = "" if "127.0.0.1:9092" in state.bootstrap.split(",") else f" -b {state.bootstrap}"
    lines = [f"{member.name:<12} {member.address}" for member in state.zookeepers]
    lines += [
        f"{member.name:<12} {member.address}  {member.admin_url}/metrics  {member.rack}" for member in state.brokers
    ]
    lines += [
        "",
        "The cluster is up. Try:",
        f"  ottla topic create hello -p 3{bootstrap}",
        f"  echo world | ottla produce hello{bootstrap}",
        f"  ottla consume hello -e{bootstrap}",
        f"  ottla status{option}",
        ending,
    ]
    write_line("\n".join(lines))
    flush()


def _start_in_background(
    folder: Path, brokers: int, zookeepers: int, racks: int, port: int, properties: dict[str, str]
) -> None:
    from ottla.local.errors import LocalClusterError, last_lines
    from ottla.local.state import load_state

    was_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if load_state(folder) is not None:
        raise LocalClusterError(f"a cluster runs in {folder} already", hint=f"`ottla status --data {folder}` shows it")
    log_path = folder / UP_LOG
    command = [sys.executable, "-m", "ottla.cli", "up", "--data", str(folder), "--port", str(port)]
    command += ["--brokers", str(brokers), "--zookeepers", str(zookeepers), "--racks", str(racks)]
    command += [word for key, value in properties.items() for word in ("-o", f"{key}={value}")]
    with log_path.open("wb") as log_file:
        supervisor = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, start_new_session=True
        )
    deadline = time.monotonic() + _START_TIMEOUT_S
    while (state := load_state(folder)) is None:
        if supervisor.poll() is not None:
            told = last_lines(log_path)
            if not was_there and [path.name for path in folder.iterdir()] == [UP_LOG]:  # it did not even begin
                log_path.unlink()
                folder.rmdir()
            raise LocalClusterError(f"the cluster did not start:\n{told}")
        if time.monotonic() > deadline:
            supervisor.terminate()
            raise TimeoutError(f"the cluster was not up after {_START_TIMEOUT_S:g} s; its log is {log_path}")
        time.sleep(_POLL_S / 4)
    _tell(state, folder, f"`ottla down --data {folder}` stops it.")


def _running(folder: Path) -> "ClusterState":
    from ottla.local.state import load_state

    state = load_state(folder)
    if state is None:
        raise NotFound(f"no cluster runs in {folder}", hint="`ottla up` starts one; --data names another folder")
    return state


def _row(member: "Member", controller: int | None) -> tuple[object, ...]:
    from ottla.local.broker import why_not_ready

    if not member.process.alive:
        state = "ended"
    elif member.admin_url is None:
        state = "running"
    else:
        missing = why_not_ready(member.admin_url)
        state = "ready" if missing is None else f"not ready: {missing}"
    is_controller = "yes" if member.name == f"broker-{controller}" else ""
    return (member.name, member.process.pid, member.address, member.admin_url, member.rack, state, is_controller)


def _find_controller(state: "ClusterState") -> int | None:
    from ottla.cli.connection import open_admin
    from ottla.wire.errors import OttlaError

    try:
        with open_admin(state.bootstrap, 2.0) as admin:
            controller = admin.describe_cluster(timeout=5.0).controller
    except OttlaError:
        return None
    return controller if controller >= 0 else None
