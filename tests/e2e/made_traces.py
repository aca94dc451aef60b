"""Traces that are made up, for tests/record/write_trace: what a page or a file must then have is known.

made_traces.py small|many|hostile|hung|flows|repeated ARG...: print such a trace for the driver."""

import json
import random
import subprocess
import sys

SLICE, INSTANT, COUNTER = range(3)
PROCESS, THREAD, GROUP, COUNTERS, SAMPLES = range(5)
CATEGORIES = ["probe", "pair", "function", "gc", "wait", "ready", "cpu"]
PROBE, PAIR, CALL, GC, WAIT, READY, SAMPLE = range(7)
START = 12345678901234567  # nanoseconds: more than JavaScript has exact numbers for


class MadeTrace:
    def __init__(self, **about):
        self.about = {"tool": "made up", "why": None, "lost": 0, "since": 0, "memory": 1 << 30, "repeat": 1, **about}
        self.tracks, self.names, self.stacks, self.events = [], [], [], []
        self.numbers = {}

    def track(self, kind, pid, tid, name):
        self.tracks.append([kind, pid, tid, name])
        return len(self.tracks) - 1

    def name(self, text):
        if text not in self.numbers:
            self.names.append(text)
            self.numbers[text] = len(self.names) - 1
        return self.numbers[text]

    def add(self, kind, track, name, category, begin, length=0, stack=0, **args):
        pairs = [part for arg, value in args.items() for part in (self.name(arg), value)]
        self.events.append([kind, track, self.name(name), category, START + begin, length, stack, pairs])

    def stack(self, name, *lines):
        self.stacks.append([name, "\n".join(lines)])
        return len(self.stacks) - 1

    def json(self):
        return json.dumps({**self.about, "tracks": self.tracks, "names": self.names, "stacks": self.stacks,
                           "events": self.events}, ensure_ascii=False)

    def write(self, driver, form, path):
        with open(path, "wb") as file:
            subprocess.run([driver, form], input=self.json().encode("utf-8", "surrogateescape"), stdout=file, check=True)

    def name_of(self, event):
        stack = self.stacks[event[6]] if event[3] in (WAIT, SAMPLE) else None
        return stack[0] if stack else self.names[event[2]]

    def args_of(self, event):
        pairs = event[7]
        return {self.names[pairs[i]]: pairs[i + 1] for i in range(0, len(pairs), 2)}

    def sums(self):
        """(name, category, kind) to (number, total, longest), of slices and instants."""
        sums = {}
        for event in self.events:
            if event[0] == COUNTER:
                continue
            key = (self.name_of(event), CATEGORIES[event[3]], event[0])
            n, total, longest = sums.get(key, (0, 0, 0))
            length = event[5] if event[0] == SLICE else 0
            sums[key] = (n + 1, total + length, max(longest, length))
        return sums


def small():
    """A service: requests that overlap, calls in calls, a wait, the collector, samples and a counter."""
    made = MadeTrace(why="slower request_start,request_done 20ms", lost=3)
    made.track(PROCESS, 42, 0, "service")
    main, worker = made.track(THREAD, 42, 42, "main"), made.track(THREAD, 42, 43, "worker")
    requests = made.track(GROUP, 42, 0, "request_start,request_done")
    heap = made.track(COUNTERS, 42, 0, "major heap (bytes)")
    samples = made.track(SAMPLES, 42, 42, "main")
    ms = 1000000
    wait = made.stack("waits: a mutex", "futex_wait", "Mutex.lock (mutex.ml:7)", "Service.handle (service.ml:90)")
    digits = made.stack("Service.digits", "Service.digits (service.ml:30)", "Service.handle (service.ml:90)")
    made.add(INSTANT, main, "request_start", PROBE, 0, id=41, path="/a")
    made.add(SLICE, main, "Service.handle", CALL, 1 * ms, 40 * ms)
    made.add(SLICE, main, "Service.parse", CALL, 2 * ms, 5 * ms, text="x=1 & y<2")
    made.add(SLICE, main, "Service.digits", CALL, 8 * ms, 20 * ms, depth=3, share=0.25)
    made.add(SLICE, main, "Service.digits", CALL, 9 * ms, 3 * ms, depth=4, share=0.5)
    made.add(SLICE, main, "gc:minor", GC, 30 * ms, 2 * ms)
    made.add(SLICE, worker, "waits: a mutex", WAIT, 3 * ms, 15 * ms, stack=wait)
    made.add(SLICE, worker, "ready, but no CPU", READY, 18 * ms, 1 * ms)
    made.add(SLICE, requests, "request_start,request_done", PAIR, 0, 45 * ms, id=41, result=2**53 + 1)
    made.add(SLICE, requests, "request_start,request_done", PAIR, 10 * ms, 50 * ms, id=42, result=-2**53 - 1)
    made.add(SLICE, requests, "request_start,request_done", PAIR, 46 * ms, 9 * ms, id=43, result=7)
    for i in range(5):
        made.add(COUNTER, heap, "", GC, 10 * i * ms, 1000000 * (i + 1))
        made.add(INSTANT, samples, "cpu", SAMPLE, (9 + 2 * i) * ms, stack=digits)
    # Two calls at one time, one in the other; and one that takes no time.
    made.add(SLICE, worker, "List.map", CALL, 20 * ms, 4 * ms)
    made.add(SLICE, worker, "List.iter", CALL, 20 * ms, 4 * ms)
    made.add(SLICE, worker, "Fun.id", CALL, 24 * ms, 0)
    # Calls of fibres overlap.
    made.add(SLICE, worker, "Fibre.a", CALL, 30 * ms, 10 * ms)
    made.add(SLICE, worker, "Fibre.b", CALL, 35 * ms, 10 * ms)
    return made


