#!/usr/bin/env bash
# `serve` as an HTTP server: content types, paths and methods, addresses, host names.
#
# needs: fixtures serve ocaml/counted
# smoke: test_paths_and_methods
# takes: 30 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/serve_lib.sh"

test_content_types() {
	local type
	need_counting
	start_v1
	start_server -pid "$TARGET"
	while IFS='|' read -r accept type; do
		eq "$(get metrics -o "$TMP/body" -w '%{content_type}' -H "Accept:$accept")" "$type; charset=utf-8" "type for '$accept'"
		[[ $type != text/* ]] || ! grep -q '# EOF\|_created' "$TMP/body" || fail "OpenMetrics as text"
		[[ $type != app* ]] || eq "$(tail -n 1 "$TMP/body")" "# EOF" "last line"
	done <<-'END'
		|text/plain; version=0.0.4
		 */*|text/plain; version=0.0.4
		 application/openmetrics-text; version=1.0.0|application/openmetrics-text; version=1.0.0
		 application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1|application/openmetrics-text; version=1.0.0
		 application/openmetrics-text;q=0.2,text/plain;q=0.3|text/plain; version=0.0.4
		 application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1|application/openmetrics-text; version=0.0.1
		 application/openmetrics-text; version=2.0.0|text/plain; version=0.0.4
	END
	# A list may be in several lines.
	eq "$(get metrics -o "$TMP/body" -w '%{content_type}' -H 'Accept: text/html' -H 'Accept: text/plain;q=0.3' \
		-H 'X-Other: y' -H 'accept: application/openmetrics-text;version=1.0.0;q=0.5')" \
		"application/openmetrics-text; version=1.0.0; charset=utf-8" "type for three lines"
	eq "$(get metrics -o "$TMP/body" -w '%{content_type}' -H 'Accept: application/openmetrics-text;q=0.5' -H 'Accept: text/plain')" \
		"text/plain; version=0.0.4; charset=utf-8" "type for two lines"
	get metrics -D - -o "$TMP/body" | tr -d '\r' >"$TMP/head"
	grep -qx 'Vary: Accept' "$TMP/head" || fail "$(<"$TMP/head")"
	eq "$(grep -c '^ocaml_probes_build_info{version="[0-9.]*"} 1$' "$TMP/body")" 1 "build_info"
	eq "$(get healthz)" ok "healthz"
}

test_paths_and_methods() {
	local tag
	need_counting
	start_v1
	start_server -pid "$TARGET"
	for path in '' page.js page.css metrics api/v1/status api/v1/history api/v1/history/15m healthz 'metrics?x=1'; do
		eq "$(status_of "$path")" 200 "GET /$path"
		eq "$(status_of "$path" -I)" 200 "HEAD /$path"
		eq "$(status_of "$path" -X POST -d x)" 405 "POST /$path"
		eq "$(python3 -c 'import json, sys; print(sorted(json.load(open(sys.argv[1]))))' "$TMP/reply")" "['error', 'hint']" "its body"
	done
	for path in nosuch api/v1 metrics/ ../etc/passwd %2e%2e/x page.html; do
		eq "$(status_of "$path" --path-as-is)" 404 "GET /$path"
	done
	# As one asks a proxy: http://HOST:PORT before the path, and in the place of Host.
	for path in "$URL" "http://192.0.2.1/metrics" "HTTP://127.0.0.1:$PORT/metrics?x=http://y/" "${URL%/}" "${URL%/}?x" "http://[::1]/healthz"; do
		eq "$(status_of '' --request-target "$path")" 200 "GET $path"
	done
	eq "$(status_of '' --request-target "${URL}healthz")" 200 "GET ${URL}healthz"
	eq "$(<"$TMP/reply")" ok "its body"
	for path in "${URL}nosuch" "http://127.0.0.1:$PORT#/metrics" "http:/metrics" '*' metrics; do
		eq "$(status_of '' --request-target "$path")" 404 "GET $path"
	done
	for path in http:///metrics "http://:$PORT/metrics" "http://x@127.0.0.1:$PORT/metrics" "http://127.0.0.1%3a$PORT/metrics" \
		"http://127.0.0.1%2fmetrics" /metrics%00x /%00 /%00/metrics /metrics%%00 "${URL}metrics%00x" /metrics%00?x "http://$(printf '%0300d' 0)/"; do
		eq "$(status_of '' --request-target "$path")" 400 "GET $path"
	done
	for path in "https://127.0.0.1:$PORT/metrics" ftp://x/ "http://other.example/metrics" "${URL%/}:/metrics#"; do
		eq "$(status_of '' --request-target "$path")" 421 "GET $path"
	done
	# A path is one in each of its spellings.
	for path in /%6detrics /metrics?%00 '/metrics?a=%00b'; do
		eq "$(status_of '' --request-target "$path")" 200 "GET $path"
	done
	for path in /metrics%2500 /metrics%0 /metrics%0x /metrics%3fx /metrics%0g; do
		eq "$(status_of '' --request-target "$path")" 404 "GET $path"
	done
	for method in PUT DELETE OPTIONS PATCH TRACE NONSENSE; do
		eq "$(status_of metrics -X "$method")" 405 "$method"
	done
	eq "$(curl -s -X PUT -D - -o /dev/null "${URL}metrics" | tr -d '\r' | grep ^Allow)" "Allow: GET, HEAD"
	eq "$(status_of api/v1/switch)" 405 "GET of the switch"
	# Off without --control.
	eq "$(status_of api/v1/switch -H 'Content-Type: application/json' -d '{}')" 403 "POST without --control"
	grep -q 'start it with --control' "$TMP/reply"
	eq "$(json_of api/v1/status 'it["control"]')" False "control"

	get '' -D "$TMP/head" -o /dev/null
	grep -q "^Content-Security-Policy: default-src 'none'; script-src 'self'" "$TMP/head"
	grep -q '^X-Content-Type-Options: nosniff' "$TMP/head"
	tag=$(tr -d '\r' <"$TMP/head" | sed -n 's/^ETag: //p')
	eq "$(status_of '' -H "If-None-Match: $tag")" 304 "the page again"
	eq "$(wc -c <"$TMP/reply")" 0 "bytes of it"
	eq "$(status_of '' -H 'If-None-Match: "x"')" 200 "another page"
}

test_addresses() {
	need_counting
	start_v1
	start_server -pid "$TARGET" --listen '[::1]:0'
	matches "$URL" '^http://\[::1\]:[0-9]+/$'
	eq "$(get healthz -g)" ok "by IPv6"
	end_server INT
	eq "$SERVER_STATUS" 0 "status at SIGINT"
	start_server -pid "$TARGET" --listen localhost:0
	matches "$URL" '^http://127\.0\.0\.1:[0-9]+/$'
	check_error 1 'Address already in use' serve -pid "$TARGET" --listen "127.0.0.1:$PORT"
	eq "$(get healthz)" ok "still"
}

# Without --control, too, a page of somebody else's reads nothing, whatever its name resolves to.
test_hosts() {
	local host path
	need_counting
	start_v1
	start_server -pid "$TARGET" --listen 0.0.0.0:0
	# What Prometheus sends is the address that it was given.
	for host in "127.0.0.1:$PORT" 127.0.0.1 "10.1.2.3:80" "[::1]:$PORT" "[2001:db8::1]" localhost "localhost:$PORT" "LOCALHOST:1" "$(hostname):$PORT" "$(hostname)"; do
		eq "$(status_of metrics -H "Host: $host")" 200 "Host $host"
	done
	for host in evil.example "evil.example:$PORT" "127.0.0.1.evil.example:$PORT" "localhost.evil.example" "$(hostname).evil.example" "1.2.3" "[::1" "probes.example"; do
		for path in '' metrics api/v1/status api/v1/history api/v1/history/pairs api/v1/history/15m healthz page.js nosuch; do
			eq "$(status_of "$path" -H "Host: $host")" 421 "Host $host of /$path"
			finds 'start it with --host NAME' "$TMP/reply" || fail "$(<"$TMP/reply")"
		done
	done
	for path in "http://evil.example/metrics" "http://evil.example:$PORT/metrics"; do
		eq "$(status_of '' --request-target "$path")" 421 "GET $path"
	done
	eq "$(status_of metrics -H "Host;")" 421 "Host that is empty"
	eq "$(status_of metrics --http1.0 -H Host:) $(status_of metrics -H Host:)" "421 400" "no Host"
	end_server
	# Names that were given, with any port or that one.
	start_server -pid "$TARGET" --host probes.example --host other.example:8080
	for host in probes.example "PROBES.example:$PORT" probes.example:1 other.example:8080 127.0.0.1; do
		eq "$(status_of metrics -H "Host: $host")" 200 "Host $host"
	done
	for host in other.example "other.example:$PORT" xprobes.example probes.example.evil.example; do
		eq "$(status_of metrics -H "Host: $host")" 421 "Host $host"
	done
	end_server
	printf '{ "listen": "127.0.0.1:0", "hosts": ["in.file"], "targets": [{ "pid": %s }] }' "$TARGET" >"$TMP/config"
	start_server --config "$TMP/config"
	eq "$(status_of metrics -H "Host: in.file") $(status_of metrics -H "Host: evil.example")" "200 421" "Host of the file"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "configuration reloaded"'
	eq "$(status_of metrics -H "Host: in.file") $(status_of metrics -H "Host: evil.example")" "200 421" "Host after the file was read again"
	sed -i 's/in.file/an.other/' "$TMP/config"
	kill -HUP "$SERVER"
	wait_for 'has_text "$TMP/serve.err" "hosts: cannot change"'
	eq "$(status_of metrics -H "Host: in.file")" 200 "Host as before"
	end_server
	start_server --config "$TMP/config" --host by.option
	eq "$(status_of metrics -H "Host: by.option") $(status_of metrics -H "Host: an.other")" "200 421" "options go before"
}

run_tests "$@"
