"""Locks, limits and leaders from `coord serve`. One file, the standard library alone, Python 3.9 or later: copy it.

    client = Coord("http://127.0.0.1:8470", token="...")

    with client.lock("backup", ttl=30, wait=10) as lock:
        for part in parts:
            lock.check()            # raises Lost when the lock is held no more
            write(part, lock.token)

    if client.take("supplier", 5).allowed:
        call_supplier()

What you may believe: you hold a lock until `lock.deadline` on the clock of `now()`, which is the time when a request was
sent plus what its answer says is left, the latest of all answers. Nobody else is granted the key before, even if the
server, its machine or the store has failed, if your clock and theirs drift apart by less than 1% of the TTL. If your
process may be paused between a check and a write, let what you write to refuse a `lock.token` that is smaller than one
that it has seen: each later holder's is greater.

All times are in seconds. Everything here is safe for use by several threads.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Sequence

__all__ = ["Coord", "Error", "Locked", "Lock", "Lost", "Taken", "Unavailable", "now"]

# CLOCK_MONOTONIC stands still on Linux while the machine sleeps, and leases do not. Elsewhere it does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> float:
    """The time on a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Error(Exception):
    """What coord serve has refused. `code` is for programs; docs/serve.md has a table of them."""

    def __init__(self, code: str, message: str, status: int = 0, retry_after: float = 0.0, holder: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.status, self.retry_after, self.holder = code, status, retry_after, holder


class Locked(Error):
    """Someone else holds the key, and did so for as long as you wanted to wait."""


class Lost(Error):
    """You hold the lock no more, and someone else may have it."""


class Unavailable(Error):
    """No answer, or the store does not answer. What was asked for may have been done."""


def _error(status: int, answer: Any) -> Error:
    e = answer.get("error", {}) if isinstance(answer, dict) else {}
    code = str(e.get("code", "internal"))
    kind = {409: Lost, 423: Locked, 503: Unavailable}.get(status, Error)
    return kind(code, str(e.get("message", "")), status, e.get("retry_after_ms", 0) / 1000, e.get("holder", ""))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Taken:
    """What a take came to. A denial is an answer, and no error."""

    allowed: bool
    granted: int
    retry_after: float  # after a denial: when to try again
    degraded: str  # not "": the store did not answer, and the failure policy has admitted
    limits: Sequence[dict[str, Any]]


class Coord:
    """A server: http://host:port, https://host:port or unix:/path."""

    def __init__(
        self, url: str, token: Optional[str] = None, *, timeout: float = 10.0, max_wait: float = 60.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        """timeout is for an answer, without what the request may wait. max_wait is serve.max_wait of the server. tls
        has the authority of the server, and your certificate, where those of the system do not do."""
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in ("http", "https", "unix"):
            raise ValueError(f"{url!r}: want http://host:port, https://host:port or unix:/path")
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = "Bearer " + token
        self.timeout, self.max_wait, self._tls = timeout, max_wait, tls

    def lock(
        self, key: str | Sequence[str], *, ttl: float = 30.0, wait: Optional[float] = 0.0, fair: bool = False,
        mode: str = "exclusive", permits: int = 0, weight: int = 0, name: str = "",
    ) -> Lock:
        """Holds a key, or several of them, all or none, and renews until you release it; use it in a `with`.

        wait 0 is one attempt, and None has no end. Raises Locked if someone else has held the key for so long, and
        Unavailable. An acquisition whose answer was lost is sent again, and finds the same hold."""
        ask: dict[str, Any] = {"key": key} if isinstance(key, str) else {"keys": list(key)}
        ask.update(ttl_ms=round(ttl * 1000), fair=fair, mode=mode, name=name, permits=permits, weight=weight)
        ask = {k: v for k, v in ask.items() if v}
        until = float("inf") if wait is None else now() + wait
        while True:
            left = max(min(until - now(), self.max_wait), 0.0)
            try:
                return self._acquire({**ask, "wait_ms": int(left * 1000), "request_id": secrets.token_hex(16)}, left)
            except Locked:
                if now() >= until:
                    raise
            except Unavailable:
                if now() >= until:
                    raise
                time.sleep(0.2)

    def _acquire(self, ask: dict[str, Any], wait: float) -> Lock:
        end = now() + wait + self.timeout
        while True:
            sent = now()
            try:
                answer = self._call("/v1/locks/acquire", ask, max(end - sent, 0.1))
            except Unavailable:
                if now() >= end:
                    raise  # a hold that was granted ends after its TTL
                time.sleep(0.1)
                continue
            except Lost as e:
                raise Unavailable(e.code, "the hold ended before its answer came") from e
            if now() < sent + answer["ttl_ms"] / 3000:
                return Lock(self, sent, answer)
            # The time that it waited is lost to what may be believed: the same request is answered at once now.
            if now() >= end:
                raise Unavailable("no_answer", "answers take longer than a third of the TTL")

    def take(
        self, key: str = "", n: int = 1, *, limit: str = "", rate: str = "", rule: str = "",
        subject: Sequence[str] = (), at_most: bool = False, wait: float = 0.0,
    ) -> Taken:
        """Takes n permits of a limit of the configuration, or none; at_most takes as many of them as there are.

        It waits for them for so long, at most max_wait. After Unavailable they may have been taken: it is not sent
        again by itself."""
        ask: dict[str, Any] = {
            "key": key, "limit": limit, "rate": rate, "rule": rule, "subject": list(subject), "at_most": at_most,
            "wait_ms": round(wait * 1000),
        }
        a = self._call("/v1/limits/take", {"n": n, **{k: v for k, v in ask.items() if v}}, wait + self.timeout)
        return Taken(a["allowed"], a["granted"], a.get("retry_after_ms", 0) / 1000, a.get("degraded", ""), a["limits"])

    def wait(self, key: str = "", n: int = 1, **which: Any) -> Taken:
        """Takes n permits when they are there, without an end. The arguments are those of take."""
        while True:
            taken = self.take(key, n, wait=self.max_wait, **which)
            if taken.allowed:
                return taken

    def lead(
        self, key: str, run: Callable[[Lock], object], *, ttl: float = 15.0, stop: Optional[threading.Event] = None,
        **which: Any,
    ) -> None:
        """Runs run(lock) whenever this process leads: who leads is who holds the key.

        run has to end when `lock.lost` is set, at the latest at `lock.deadline`; then this process waits to lead
        again. When run ends by itself, that is the end, and another process can lead at once. An error of run is
        raised. `stop` is looked at between attempts of a second; run has to look at it too."""
        while stop is None or not stop.is_set():
            try:
                lock = self.lock(key, ttl=ttl, wait=1.0 if stop else None, **which)
            except (Locked, Unavailable):
                continue
            try:
                with lock:
                    run(lock)
                return
            except Lost:
                pass

    def watch(self, key: str, mode: str = "") -> Iterator[Optional[list[dict[str, Any]]]]:
        """Yields who holds the key, now and up to five seconds after each change, and None when nobody knows: the store
        or the server does not answer. What it says may be out of date: a leader goes by its own lock alone."""
        query = urllib.parse.urlencode({"key": key, **({"mode": mode} if mode else {})})
        known = True
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                for event, data in self._events("/v1/locks/watch?" + query):
                    known = event == "holders"
                    yield data["holders"] if known else None
            if known:
                known = False
                yield None
            time.sleep(0.5)

    def _events(self, path: str) -> Iterator[tuple[str, Any]]:
        connection = self._connect(self.timeout)  # something comes each second
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                e = _error(response.status, json.loads(response.read()))
                if isinstance(e, Unavailable):
                    return
                raise e
            event = ""
            for line in response:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    event = text[len("event: "):]
                elif text.startswith("data: "):
                    yield event, json.loads(text[len("data: "):])
        finally:
            connection.close()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._url.scheme == "unix":
            return _UnixConnection(self._url.path, timeout)
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(self._url.netloc, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._url.netloc, timeout=timeout)

    def _call(self, path: str, ask: dict[str, Any], timeout: float) -> dict[str, Any]:
        connection = self._connect(timeout)
        try:
            connection.request("POST", path, json.dumps(ask), self._headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise Unavailable("no_answer", f"{type(e).__name__}: {e}") from e
        finally:
            connection.close()
        if response.status != 200:
            raise _error(response.status, answer)
        return dict(answer)


class Lock:
    """A lock that is held and renewed. Coord.lock makes it."""

    id: str
    tokens: dict[str, int]  # of each key
    deadline: float  # on the clock of now(); it never moves back
    lost: threading.Event  # set when the lock is held no more, and you did not release it

    def __init__(self, client: Coord, sent: float, answer: dict[str, Any]) -> None:
        self._client, self.id = client, answer["id"]
        self.tokens = {held["key"]: int(held["token"]) for held in answer["locks"]}
        self.deadline, self.lost, self.draining = float("-inf"), threading.Event(), False
        self._mutex, self._released, self._why = threading.Lock(), threading.Event(), ""
        self._heard(sent, answer)
        threading.Thread(target=self._renew, name="coord " + self.id, daemon=True).start()

    @property
    def token(self) -> int:
        """The fencing token of the only key: each later holder's is greater."""
        (token,) = self.tokens.values()
        return token

    def valid(self) -> bool:
        """Whether you hold the lock now."""
        return now() < self.deadline and not self.lost.is_set() and not self._released.is_set()

    def check(self) -> None:
        """Raises Lost unless you hold the lock now."""
        if not self.valid():
            raise Lost("not_held" if self._released.is_set() else "lost", self._why or "you released it, or its time is over")

    def release(self) -> bool:
        """Gives the lock back. You hold nothing from when it is called, whatever comes of it.

        It is True if the key is free, and False if it becomes free later, at the latest a TTL after the last renewal.
        Raises Lost if the lock ended before, so that someone else may have had it since."""
        with self._mutex:
            held, first = self.valid(), not self._released.is_set()
            self._released.set()
        end = max(min(now() + self._client.timeout, self.deadline), now() + 1.0)
        freed = False
        while first:
            try:
                freed = bool(self._client._call("/v1/locks/release", {"id": self.id}, max(end - now(), 0.1))["freed"])
                break
            except Lost as e:
                held = held and e.code == "not_held"  # another run of the server does not know it
                break
            except Unavailable:
                if now() >= end:
                    break
                time.sleep(0.1)
        if first and not held:
            raise Lost("lost", self._why or "its time was over before the release")
        return freed

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.release()
        except Lost:
            if kind is None:
                raise

    def _heard(self, sent: float, answer: dict[str, Any]) -> None:
        """Notes what an answer to a request that was sent then allows to believe."""
        self.deadline = max(self.deadline, sent + answer["remaining_ms"] / 1000)
        self.draining = answer.get("draining", False)
        self._ttl = answer["ttl_ms"] / 1000

    def _renew(self) -> None:
        """Is a thread. It ends with the lock."""
        next_at = self.deadline - self._ttl * 2 / 3
        while not self._released.wait(max(min(next_at, self.deadline) - now(), 0.0)):
            sent = now()
            if sent >= self.deadline:
                return self._end("its time is over: no renewal was answered in time")
            try:
                answer = self._client._call("/v1/locks/renew", {"id": self.id}, min(self._ttl / 3, self.deadline - sent))
            except Lost as e:
                return self._end(str(e))
            except Error:
                next_at = now() + min(self._ttl / 20, 1.0)  # it changes nothing: send it again
                continue
            self._heard(sent, answer)
            next_at = sent + self._ttl / 3

    def _end(self, why: str) -> None:
        with self._mutex:
            if not self._released.is_set():
                self._why = why
                self.lost.set()
