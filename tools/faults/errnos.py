"""The errnos with which a system call can fail, and the messages by which the tools may report them."""
import errno as numbers
import re
from enum import IntEnum

Errno = IntEnum("Errno", {name: value for value, name in numbers.errorcode.items()})

# Not in the table: calls that cannot fail where the tools make them (getpid, rt_sigprocmask), futex
# (the C library aborts at an impossible error), close and munmap (a call that is not carried out
# leaves a leak that is no fault of the tool), brk (it has no errno).
TABLE = {
    "access": "EACCES ENOENT",
    "bpf": "EPERM ENOMEM",
    "chmod": "EPERM EROFS",
    "chown": "EPERM EROFS",
    "clock_nanosleep": "EINTR",
    "clone": "EAGAIN ENOMEM",
    "clone3": "EAGAIN ENOMEM ENOSYS",
    "copy_file_range": "EIO ENOSPC EXDEV",
    "dup": "EMFILE",
    "dup3": "EMFILE",
    "epoll_create1": "EMFILE ENOMEM",
    "epoll_ctl": "ENOMEM ENOSPC",
    "epoll_wait": "EINTR",
    "eventfd2": "EMFILE ENOMEM",
    "faccessat": "EACCES ENOENT",
    "faccessat2": "EACCES ENOENT ENOSYS",
    "fallocate": "ENOSPC EOPNOTSUPP",
    "fchmod": "EPERM EROFS EIO",
    "fchmodat": "EPERM EROFS",
    "fchown": "EPERM EROFS EIO",
    "fcntl": "EMFILE",
    "fdatasync": "EIO ENOSPC",
    "fgetxattr": "ENOTSUP EIO",
    "flistxattr": "ENOTSUP EIO",
    "flock": "EINTR ENOLCK",
    "fsetxattr": "EPERM ENOTSUP ENOSPC",
    "fstat": "EIO ENOMEM",
    "fstatfs": "EIO",
    "fsync": "EIO ENOSPC",
    "ftruncate": "EIO ENOSPC",
    "getdents64": "EIO ENOTDIR",  # the C library takes ENOENT for the end
    "getrandom": "ENOSYS",
    "getxattr": "ENOTSUP EIO",
    "inotify_init1": "EMFILE",
    "ioctl": "ENOTTY EINVAL",
    "kill": "ESRCH EPERM",
    "link": "EEXIST EPERM",
    "linkat": "EEXIST EPERM",
    "lseek": "EINVAL",
    "lstat": "EACCES EIO",
    "madvise": "EINVAL",
    "mkdir": "EACCES ENOSPC EROFS",
    "mkdirat": "EACCES ENOSPC EROFS",
    "mmap": "ENOMEM",
    "mprotect": "ENOMEM",
    "mremap": "ENOMEM",
    "newfstatat": "EIO ENOMEM",
    "open": "EMFILE EACCES ENOENT ENFILE",
    "openat": "EMFILE EACCES ENOENT ENFILE ENOMEM",
    "perf_event_open": "EACCES EMFILE ENOSPC ENODEV",
    "pidfd_open": "EMFILE ENOSYS ESRCH",
    "pipe2": "EMFILE",
    "poll": "EINTR ENOMEM",
    "ppoll": "EINTR ENOMEM",
    "prctl": "EINVAL",
    "pread64": "EIO",
    "preadv": "EIO",
    "prlimit64": "EPERM",
    "process_vm_readv": "EPERM ENOSYS ESRCH EFAULT ENOMEM",
    "process_vm_writev": "EPERM ENOSYS EFAULT ENOMEM",
    "ptrace": "EPERM ESRCH",
    "pwrite64": "EIO EFAULT ENOMEM EINTR",
    "pwritev": "EIO ENOSPC",
    "read": "EIO",
    "readlink": "EACCES ENOENT",
    "readlinkat": "EACCES ENOENT",
    "rename": "EACCES ENOSPC EROFS",
    "renameat": "EACCES ENOSPC EROFS",
    "renameat2": "EACCES ENOSPC EROFS",
    "rmdir": "EBUSY EACCES",
    "sched_setaffinity": "EINVAL",
    "sendfile": "EIO ENOSPC",
    "signalfd4": "EMFILE ENOMEM",
    "stat": "EACCES EIO",
    "statfs": "EACCES EIO",
    "statx": "EIO EACCES",
    "symlink": "EEXIST ENOSPC",
    "tgkill": "ESRCH",
    "timerfd_create": "EMFILE ENOMEM",
    "timerfd_settime": "EINVAL",
    "unlink": "EACCES EROFS",
    "unlinkat": "EACCES EROFS",
    "utimensat": "EPERM EROFS",
    "vfork": "EAGAIN ENOMEM",
    "wait4": "ECHILD EINTR",
    "waitid": "ECHILD EINTR",
    "write": "EIO ENOSPC EPIPE",
    "writev": "EIO ENOSPC",
}

