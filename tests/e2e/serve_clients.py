"""Clients that do not behave, against a server at 127.0.0.1:PORT.

    serve_clients.py PORT WHAT SERVER FRONT

SERVER and FRONT are its processes: that which measures, and that which speaks HTTP. WHAT is `slow`,
`floods`, `malformed`, `readers`, or `crowd`, which stops and continues FRONT. Prints what went wrong and fails, or prints one line with figures. Of the time that an answer
took does not count what these or we were kept from running by others. How long it may take is a matter of
`make bench`: here it must come while the others are still there.
"""

import os
import random
import resource
import select
import signal
import socket
import sys
import threading
import time

PORT = int(sys.argv[1])
ADDRESS = ("127.0.0.1", PORT)


def connect(timeout=300):
    return socket.create_connection(ADDRESS, timeout)


def ask(data, timeout=300):
    """Send DATA and read to the end; what came, and b"" also for a reset."""
    with connect(timeout) as client:
        got = b""
        try:
            client.sendall(data)
            while True:
                part = client.recv(65536)
                if not part:
                    return got
                got += part
        except (ConnectionResetError, BrokenPipeError):
            return got


def status(data):
    """The status of the first answer; None if the connection is ended without any."""
    got = b""
    with connect() as client:
        try:
            client.sendall(data)
        except OSError:
            pass
        try:
            while b"\r\n" not in got:
                part = client.recv(65536)
                if not part:
                    return None
                got += part
        except (ConnectionResetError, BrokenPipeError):
            return None
    return int(got.split(b" ")[1])


