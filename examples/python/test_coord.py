"""Tests of coord.py against `coord serve` as a process: COORD is the command, and COORD_URL the store."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from typing import Any, Iterator
from unittest import mock

import coord

LIMITS = "limits: {supplier: 3/1h, quick: 2/1s}\n"
LONG = 60.0  # for what has to come


def eventually(done: Any) -> None:
    end = time.monotonic() + LONG
    while not done():
        if time.monotonic() > end:
            raise AssertionError("it does not come")
        time.sleep(0.01)


class Server:
    """A coord serve that runs as a process."""

    def __init__(self, listen: str = "127.0.0.1:0", section: str = LIMITS) -> None:
        file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        file.write(section)
        file.flush()
        self._log, self._file = tempfile.TemporaryFile("w+"), file
        self.process = subprocess.Popen(
            [os.environ.get("COORD", "coord"), "serve", "--config", file.name], stdout=subprocess.PIPE, stderr=self._log,
            text=True, env={**os.environ, "COORD_SERVE_LISTEN": listen},
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self._log.seek(0)
            raise AssertionError(f"{line!r}, {self._log.read()}")
        self.address = line[len("listening on "):].strip()

    @property
    def url(self) -> str:
        return "http://" + self.address

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._log.close()
        self._file.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Relay:
    """Passes requests on, and loses some of their answers, lose is how many of the next, or delays all of them."""

    def __init__(self, to: str) -> None:
        host, port = to.rsplit(":", 1)
        self._to, self.lose, self.lost, self.delay = (host, int(port)), 0, 0, 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # until it is closed
            while True:
                conn, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(conn,), daemon=True).start()

    def _relay(self, conn: socket.socket) -> None:
        with conn, socket.create_connection(self._to) as server, contextlib.suppress(OSError):
            threading.Thread(target=self._copy, args=(conn, server), daemon=True).start()
            first = server.recv(1 << 16)
            time.sleep(self.delay)
            if first and self.lose > 0:
                self.lose -= 1
                self.lost += 1
                conn.shutdown(socket.SHUT_RDWR)
                return
            conn.sendall(first)
            self._copy(server, conn)

    @staticmethod
    def _copy(a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := a.recv(1 << 16):
                b.sendall(data)

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def relay(to: str) -> Iterator[Relay]:
    r = Relay(to)
    try:
        yield r
    finally:
        r.close()


class TestCoord(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.addClassCleanup(cls.server.kill)

    def setUp(self) -> None:
        self.key = uuid.uuid4().hex
        self.client = coord.Coord(self.server.url)

    def test_lock(self) -> None:
        with self.client.lock(self.key) as lock:
            lock.check()
            self.assertTrue(lock.valid())
            self.assertLessEqual(lock.deadline, coord.now() + 30)
            with self.assertRaises(coord.Locked):
                self.client.lock(self.key)
        self.assertFalse(lock.valid())
        self.assertFalse(lock.lost.is_set())
        with self.assertRaises(coord.Lost):
            lock.check()
        again = self.client.lock(self.key)
        self.assertGreater(again.token, lock.token)
        self.assertTrue(again.release())
        self.assertFalse(again.release())  # it was given back before

    def test_waits(self) -> None:
        self.client.max_wait = 0.2  # so that it asks again
        held = self.client.lock(self.key)
        threading.Timer(0.5, held.release).start()
        with self.client.lock(self.key, wait=None) as lock:
            self.assertGreater(lock.token, held.token)

    def test_several_and_modes(self) -> None:
        with self.client.lock([self.key + "b", self.key + "a"]) as both:
            self.assertEqual(sorted(both.tokens), [self.key + "a", self.key + "b"])
            with self.assertRaises(ValueError):
                both.token
        with self.client.lock(self.key, mode="read"), self.client.lock(self.key, mode="read"):
            with self.assertRaises(coord.Locked):
                self.client.lock(self.key, mode="write")
        with self.client.lock(self.key, mode="permits", permits=3, weight=2):
            with self.assertRaises(coord.Locked):
                self.client.lock(self.key, mode="permits", permits=3, weight=2)

    def test_renews(self) -> None:
        with self.client.lock(self.key, ttl=30) as lock:
            first = lock.deadline
            eventually(lambda: lock.deadline > first)
            self.assertLessEqual(lock.deadline, coord.now() + 30)

    def test_lost_answers(self) -> None:
        with relay(self.server.address) as r:
            client = coord.Coord(r.url)
            r.lose = 3
            lock = client.lock(self.key)
            self.assertEqual(r.lost, 3)
            lock.check()
            r.lose = 2
            lock.release()
            self.assertEqual(r.lost, 5)
            self.client.lock(self.key).release()
            r.lose = 1
            with self.assertRaises(coord.Unavailable):
                client.take("supplier", limit="supplier")  # it is not sent again
            self.assertEqual(r.lost, 6)

    def test_late_answers(self) -> None:
        with relay(self.server.address) as r:
            r.delay = 0.7
            with self.assertRaises(coord.Unavailable):
                coord.Coord(r.url, timeout=5).lock(self.key, ttl=0.5)  # there is nothing to believe
            with coord.Coord(r.url).lock(self.key, wait=LONG, ttl=30) as lock:
                lock.check()

    def test_server_killed(self) -> None:
        with Server() as server, Server() as other:
            lock = coord.Coord(server.url).lock(self.key, ttl=2)
            server.process.kill()
            self.assertTrue(lock.lost.wait(LONG))
            self.assertFalse(lock.valid())
            with coord.Coord(other.url).lock(self.key, wait=LONG) as following:
                self.assertGreater(following.token, lock.token)
                self.assertGreater(coord.now(), lock.deadline)
            with self.assertRaises(coord.Lost):
                lock.release()

    def test_loss_ends_the_with(self) -> None:
        with Server() as server:
            with self.assertRaises(coord.Lost):
                with coord.Coord(server.url, timeout=1).lock(self.key, ttl=1) as lock:
                    server.process.kill()
                    lock.lost.wait(LONG)
            with self.assertRaises(ZeroDivisionError):  # the error of the body is more
                with self.client.lock(self.key, wait=LONG, ttl=30) as lock:
                    lock._end("a test")
                    raise ZeroDivisionError

    def test_frozen_client(self) -> None:
        held = "import coord, sys; l = coord.Coord(sys.argv[1]).lock(sys.argv[2], ttl=2); print(l.token, flush=True); input(); print(l.valid())"
        with subprocess.Popen(
            [sys.executable, "-c", held, self.server.url, self.key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as child:
            assert child.stdin and child.stdout
            token = int(child.stdout.readline())
            child.send_signal(signal.SIGSTOP)
            with self.client.lock(self.key, wait=LONG) as lock:
                self.assertGreater(lock.token, token)
                child.send_signal(signal.SIGCONT)
                child.stdin.write("\n")
                child.stdin.flush()
                self.assertEqual(child.stdout.readline(), "False\n")

    def test_stepped_clock(self) -> None:
        day = 86400.0
        for step in (day, -day):
            with mock.patch("time.time", lambda: 1e9 + step), mock.patch("time.monotonic", lambda: 1e6 + step):
                before = coord.now()
                with self.client.lock(self.key) as lock:
                    lock.check()
                    self.assertLess(lock.deadline, before + 31)

    def test_take(self) -> None:
        first = self.client.take(self.key, 2, limit="supplier")
        self.assertEqual((first.allowed, first.granted, first.limits[0]["remaining"]), (True, 2, 1))
        second = self.client.take(self.key, 2, limit="supplier")
        self.assertFalse(second.allowed)
        self.assertGreater(second.retry_after, 0)
        self.assertEqual(self.client.take(self.key, 2, limit="supplier", at_most=True).granted, 1)
        with self.assertRaises(coord.Error) as refused:
            self.client.take(self.key, 4, limit="supplier")
        self.assertEqual(refused.exception.code, "exceeds_burst")

    def test_take_waits(self) -> None:
        self.client.max_wait = 0.1
        began = coord.now()
        for _ in range(5):
            self.assertTrue(self.client.wait(self.key, limit="quick").allowed)
        self.assertGreaterEqual(coord.now() - began, 1.9)  # two a second

    def test_lead(self) -> None:
        with Server() as one, Server() as two:
            led, done = [], threading.Event()

            def lead(server: Server, n: int, ttl: float) -> None:
                def run(lock: coord.Lock) -> None:
                    led.append(n)
                    done.wait() if len(led) > 1 else lock.lost.wait()

                coord.Coord(server.url, timeout=1).lead(self.key, run, ttl=ttl)

            threads = [threading.Thread(target=lead, args=(one, 1, 1.0), daemon=True)]
            threads[0].start()
            eventually(lambda: led == [1])
            threads.append(threading.Thread(target=lead, args=(two, 2, 60.0), daemon=True))
            threads[1].start()
            address = one.address
            one.process.kill()  # the first leads no more, and waits to lead again
            eventually(lambda: led == [1, 2])
            with Server(address):
                done.set()
                eventually(lambda: led[:3] == [1, 2, 1])
                for t in threads:
                    t.join(LONG)
                    self.assertFalse(t.is_alive())

    def test_watch(self) -> None:
        with Server(section="lock: {ttl: 1s}") as server:  # so that it looks often
            seen = coord.Coord(server.url).watch(self.key)
            self.assertEqual(next(seen), [])
            with self.client.lock(self.key, name="me"):
                held = next(seen)
                self.assertEqual([h["name"] for h in held or []], ["me"])
            self.assertEqual(next(seen), [])
            server.process.kill()
            self.assertIsNone(next(seen))
            with self.client.lock(self.key, name="unseen"), Server(server.address):
                self.assertEqual([h["name"] for h in next(seen) or []], ["unseen"])
            seen.close()

    def test_callers(self) -> None:
        with tempfile.TemporaryDirectory() as dir:
            section = "serve: {callers: [{name: web, token: a-token-of-the-web, allow: [{rights: [lock]}]}]}\n"
            with Server("unix:" + dir + "/socket", section):
                url = "unix:" + dir + "/socket"
                with coord.Coord(url, "a-token-of-the-web").lock(self.key):
                    pass
                with self.assertRaises(coord.Error) as refused:
                    coord.Coord(url, "a-token-of-another").lock(self.key)
                self.assertEqual(refused.exception.code, "unauthenticated")
                with self.assertRaises(coord.Error) as refused:
                    next(coord.Coord(url, "a-token-of-the-web").watch(self.key))
                self.assertEqual(refused.exception.code, "forbidden")

    def test_no_server(self) -> None:
        with self.assertRaises(coord.Unavailable):
            coord.Coord("http://127.0.0.1:1", timeout=0.2).lock(self.key)
        with self.assertRaises(ValueError):
            coord.Coord("127.0.0.1:8470")


if __name__ == "__main__":
    unittest.main()