# <linux/bpf.h>: commands that have separate errnos.
BPF_MAP_CREATE, BPF_MAP_UPDATE, BPF_PROG_LOAD, BPF_OBJ_PIN, BPF_LINK_CREATE = 0, 2, 5, 6, 28
BPF = {
    BPF_MAP_CREATE: "E2BIG EINVAL",
    BPF_MAP_UPDATE: "E2BIG EBUSY",
    BPF_PROG_LOAD: "E2BIG EACCES ENOSPC",
    BPF_OBJ_PIN: "EEXIST ENOSPC",
    BPF_LINK_CREATE: "EBUSY ESRCH EOPNOTSUPP EINVAL",
}

# <linux/ptrace.h>: for a tracee that the tool has stopped, the kernel only reports that it was killed.
PTRACE_POKEUSER, PTRACE_SEIZE = 6, 0x4206
PTRACE = {
    PTRACE_POKEUSER: "ENOSPC",
    PTRACE_SEIZE: "EIO",
}


def errnos_of(name, what):
    """The errnos for a call of NAME about WHAT (see inject.c)."""
    names = TABLE.get(name, "").split()
    if what.startswith("request "):
        request = int(what.split()[1])
        names += (BPF if name == "bpf" else PTRACE).get(request, "").split()
        if name == "ptrace" and request != PTRACE_SEIZE:
            names.remove("EPERM")
    if what.endswith(" (new)"):
        names += ["ENOSPC", "EROFS"]
    # The target, its threads and the tool exist.
    if re.match(r"/proc/(\d+/(task|status)|self/)", what):
        names = [n for n in names if n != "ENOENT"]
    # A pipe, or a similar file, of the tool itself.
    if name == "write" and what.startswith(("pipe:", "anon_inode:", "socket:")):
        names = []
    return [Errno(getattr(numbers, n)) for n in names]


# Messages that replace an errno's text.
ACCEPTED = [re.compile(text) for text in (
    # EACCES, EPERM
    r"pid \d+ \(.*\): may not be (traced|inspected)",
    r"the kernel refuses bpf\(\)",
    # ENOTSUP and EINVAL of bpf(2)
    r"this kernel \(.*\) was built without uprobes for BPF",
    r"arguments need uprobe_multi links",
    # ENOENT and ESRCH in /proc
    r"pid \d+ \(.*\): has no memory of its own",
    r"pid \d+: no such process",
    r"process \d+: it ended",
    r"pid \d+: has ended",
    # ENOMEM
    r"(?m): out of memory$",
    r"measuring: no memory for ",
    # doctor undoes what the journal records; the scenario tests this
    r"could not be switched back",
    # the C library's errno if it has no memory for a stack
    r"cannot start a thread: Resource temporarily unavailable",
)]


# ocaml-probes(1), EXIT STATUS; all other errnos give 1.
STATUSES = {
    2: [Errno.ENOENT],
    3: [Errno.EPERM, Errno.EACCES],
    4: [Errno.ENOSYS, Errno.ENOTSUP, Errno.EINVAL],
    5: [Errno.ESRCH, Errno.ENOENT],
    6: [Errno.EPERM, Errno.ESRCH, Errno.EBUSY],
}


def status_fits(status, errno):
    """Is STATUS the documented one for a failure with ERRNO?"""
    return status == 1 or Errno(errno) in STATUSES.get(status, ())
