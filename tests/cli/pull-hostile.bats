#!/usr/bin/env bats
# mlrun pull against a registry that asks for tokens, redirects, breaks off, refuses and lies.

load common
load fake

@test "token: asked for when the registry demands one, and used" {
	fake --auth bearer
	pull_whole
	assert_equal "$(grep -c '^auth ' "$log")" 1
	grep -q '^auth GET /token?service=fake&scope=repository%3ax%3apull auth=- ' "$log"
	assert_equal "$(grep '^registry ' "$log" | grep -vc 'auth=Bearer_token-1 ')" 1
}

@test "token: one that has run out is replaced in the middle of a pull" {
	fake --auth bearer --token-uses 1 --cut 1500000
	pull_whole
	assert [ "$(grep -c '^auth ' "$log")" -ge 3 ]
	grep -q 'auth=Bearer_token-[3-9] range=bytes=1500000-' "$log"
}

@test "token: a refusal names the registry and what can be done" {
	fake --auth bearer --deny-token
	run -125 mlrun pull "$registry/secret"
	assert_output --partial "'$registry' refuses 'secret': ask 'http://$auth/token' for a token: anonymous access is refused"
	assert_output --partial "hint: a wrong name or a private image? Check the spelling, or log in: mlrun login $registry"
}

@test "token: a registry that wants a password is told as such" {
	fake --auth basic
	run -125 mlrun pull "$registry/secret"
	assert_output --partial "the registry wants a user name and a password"
	assert_output --partial "log in: mlrun login $registry"
}

@test "token: a token server that is not on loopback must be https" {
	fake --auth bearer --realm "http://192.0.2.1/token"
	run -125 mlrun pull "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': '$registry' refuses 'x': refused the registry's token server: 'http://192.0.2.1/token' is not https
hint: passwords and tokens go over https alone; its administrator must name a token server that is"
}

@test "redirect: followed to another host, which does not see the token" {
	fake --auth bearer --redirect-blobs
	run -0 mlrun pull --verbose "$registry/x"
	refute_output --partial secret
	refute_output --partial token-1
	assert_pulled
	assert_equal "$(grep -c '^storage GET .* auth=- ' "$log")" 2
	refute grep -q '^storage .*Bearer' "$log"
}

@test "redirect: refused when it leads to plain http elsewhere, or to another scheme" {
	for url in http://192.0.2.1/x file:///etc/passwd gopher://127.0.0.1/x https://user:pass@127.0.0.1/x; do
		fake --redirect-to "$url"
		run -125 mlrun pull "$registry/x"
		assert_output --partial "refused to follow the registry's redirect: '$url'"
		fake_stop
	done
	fake --redirect-to "http://192.0.2.1/x?signature=secret"
	run -125 mlrun pull "$registry/x"
	assert_output --partial "refused to follow the registry's redirect: 'http://192.0.2.1/x' is not https"
	refute_output --partial secret
	assert_nothing_stored
}

@test "redirect: one with a page of text for people is followed" {
	fake --redirect-blobs --redirect-page 100000
	pull_whole -q
}

@test "redirect: a circle ends" {
	fake --redirect-to /v2/x/blobs/round
	run -125 mlrun pull "$registry/x"
	assert_output --partial "more than 5 redirects"
}

@test "broken: a transfer that breaks goes on at the byte it had reached" {
	fake --cut 1100000
	pull_whole
	grep -q 'range=bytes=1100000-' "$log"
	grep -q 'range=bytes=2200000-' "$log"
}

@test "broken: the storage behind a redirect may break as well" {
	fake --cut 1100000 --redirect-blobs
	pull_whole
	grep -q '^storage .*range=bytes=1100000-' "$log"
}

@test "broken: an end without a length is not taken for the end" {
	fake --cut 1100000 --no-length
	pull_whole
}

@test "broken: a registry that ignores Range is coped with" {
	fake --no-range --cut 2900000 --cuts 2
	pull_whole
	assert_equal "$(grep -c 'range=bytes=2900000-' "$log")" 2
}

@test "broken: a registry that answers Range with earlier bytes is coped with" {
	fake --wrong-range -1 --cut 1100000
	pull_whole
}

@test "broken: one that answers Range with later bytes is asked without" {
	fake --wrong-range 1 --cut 1100000 --cuts 1
	pull_whole
	assert_equal "$(grep -c 'range=bytes=1100000-' "$log")" 1
}

@test "broken: one that calls Range unsatisfiable is asked without" {
	fake --range-416 --cut 1100000 --cuts 1
	pull_whole
	assert_equal "$(grep -c 'range=bytes=1100000-' "$log")" 1
}

@test "broken: one that neither understands Range nor holds a connection is given up" {
	fake --wrong-range 1 --cut 1100000
	run -125 mlrun pull "$registry/x"
	assert_output --partial "the connection to '$registry' broke"
	assert_nothing_stored
}

