#!/usr/bin/env python3
"""Run a program as a container runtime would: container.py --image DIR --pid-file FILE [--cgroup DIR]...
[--own-cgroup-namespace] [--volume DIR:PATH]... PROGRAM ARG...

It gets mount and pid namespaces of its own. Its root, by pivot_root, is an overlay whose lower layer is the
image; the upper one is a tmpfs of its own. /proc is that of the pid namespace. The cgroups are joined before. The
file gets the program's process id in our namespace."""
import argparse
import ctypes
import os
import signal
import sys

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWPID = 0x20000, 0x2000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
PIVOT_ROOT = 155

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    args = [a.encode() if isinstance(a, str) else a for a in args]
    if getattr(libc, name)(*args) != 0:
        error = ctypes.get_errno()
        sys.exit(f"container.py: {name}{args}: {os.strerror(error)}")


def make_root(scratch, image, volumes):
    call("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
    os.makedirs(scratch, exist_ok=True)
    call("mount", "tmpfs", scratch, "tmpfs", 0, None)
    for name in "upper", "work", "root":
        os.mkdir(f"{scratch}/{name}")
    root = f"{scratch}/root"
    call("mount", "overlay", root, "overlay", 0,
         f"lowerdir={image},upperdir={scratch}/upper,workdir={scratch}/work")
    for volume in volumes:
        source, path = volume.split(":")
        os.makedirs(root + path, exist_ok=True)
        call("mount", source, root + path, None, MS_BIND, None)
    os.makedirs(f"{root}/proc", exist_ok=True)
    call("mount", "proc", f"{root}/proc", "proc", 0, None)
    os.chdir(root)
    call("syscall", PIVOT_ROOT, ".", ".")
    call("umount2", ".", MNT_DETACH)
    os.chdir("/")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--pid-file", required=True)
    parser.add_argument("--cgroup", action="append", default=[])
    parser.add_argument("--own-cgroup-namespace", action="store_true")
    parser.add_argument("--volume", action="append", default=[])
    parser.add_argument("--user", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    for cgroup in options.cgroup:
        os.makedirs(cgroup, exist_ok=True)
    call("unshare", CLONE_NEWPID)
    pid = os.fork()
    if pid:
        with open(options.pid_file + ".new", "w") as file:
            print(pid, file=file)
        os.rename(options.pid_file + ".new", options.pid_file)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.exit(status if status >= 0 else 128 - status)
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for cgroup in options.cgroup:
        with open(f"{cgroup}/cgroup.procs", "w") as file:
            file.write("0")
    if options.own_cgroup_namespace:
        call("unshare", CLONE_NEWCGROUP)
    call("unshare", CLONE_NEWNS)
    make_root(options.pid_file + ".scratch", options.image, options.volume)
    if options.user:
        os.setgroups([])
        os.setresgid(options.user, options.user, options.user)
        os.setresuid(options.user, options.user, options.user)
    os.execv(options.command[0], options.command)


main()
