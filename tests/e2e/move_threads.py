# SPDX-License-Identifier: MIT
"""move_threads.py PID...: move all threads of the processes from CPU to CPU, until killed."""
import os
import random
import sys

cpus = sorted(os.sched_getaffinity(0))
everywhere = set(cpus)


def threads():
    for pid in sys.argv[1:]:
        try:
            yield from map(int, os.listdir(f"/proc/{pid}/task"))
        except FileNotFoundError:
            pass


while True:
    tids = list(threads())
    for _ in range(200):
        for tid in tids:
            try:
                os.sched_setaffinity(tid, random.choice([{random.choice(cpus)}, {random.choice(cpus)}, everywhere]))
            except ProcessLookupError:
                pass