@test "busy: 429 with Retry-After is waited for" {
	fake --refuse 1 --status 429 --retry-after 3
	SECONDS=0
	run -0 mlrun pull "$registry/x"
	assert_output --partial "warning: '$registry' says: too many requests: fake toomanyrequests; trying again in"
	assert [ $SECONDS -ge 3 ]
	assert_pulled
}

@test "busy: a wait longer than anyone watches is told instead" {
	fake --refuse 100 --status 429 --retry-after 3600
	run -125 mlrun pull "$registry/x"
	assert_output --partial "too many requests"
	assert_output --partial "hint: registries limit anonymous pulls by address"
}

@test "busy: 503 is tried again, 404 is not" {
	fake --refuse 1
	pull_whole
	run -125 mlrun pull "$registry/x:nosuch"
	assert_equal "$(grep -c nosuch "$log")" 1
}

@test "lies: a manifest under another media type is refused" {
	fake --content-type application/vnd.oci.image.index.v1+json
	run -125 mlrun pull "$registry/x"
	assert_output --partial "the contents are not those of 'application/vnd.oci.image.index.v1+json'"
	assert_nothing_stored
}

@test "lies: a web page is no manifest" {
	fake --content-type text/html
	run -125 mlrun pull "$registry/x"
	assert_output --partial "media type 'text/html' is neither an image manifest nor an index"
}

@test "lies: a manifest with another digest than announced is refused" {
	fake --digest "sha256:$(printf '0%.0s' {1..64})"
	run -125 mlrun pull "$registry/x"
	assert_output --partial "the registry's bytes hash to sha256:"
}

@test "lies: a blob longer than the manifest says is refused" {
	fake --tail 100
	run -125 mlrun pull "$registry/x"
	assert_output --partial "longer than the"
	assert_nothing_stored
}

@test "lies: other compressed bytes than the digest's are refused, though they give the same tar" {
	fake --other-gzip
	for format in layers $(has_squashfs && echo squashfs); do
		run -125 mlrun pull --format "$format" "$registry/x"
		assert_output --regexp "blob sha256:[0-9a-f]{64}: the registry's bytes hash to sha256:[0-9a-f]{64}"
		assert_nothing_stored
	done
}

@test "lies: headers without end, before a blob or after it, are refused in little memory" {
	skip_if_sanitized
	for kind in headers trailers; do
		fake --endless "$kind"
		run -125 bash -c "ulimit -v 4000000; exec timeout 300 mlrun pull '$registry/x'"
		assert_output --regexp "'$registry' sends (more than 307200 bytes of|too many) headers"
		refute_output --partial 'trying again'
		assert_nothing_stored
		fake_stop
	done
}

@test "lies: names with escape sequences in them stay harmless in errors and hints" {
	mkdir evil
	printf '%s' '[{"Config":"c","RepoTags":["a\u001b[31m:1"],"Layers":[]},{"Config":"c","RepoTags":["b:1"],"Layers":["x\nhint: \u001b[2J"]}]' >evil/manifest.json
	printf '{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["sha256:%064d"]}}' 0 >evil/c
	tar -C evil -cf evil.tar .
	run -125 mlrun pull docker-archive:evil.tar
	assert_output --partial 'hint: the archive has: a\x1b[31m:1, b:1'
	refute_output --partial $'\x1b'
	run -125 mlrun pull docker-archive:evil.tar:b:1
	assert_output --partial 'hint: \x1b[2J'
	refute_output --partial $'\x1b'
}

@test "tls: plain http beyond loopback needs --tls-verify=false" {
	fake
	address=$(hostname -I 2>/dev/null | cut -d' ' -f1)
	[ -n "$address" ] || skip "this machine has no address but loopback's"
	python3 -c 'import socket, sys, threading
here, there = (sys.argv[i].rsplit(":", 1) for i in (1, 2))
s = socket.create_server((here[0], int(here[1])))
print(s.getsockname()[1], flush=True)
def copy(a, b):
    while data := a.recv(65536): b.sendall(data)
    b.shutdown(socket.SHUT_WR)
while True:
    a, b = s.accept()[0], socket.create_connection((there[0], int(there[1])))
    for x, y in ((a, b), (b, a)): threading.Thread(target=copy, args=(x, y), daemon=True).start()' \
		"$address:0" "$registry" >port 2>/dev/null 3>&- 4>&- &
	forward=$!
	until_true test -s port
	run -125 mlrun pull "$address:$(cat port)/x"
	assert_output --partial "TLS with '$address:$(cat port)' failed"
	assert_output --partial "hint: a registry that speaks plain HTTP needs --tls-verify=false"
	run -0 mlrun pull --tls-verify=false "$address:$(cat port)/x"
	kill $forward
	assert_pulled
}

@test "interrupted: Control-C ends a wait at once" {
	fake --refuse 100 --status 503 --retry-after 110
	env --default-signal=INT mlrun pull "$registry/x" 2>said &
	until_true grep -qs 'trying again' said
	SECONDS=0
	kill -INT $!
	status=0
	wait $! || status=$?
	assert_equal "$status" 130
	assert [ $SECONDS -lt 60 ]
	assert_nothing_stored
}
