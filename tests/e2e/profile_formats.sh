#!/usr/bin/env bash
# Profiles in pprof's format and as a page, read by others: protobuf and a browser. The profiles are made up.
#
# takes: 50 s
. "$(dirname "$0")/lib.sh"

DRIVER=$O/tests/profile/write_profile
HERE=$ROOT/tests/e2e
DEBIANS_PYTHON=/usr/bin/python3

need_driver() {
	[[ -x $DRIVER ]] || skip "not built, libcmocka-dev is missing"
}

need_protobuf() {
	need_driver
	need_command protoc gzip
	"$DEBIANS_PYTHON" -c 'import google.protobuf' 2>/dev/null || skip "python3-protobuf is not installed"
	protoc --proto_path="$ROOT/tests/profile" --python_out="$TMP" profile.proto
}

need_browser() {
	need_driver
	need_command chromium-headless-shell chromedriver
	"$DEBIANS_PYTHON" -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed"
}

# KEEP_SCREENSHOTS: a folder that gets the pictures that were taken, to be looked at.
on_page() { # TEST
	HOME=$TMP holds "$DEBIANS_PYTHON" -B "$HERE/profile_page.py" "$DRIVER" "$1"
	[[ -z ${KEEP_SCREENSHOTS:-} ]] || find "$TMP" -maxdepth 1 -name '*.png' -exec cp -t "$KEEP_SCREENSHOTS" {} +
}

test_pprof_is_what_was_given() {
	need_protobuf
	holds "$DEBIANS_PYTHON" -B "$HERE/profile_pprof.py" "$DRIVER"
}

# protoc shows fields that the public schema does not have as numbers.
test_pprof_has_public_fields_only() {
	need_protobuf
	"$DEBIANS_PYTHON" -B "$HERE/made_profiles.py" 7 50 40 20 | "$DRIVER" pprof >"$TMP/made.pb.gz"
	gzip -t "$TMP/made.pb.gz"
	gzip -dc "$TMP/made.pb.gz" | protoc --proto_path="$ROOT/tests/profile" \
		--decode=perftools.profiles.Profile profile.proto >"$TMP/text"
	eq "$(grep -c '^sample {' "$TMP/text")" 50 "samples"
	! finds -E '^ *[0-9]+[: ]' "$TMP/text" || fail "$(grep -E '^ *[0-9]+[: ]' "$TMP/text")"
}

test_failing_to_write() {
	need_driver
	local form message='write_profile: cannot write the profile: No space left on device'
	for form in pprof html; do
		! "$DEBIANS_PYTHON" -B "$HERE/made_profiles.py" 7 50 40 20 | "$DRIVER" "$form" 2>"$TMP/err" >/dev/full ||
			fail "$form: a full disk is no error"
		eq "$(<"$TMP/err")" "$message" "$form"
	done
}

# What it shows, the search, the keys, sizes and colours, hostile names.
test_page() {
	need_browser
	on_page used
}

test_page_zooms() {
	need_browser
	on_page zoomed
}

test_page_of_ten_thousand_stacks() {
	need_browser
	on_page many
}

run_tests "$@"
