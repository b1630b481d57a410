#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lossy.py PORT LOSS SEED - a bad network without any privilege: forwards 127.0.0.2 to 127.0.0.1.

TCP and UDP of the one port; of the datagrams it drops the share LOSS (0.01: 1 %), each way by
itself. Says "ready"; on SIGTERM it says how many of each way have passed and were lost.
"""
import random
import select
import signal
import socket
import sys

UP, DOWN = 0, 1


def main():
    port, loss, generator = int(sys.argv[1]), float(sys.argv[2]), random.Random(int(sys.argv[3]))
    here, there = ("127.0.0.2", port), ("127.0.0.1", port)
    passed, lost = [0, 0], [0, 0]
    listener = socket.create_server(here)
    front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    front.bind(here)
    for option in socket.SO_RCVBUF, socket.SO_SNDBUF:
        front.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    peers, backs, clients = {}, {}, {}  # TCP: the other end; UDP: by client; by the socket behind

    def passes(way):
        is_lost = generator.random() < loss
        (lost if is_lost else passed)[way] += 1
        return not is_lost

    def end(*_):
        print(f"up: {passed[UP]} passed, {lost[UP]} lost;",
              f"down: {passed[DOWN]} passed, {lost[DOWN]} lost", flush=True)
        sys.exit(0)

    def serve(one):
        if one is listener:
            client, _ = listener.accept()
            server = socket.create_connection(there)
            peers[client], peers[server] = server, client
        elif one is front:
            data, client = front.recvfrom(65536)
            if client not in backs:
                backs[client] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                backs[client].connect(there)
                clients[backs[client]] = client
            if passes(UP):
                backs[client].send(data)
        elif one in clients:
            data = one.recv(65536)
            if passes(DOWN):
                front.sendto(data, clients[one])
        elif one in peers:
            try:
                data = one.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                peers[one].sendall(data)
            else:  # the end is passed on, and what the other side still says
                try:
                    peers.pop(one).shutdown(socket.SHUT_WR)
                except OSError:
                    pass

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    while True:
        for one in select.select([listener, front, *clients, *peers], [], [])[0]:
            try:
                serve(one)
            except ConnectionError:
                pass  # who is gone hears nothing


main()
