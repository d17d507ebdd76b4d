#!/usr/bin/env python3
"""A cable that delays frames, and loses some: two network cards (TAP devices) whose ends are held by this program.

    bad_cable.py CARD CARD DELAY_MS LOSS SEED

What is sent into one card comes out of the other DELAY_MS later, unless it is lost (LOSS of 1, in each direction). The cards
carry no offloading, so frames are whole and of ordinary size, and each one is lost or not by itself. Prints "up" when both
cards are there; they go with the program. For kernels without netem.
"""

import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_LONGEST_FRAME = 65536
_MOST_WAITING = 1000  # frames; then the cable is full, and loses what comes


def open_card(name):
    card = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(card, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return card


def carry(cards, delay, loss, lost):
    """Until it is killed. `lost()` draws a number of [0, 1) for each frame."""
    other = {cards[0]: cards[1], cards[1]: cards[0]}
    on_the_way = []
    order = itertools.count()
    while True:
        patience = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        for card in select.select(cards, [], [], patience)[0]:
            frame = os.read(card, _LONGEST_FRAME)
            if lost() >= loss and len(on_the_way) < _MOST_WAITING:
                heapq.heappush(on_the_way, (time.monotonic() + delay, next(order), other[card], frame))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, _, card, frame = heapq.heappop(on_the_way)
            try:
                os.write(card, frame)
            except OSError:
                pass  # that card is down


def main():
    names, delay, loss, seed = sys.argv[1:3], float(sys.argv[3]) / 1000, float(sys.argv[4]), int(sys.argv[5])
    cards = [open_card(name) for name in names]
    print("up", flush=True)
    carry(cards, delay, loss, random.Random(seed).random)


if __name__ == "__main__":
    main()