def held_up():
    """For how long the server and we were ready to run, but others ran; or the whole machine did not."""
    with open("/proc/stat") as stat:
        seconds = int(stat.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    for pid in (os.getpid(), int(sys.argv[3]), int(sys.argv[4])):
        with open("/proc/%d/schedstat" % pid) as schedstat:
            seconds += int(schedstat.read().split()[1]) / 1e9
    return seconds


def scrape(path="/metrics"):
    start, held_before = time.monotonic(), held_up()
    got = ask(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (path.encode(), PORT))
    assert got.startswith(b"HTTP/1.1 200 "), got[:200]
    seconds = time.monotonic() - start
    return max(0, seconds - (held_up() - held_before)), got


def is_there(client):
    """Has the server not ended this connection? Nothing is read."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return not poll.poll(0)


def is_closed(client):
    """Has the server ended this connection?"""
    readable, _, _ = select.select([client], [], [], 0)
    if not readable:
        return False
    try:
        return client.recv(65536, socket.MSG_DONTWAIT) == b""
    except OSError:
        return True


def slow():
    """1000 clients that send a byte a second, or none: scrapes go on, and they are dropped after 10 s."""
    request = b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\nX-Filler: " + b"x" * 1000
    kinds = ["silent", "line", "header", "body"]
    head = {
        "silent": b"",
        "line": b"",
        "header": b"GET /metrics HTTP/1.1\r\n",
        "body": b"POST /api/v1/switch HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n" % PORT,
    }
    clients = []
    start = time.monotonic()
    for i in range(1000):
        born = time.monotonic()
        client = connect()
        client.sendall(head[kinds[i % 4]])
        clients.append((client, kinds[i % 4], born))
    connected = time.monotonic() - start
    worst, sent, left, gone = 0, 0, clients, 0
    while left and time.monotonic() - start - connected < 300:
        for client, kind, _ in left:
            if kind in ("line", "header"):
                try:
                    client.send(request[sent : sent + 1])
                except OSError:
                    pass
        sent += 1
        worst = max(worst, scrape()[0])
        # It has not waited for one of them.
        assert sent > 1 or is_there(clients[-1][0]), "a scrape took as long as a client"
        time.sleep(0.8)
        still = []
        for client, kind, born in left:
            if not is_closed(client):
                still.append((client, kind, born))
            elif kind != "body":
                age = gone = time.monotonic() - born
                assert age >= 10, "a client was dropped after %.1f s" % age
        left = still
    assert not left, "still there: %s" % [kind for _, kind, _ in left]
    print("1000 slow clients, connected in %.2f s, the last one dropped after %.1f s; slowest scrape %.1f ms"
          % (connected, gone, worst * 1000))


def floods():
    """More connections than there is room for: the oldest make room, a scrape is served."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients, worst = [], 0
    for i in range(770):
        clients.append(connect())
        if i % 20 == 19:
            worst = max(worst, scrape("/healthz")[0])
            assert is_there(clients[-1]), "an answer took as long as a client"
    # A scrape comes behind all of them.
    scrape("/healthz")
    closed = sum(is_closed(client) for client in clients)
    assert closed > 0, "none made room"
    print("770 connections, %d closed; slowest answer %.1f ms" % (closed, worst * 1000))


def malformed():
    host = b"Host: 127.0.0.1:%d\r\n" % PORT
    post = b"POST /api/v1/switch HTTP/1.1\r\n" + host
    expected = [
        (b"GET / HTTP/1.1\r\n\r\n", {400}),  # no Host
        (b"GET / HTTP/1.1\r\n" + host + b"Host: x\r\n\r\n", {400}),
        (b"GET / HTTP/1.0\r\n\r\n", {421}),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", {421}),
        (b"GET /a b HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET /healthz  HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET http://127.0.0.1:%d /healthz HTTP/1.1\r\n" % PORT + host + b"\r\n", {400}),
        (b"GET http://127.0.0.1:%d/healthz HTTP/1.1\r\n\r\n" % PORT, {400}),  # no Host either
        (b"GET http://127.0.0.1:%d/healthz HTTP/1.0\r\n\r\n" % PORT, {200}),
        (b"GET http://127.0.0.1:%d/healthz HTTP/1.1\r\nHost: x\r\n\r\n" % PORT, {200}),
        (b"GET http://x/healthz HTTP/1.1\r\n" + host + b"\r\n", {421}),
        (b"GET http://127.0.0.1:%d/healthz%%00x HTTP/1.1\r\n" % PORT + host + b"\r\n", {400}),
        (b"GET http:// HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET http://%s HTTP/1.1\r\n" % (b"a" * 3000) + host + b"\r\n", {400}),
        (b"GET http://%s HTTP/1.1\r\n" % (b"%41" * 900) + host + b"\r\n", {400}),
        (b"GET /healthz%00x HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET /healthz\0x HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET /healthz\0 HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET \0 HTTP/1.1\r\n" + host + b"\r\n", {400}),
        (b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n" + host + b"\r\n", {414}),
        (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n", {414}),
        (b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 20000 + b"\r\n\r\n", {431}),
        (b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 1000000 + b"\r\n\r\n", {431, None}),
        (b"GET / HTTP/1.1\r\n" + host + b"X: y\r\n" * 5000 + b"\r\n", {431, None}),
        # More than libmicrohttpd's own memory has room for, in few bytes: it does not say that these have ended.
        (b"GET /metrics?" + b"&".join(b"a%d=1" % i for i in range(600)) + b" HTTP/1.1\r\n" + host + b"\r\n", {414, 431, None}),
        (b"GET /metrics HTTP/1.1\r\n" + host + b"Cookie: " + b"; ".join(b"a%d=1" % i for i in range(3000)) + b"\r\n\r\n", {431, None}),
        (b"GET / HTTP/9.9\r\n" + host + b"\r\n", {400, 505, 200}),
        (b"GET /\r\n\r\n", {400, None}),
        (b"nonsense\r\n\r\n", {400, None}),
        (b"\r\n\r\nGET /healthz HTTP/1.1\r\n" + host + b"\r\n", {200, 400}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600, {400, None}),  # TLS
        (b"\0" * 40000, {400, 414, 431, None}),
        (post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", {400}),
        (post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
        (post + b"Content-Length: 99999999999999999999999\r\n\r\n", {400, 413}),
        (post + b"Content-Length: -1\r\n\r\n", {400, 413}),
        (post + b"Content-Length: 65537\r\n\r\n" + b"x" * 65537, {413}),
        (post + b"Content-Length: 1048577\r\n\r\n", {413}),
        (post + b"Content-Length: 65537\r\nExpect: 100-continue\r\n\r\n", {413}),
        (post + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + b"8000\r\n" + b"x" * 0x8000 + b"\r\n8000\r\n"
         + b"x" * 0x8000 + b"\r\n1\r\nx\r\n0\r\n\r\n", {413}),
        (post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", {400, None}),
    ]
    for data, statuses in expected:
        got = status(data + (b"" if b"\r\n\r\n" in data else b"\r\n\r\n"))
        assert got in statuses, "%s: %s" % (data[:60], got)
    # A refusal has one header and one body, as long as it says.
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"GET /a b HTTP/1.1\r\n" + host + b"\r\n", b"GET / HTTP/9.9\r\n" + host + b"\r\n",
                 b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nX\r\n" + host + b"\r\n", post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                 b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n" + host + b"\r\n"):
        with connect() as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            got = b""
            while part := client.recv(65536):
                got += part
        head, body = got.split(b"\r\n\r\n", 1)
        assert got.count(b"HTTP/1.1 ") == 1 and b"Content-Length: %d" % len(body) in head.split(b"\r\n"), got
    # Accept in many lines.
    got = ask(b"GET /metrics HTTP/1.1\r\n" + host + b"Accept: \"\r\nAccept:\r\n" * 50
              + b"Accept: application/openmetrics-text;version=0.0.1\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200"), got[:200]
    # Half of a request, and the rest never comes; the client has gone, or listens only.
    half = connect()
    half.sendall(b"GET /metrics HT")
    half.close()
    half = connect()
    half.sendall(b"GET /healthz HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    half.shutdown(socket.SHUT_WR)
    assert half.recv(65536).startswith(b"HTTP/1.1 200"), "a half-closed connection"
    # Two requests at once, and one in many pieces.
    both = ask((b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n") + (b"GET /healthz HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n"))
    assert both.count(b"HTTP/1.1 200") == 2, both
    with connect() as client:
        for byte in b"GET /healthz HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n":
            client.send(bytes([byte]))
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
    random.seed(6)
    good = b"POST /api/v1/switch HTTP/1.1\r\n" + host + b"Content-Length: 12\r\n\r\nhello, world"
    for i in range(300):
        data = bytearray(good if i % 2 else random.randbytes(random.randrange(1, 3000)))
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.randrange(256)
        # What is taken for the beginning of a request is waited for, up to 10 s.
        with connect(0.2) as client:
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except OSError:
                pass
    seconds, _ = scrape()
    print("%d malformed requests and 300 random ones; then a scrape in %.1f ms" % (len(expected), seconds * 1000))


def readers():
    """Clients that ask for all there is and do not read it."""
    clients = []
    for _ in range(300):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(ADDRESS)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n" * 3)
        clients.append(client)
    worst = scrape()[0]
    assert any(map(is_there, clients)), "a scrape took as long as a client"
    worst = max(worst, *(scrape()[0] for _ in range(9)))
    print("300 that do not read; slowest scrape %.1f ms" % (worst * 1000))


def crowd():
    """201 requests in one moment, the first ones, while the server measures: all answered in full. Then 800 that nobody reads."""
    server, front = int(sys.argv[3]), int(sys.argv[4])
    formats = [b"text/plain;version=0.0.4", b"application/openmetrics-text;version=1.0.0", b"application/openmetrics-text;version=0.0.1"]
    request = b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\nAccept: %s\r\nConnection: close\r\n\r\n"
    replies = [b""] * 201

    def read(client, i):
        while part := client.recv(1 << 20):
            replies[i] += part

    os.kill(server, signal.SIGSTOP)
    os.kill(front, signal.SIGSTOP)
    threads = []
    for i in range(len(replies)):
        client = connect()
        client.sendall(request % formats[i % 3])
        threads.append(threading.Thread(target=read, args=(client, i)))
    start = time.monotonic()
    os.kill(front, signal.SIGCONT)
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    os.kill(server, signal.SIGCONT)
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    for i, reply in enumerate(replies):
        head, body = reply.split(b"\r\n\r\n", 1)
        length = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")][0]
        assert int(length.split()[1]) == len(body), "%s, but %d bytes" % (length, len(body))
        assert body.endswith(b"# EOF\n") == (i % 3 > 0), head + b"\n" + body[-300:]
        assert b"Content-Type: " + formats[i % 3].replace(b";", b"; ") + b";" in head, head
    os.kill(front, signal.SIGSTOP)
    clients = []
    for _ in range(300):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(ADDRESS)
        client.sendall(request % formats[0])
        clients.append(client)
    os.kill(front, signal.SIGCONT)
    scrape()
    for _ in range(500):
        clients.append(socket.create_connection(ADDRESS))
        clients[-1].sendall(request % formats[0])
    scrape()
    peak = 0
    for pid in (server, front):
        with open("/proc/%d/status" % pid) as status_file:
            peak += [int(line.split()[1]) for line in status_file if line.startswith("VmHWM")][0]
    assert peak < 700000, "the server had %d kB" % peak
    print("201 at once in %.2f s; peak with 800 that do not read %d kB" % (seconds, peak))


WHATS = {"slow": slow, "floods": floods, "malformed": malformed, "readers": readers, "crowd": crowd}
WHATS[sys.argv[2]]()