def many(n, seed=1):
    """N events of a busy service with 20 threads: nested calls, requests and hits."""
    chance = random.Random(seed)
    made = MadeTrace()
    made.track(PROCESS, 7, 0, "busy")
    threads = [made.track(THREAD, 7, 100 + i, f"worker {i}") for i in range(20)]
    requests = made.track(GROUP, 7, 0, "request_start,request_done")
    heap = made.track(COUNTERS, 7, 0, "major heap (bytes)")
    now = [0] * len(threads)
    while len(made.events) < n:
        i = chance.randrange(len(threads))
        begin = now[i] + chance.randrange(100, 20000)
        length = chance.randrange(1000, 100000)
        rid = len(made.events)
        made.add(INSTANT, threads[i], "request_start", PROBE, begin - 50, rid=rid, path=f"/item/{rid % 500}")
        made.add(SLICE, threads[i], f"Handlers.h{rid % 37}", CALL, begin, length, rid=rid)
        made.add(SLICE, threads[i], f"Db.query{rid % 5}", CALL, begin + length // 4, length // 2)
        made.add(SLICE, threads[i], "gc:minor", GC, begin + length // 2, length // 8)
        made.add(SLICE, requests, "request_start,request_done", PAIR, begin - 50, length + 60, rid=rid)
        if rid % 1000 < 5:
            made.add(COUNTER, heap, "", GC, begin, 10**7 + rid)
        now[i] = begin + length
    del made.events[n:]
    return made


def hostile():
    """Texts and numbers that formats have to escape, replace or print exactly."""
    texts = ["</script><b>", "a\u2028b\u2029c", '"quoted\\"', "\x01\x1b[31m", "not UTF-8: \udcff\udcc3", "\U0001f42b", "", "x" * 300]
    made = MadeTrace(tool="</script>", why="\udc80&", since=START + 55)
    made.track(PROCESS, 1, 0, "</script>\udcff")
    thread, group = made.track(THREAD, 1, 1, texts[4]), made.track(GROUP, 1, 0, texts[0])
    samples, heap = made.track(SAMPLES, 1, 1, texts[4]), made.track(COUNTERS, 1, 0, "heap")
    other = made.track(THREAD, 2, 2, "of a process that is not known")
    numbers = [2**53 - 1, 2**53, -2**53, -2**63, 2**63 - 1, 0.1, -0.0, 1e300, float("inf"), float("nan"), 5e-324]
    for i, text in enumerate(texts):
        made.add(SLICE, thread, f"name {text}", CALL, 50 * i, 120, **{f"arg {text}": text, "number": numbers[i], "other": numbers[-1 - i]})
        made.add(INSTANT, other, text, PROBE, 50 * i + 1, **{text: text})
        made.add(SLICE, group, text, PAIR, 50 * i, 200 - 20 * i)
        made.add(INSTANT, samples, "cpu", SAMPLE, 50 * i, stack=made.stack(f"of {i}", text, "caller"))
        made.add(COUNTER, heap, "", GC, 50 * i, numbers[i % 5])
    made.stacks.append(None)
    made.add(SLICE, thread, "unknown wait", WAIT, 2000, 10, stack=len(made.stacks) - 1)
    return made


def hung():
    """A recording that ends while a request and calls have not ended; calls in them have."""
    ms = 1000000
    made = MadeTrace(end=START + 100 * ms)
    made.track(PROCESS, 42, 0, "service")
    main, other = made.track(THREAD, 42, 42, "main"), made.track(THREAD, 42, 43, "other")
    requests = made.track(GROUP, 42, 0, "request_start,request_done")
    unended = {"did not end": "no end was seen in the recording"}
    made.add(SLICE, requests, "request_start,request_done", PAIR, 0, -1, id=41, **unended)
    made.add(SLICE, requests, "request_start,request_done", PAIR, 10 * ms, 20 * ms, id=42)
    made.add(SLICE, main, "Service.parse", CALL, 5 * ms, 3 * ms)
    made.add(SLICE, main, "Service.inner", CALL, 9 * ms, -1, **unended)
    made.add(SLICE, main, "Service.outer", CALL, 1 * ms, -1, **unended)
    # A call that began earlier ends: the one that has not ended is in another row.
    made.add(SLICE, other, "Fibre.a", CALL, 2 * ms, 20 * ms)
    made.add(SLICE, other, "Fibre.b", CALL, 4 * ms, -1, **unended)
    made.add(SLICE, other, "Fibre.c", CALL, 40 * ms, 20 * ms)
    return made


def flows():
    """Requests with keys: two threads, keys that are used again, texts and reals, and a pair within another one."""
    us = 1000
    made = MadeTrace()
    made.track(PROCESS, 1, 0, "service")
    a, b = made.track(THREAD, 1, 1, "a"), made.track(THREAD, 1, 2, "b")
    requests, queries = made.track(GROUP, 1, 0, "start,stop"), made.track(GROUP, 1, 0, "ask,answer")
    made.track(PROCESS, 2, 0, "other")
    other = made.track(THREAD, 2, 3, "other")

    def hit(thread, name, at, **args):
        made.add(INSTANT, thread, name, PROBE, at * us, **args)
        made.events[-1].append(1)

    def request(begin, end, group=requests, name="start,stop", **args):
        made.add(SLICE, group, name, PAIR, begin * us, -1 if end is None else (end - begin) * us, **args)
        made.events[-1].append(1)

    # 7 is used twice, in two threads, with a query inside; the hit of the stop is just after the slice.
    hit(a, "stop", 5, id=7)  # of a request that is not in the recording
    request(10, 50, id=7)
    hit(a, "start", 11, id=7)
    request(20, 30, queries, "ask,answer", id=7)
    hit(b, "ask", 21, id=7)
    hit(b, "answer", 31, id=7)
    hit(b, "stop", 51, id=7)
    hit(a, "alone", 60, id=7)  # between two requests
    request(70, 80, id=7)
    hit(b, "start", 70, id=7)  # at the same time as its slice
    hit(a, "stop", 80, id=7)
    hit(b, "stop", 81, id=7)  # of no request: this one has ended
    # The same value in another process, of another key, and of another type.
    hit(other, "middle", 25, id=7)
    hit(a, "middle", 25, rid=7)
    hit(a, "middle", 25, id="7")
    # A text, a real, and a request that has not ended; the hit of a stop that comes too late; a request without a hit.
    request(100, 110, id="x")
    hit(a, "start", 101, id="x")
    hit(a, "stop", 20000, id="x")
    request(100, None, id=0.5, **{"did not end": "no end was seen in the recording"})
    hit(b, "middle", 90000, id=0.5)
    request(100, 110, id=8)
    return made


def repeated(times, memory):
    """One event, TIMES times."""
    made = MadeTrace(repeat=times, memory=memory)
    made.add(INSTANT, made.track(THREAD, 1, 1, "main"), "hit", PROBE, 0)
    return made


def main():
    made = {"small": small, "many": many, "hostile": hostile, "hung": hung, "flows": flows, "repeated": repeated}[sys.argv[1]](*map(int, sys.argv[2:]))
    sys.stdout.buffer.write(made.json().encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()
