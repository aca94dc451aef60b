# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Run apt for another suite of Debian, from the mirror that this machine uses. The lists are in a temporary folder, so the
# lists of this machine's apt do not change.
. "$(dirname "${BASH_SOURCE[0]}")/minimal.sh"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$@"; exit 1; }

# Use the lines of KIND (deb, deb-src) of SUITE, which may have the form `sid+experimental`: the last one is preferred.
use_suite() { # KIND SUITE
	local mirror suite
	APT=$(mktemp -d)
	trap 'rm -rf "$APT"' EXIT
	trap 'exit 130' INT TERM HUP
	mkdir -p "$APT/lists/partial" "$APT/archives/partial" "$APT/files"
	mirror=$(debian_mirror)
	[[ -n $mirror ]] || die "no configured source of apt serves $VERSION_CODENAME"
	for suite in ${2//+/ }; do
		printf '%s %s %s main\n' "$1" "$mirror" "$suite"
	done >"$APT/sources.list"
	# A copy of sid may be older than it says.
	apt_options=(-qq -o Dir::State="$APT" -o Dir::State::status=/dev/null -o Dir::State::lists="$APT/lists"
		-o Dir::Cache="$APT" -o Dir::Etc::SourceList="$APT/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o Acquire::Languages=none
		-o Acquire::Check-Valid-Until=false -o APT::Install-Recommends=false -o APT::Update::Error-Mode=any
		-o Acquire::Retries=3 -o Acquire::http::Timeout=60 -o Acquire::https::Timeout=60
		-o APT::Default-Release="${2##*+}" -o APT::Sandbox::User=root)
	apt_get update
}

# Run apt-get, with its output in $APT/out. If a download fails, for example because the mirror is being updated, try
# again.
apt_get() { # ARGUMENT...
	local tries
	for tries in 1 2 3; do
		(cd "$APT/files" && apt-get "${apt_options[@]}" "$@" >"$APT/out" 2>"$APT/err") && return
		((tries == 3)) || sleep "${INSTALL_DEPS_PAUSE:-5}"
	done
	die "apt-get $1: $(grep -m1 -E '^(E|W):' "$APT/err")"
}
