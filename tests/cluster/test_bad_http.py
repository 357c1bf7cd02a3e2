"""The admin port: whatever a browser, a scanner or an attacker sends there is a 4xx or a hang-up (H2, H3, H5, H7)."""

import contextlib
import re
import socket

import pytest

from tests.support.machine import scaled
from tests.support.victim import Victim, within

pytestmark = pytest.mark.cluster


def exchange(victim: Victim, data: bytes) -> bytes:
    """Send it and read until the server hangs up, or has said nothing for a while."""
    with socket.create_connection(victim.admin_address, timeout=scaled(10)) as sock:
        got = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            sock.sendall(data)
            sock.settimeout(0.3)
            while chunk := sock.recv(65536):
                got += chunk
        return got


def statuses(answer: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"^HTTP/1\.[01] (\d{3})", answer, re.MULTILINE)]


HOST = b"Host: localhost\r\n"

GARBAGE = {
    "random": bytes(range(256)) * 4,
    "nothing but ends": b"\r\n" * 1000,
    "no version": b"GET /healthz\r\n\r\n",
    "bad version": b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n",
    "http2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    "long line": b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "many headers": b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(100_000)) + b"\r\n",
    "negative length": b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "two lengths": b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST /healthz HTTP/1.1\r\n" + HOST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST /healthz HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "huge chunk": b"POST /healthz HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc",
    "huge length": b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\nabc",
    "header without colon": b"GET /healthz HTTP/1.1\r\nnonsense\r\n\r\n",
    "nul in header": b"GET /healthz HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    "space before colon": b"GET /healthz HTTP/1.1\r\nX : a\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_a_client_error_or_a_hang_up(unharmed: Victim, name: str) -> None:
    codes = statuses(exchange(unharmed, GARBAGE[name]))
    assert all(400 <= code < 500 for code in codes), codes
    assert unharmed.http("GET", "/healthz") == (200, "ok\n")


PATHS = [
    "/nothing", "//healthz", "/healthz/", "/../healthz", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/healthz%00",
    "/healthz%0d%0aX-Forged:%201", "/static/../../etc/passwd", "/%ff%fe", "/%", "/%zz", "/healthz;a=b",
    "/\\..\\", "/.git/config",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_path_tricks_find_nothing(unharmed: Victim, path: str) -> None:
    answer = exchange(unharmed, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    (code,) = statuses(answer)
    assert code in (400, 404)
    assert b"X-Forged" not in answer.partition(b"\r\n\r\n")[0]
    assert b"root:" not in answer


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_no_method_but_reading_exists(unharmed: Victim, method: str, path: str) -> None:
    request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
    (code,) = statuses(exchange(unharmed, request))
    assert code in (400, 405)


def test_connect_makes_no_tunnel(unharmed: Victim) -> None:
    answer = exchange(unharmed, b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n")
    assert all(400 <= code < 500 for code in statuses(answer))


def test_a_large_body_is_refused_or_ignored(unharmed: Victim) -> None:
    before = unharmed.rss_mb()
    head = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n"
    codes = statuses(exchange(unharmed, head + bytes(50 * 1024 * 1024)))
    assert all(400 <= code < 500 for code in codes)
    assert unharmed.rss_mb() < before + 32


def test_idle_sockets_are_hung_up_on_beyond_a_number_and_keep_nobody_out(unharmed: Victim) -> None:
    sockets = [socket.create_connection(unharmed.admin_address, timeout=scaled(10)) for _ in range(700)]
    try:
        for sock in sockets:
            sock.setblocking(False)
        for sock in sockets[::2]:
            sock.send(b"GET /healthz HT")
        assert unharmed.http("GET", "/readyz") == (200, "ready\n")
        within(lambda: sum(map(was_closed, sockets)) >= 200, "nobody was hung up on")
        assert unharmed.http("GET", "/readyz") == (200, "ready\n")
    finally:
        for sock in sockets:
            sock.close()


def was_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
