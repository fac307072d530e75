"""A caller of coord serve by coord.py, for TestServeAttack: URLS KEYS SEED LATE."""

import random
import sys
import time

import coord


def main(urls: str, keys: str, seed: str, late: str) -> None:
    dice = random.Random(seed)
    clients = [coord.Coord(url, timeout=2) for url in urls.split(",")]
    while True:
        key, client = dice.choice(keys.split(",")), dice.choice(clients)
        try:
            hold(client.lock(key, ttl=2, wait=3), key, dice, float(late.rstrip("s")))
        except coord.Error:
            time.sleep(0.05)


def hold(lock: coord.Lock, key: str, dice: random.Random, late: float) -> None:
    end, told = coord.now() + dice.uniform(0, 3), 0.0
    while lock.valid() and coord.now() < end:
        if lock.deadline != told:
            told = lock.deadline
            say(f"{key} held {lock.token} at {coord.now():.9f} until {told + late:.9f}")
        time.sleep(0.02)
    say(f"{key} released {lock.token} at {coord.now():.9f}")
    lock.release()


def say(what: str) -> None:
    print("coord-lock: " + what, flush=True)


main(*sys.argv[1:])
