# shellcheck shell=bash
# Names that the README and the manual pages use (/srv/bin/service, port 9464, a kept meter's name) are
# real in namespaces of our own: nobody else's are touched. Processes of others, which may keep a meter
# inside, are not seen.
in_namespaces() { # COMMAND...
	need_counting
	need_command unshare ip tmux
	unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private bash -euc '
		ip link set lo up
		mount -t tmpfs tmpfs /srv
		mkdir /srv/bin
		cp "$O/tests/ocaml/service" /srv/bin/service
		mount -t bpf bpf /sys/fs/bpf
		exec "$@"' - "$@"
}
