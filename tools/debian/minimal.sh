# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# A minimal Debian of this machine's release, made by debootstrap. The mirror is the one that apt uses here.

# shellcheck source=/dev/null
. /etc/os-release

# Lines of sources.list for Debian itself, as apt has them here.
debian_sources() {
	# shellcheck disable=SC2016 # apt-get expands them
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT) # $(ORIGIN)' 'Created-By: Packages' |
		sed -n 's/ # Debian.*//p' | sort -u
}

# Print the address from which apt gets packages of this release, or nothing.
debian_mirror() {
	# shellcheck disable=SC2016 # apt-get expands it
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" 'Origin: Debian' \
		'Component: main' | head -n 1
}

# Make a minimal Debian in the folder DIR, with the apt configuration of this machine. The output is a log.
make_minimal() { # DIR
	local dir=$1 mirror
	mirror=$(debian_mirror)
	[[ -n $mirror ]] || { echo "no configured apt source serves $VERSION_CODENAME"; return 1; }
	debootstrap --variant=minbase "$VERSION_CODENAME" "$dir" "$mirror" ||
		{ cat "$dir/debootstrap/debootstrap.log"; return 1; }
	cp -a /etc/apt/apt.conf.d "$dir/etc/apt/"
	# These files concern this machine's desktop and containers, not the access to the mirror.
	rm -f "$dir"/etc/apt/apt.conf.d/*{appstream,packagekit,farm-no-dep11}*
	debian_sources >"$dir/etc/apt/sources.list"
	printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
	chmod 755 "$dir/usr/sbin/policy-rc.d"
}
