#!/usr/bin/env bats
# Every failure of docs/pull-failures.md: what the user sees, and what mlrun does.

load common
load fake

# conf LINE...: an mlrun.conf of the test's own.
conf() {
	printf '%s\n' "$@" >"$TMPDIR/mlrun.conf"
	chmod 600 "$TMPDIR/mlrun.conf"
	export MLRUN_CONFIG=$TMPDIR/mlrun.conf
}

login() { printf '{"auths":{"%s":{"auth":"%s"}}}' "$registry" "$(printf %s "$1" | base64 -w0)" | install -m 600 /dev/stdin "$TMPDIR/auth.json"; }

# --- names and rights ---------------------------------------------------------

@test "refused: a name that an anonymous user may not see, as Docker Hub says it" {
	fake --auth bearer --deny 401
	run -125 mlrun pull "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': '$registry' refuses 'x': HTTP status 401: fake denied
hint: a wrong name or a private image? Check the spelling, or log in: mlrun login $registry"
}

@test "refused: a user without the right is told so" {
	fake --auth bearer --user ann:secret --deny 403
	login ann:secret
	run -125 mlrun pull --authfile auth.json "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': '$registry' refuses 'x': HTTP status 403: fake denied
hint: a wrong name, or one that 'ann' may not pull? Check the spelling, ask its owner for the right, or log in anew: mlrun login $registry"
}

@test "refused: a password that has changed is told with the file it is from" {
	fake --auth bearer --user ann:new
	login ann:old
	run -125 mlrun pull --authfile auth.json "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': '$registry' refuses 'x': ask 'http://$auth/token' for a token: user 'ann' is refused: fake denied
hint: the credentials are those in 'auth.json'; mlrun login $registry replaces them"
}

@test "transfer: a first connection that is taken and reset is tried again, whatever is spoken" {
	fake --resets 1
	pull_whole
	assert_equal "$(grep -c reset "$log")" 1
	certificate cert
	rm -r "$MLRUN_STORE"
	fake --tls cert.pem --resets 3
	pull_whole --tls-verify=false
	assert_equal "$(grep -c reset "$log")" 3
}

@test "missing: a tag that is not there" {
	fake
	run -125 mlrun pull "$registry/x:nosuch"
	assert_output "mlrun: pull '$registry/x:nosuch': '$registry' has no tag 'nosuch' in 'x'
hint: check the spelling of the name; mlrun tags $registry/x lists the tags that there are"
}

# --- too many requests --------------------------------------------------------

@test "busy: an allowance that is spent is told with what the registry says of it, and login" {
	fake --refuse 100 --refuse-manifests --status 429 --quota "100;w=21600" "0;w=21600"
	SECONDS=0
	run -125 mlrun pull "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': '$registry' says: too many requests: fake toomanyrequests; 0 of 100 pulls left in 6 h
hint: registries limit anonymous pulls by address: log in (mlrun login $registry), wait, or pull once and share the store"
	assert [ $SECONDS -lt 100 ]
}

@test "busy: a user's own limit is not helped by a login" {
	fake --auth basic --user ann:secret --refuse 100 --refuse-manifests --status 429 --retry-after 3600
	login ann:secret
	run -125 mlrun pull --authfile auth.json "$registry/x"
	assert_output --partial "hint: the registry limits the pulls of 'ann': wait, or pull once and share the store"
}

@test "busy: 503 with a date in Retry-After is waited for" {
	until=$(date -d '+6 seconds' +%s)
	fake --refuse 1 --status 503 --retry-after "$(date -u -d "@$until" '+%a, %d %b %Y %T GMT')"
	run -0 mlrun pull "$registry/x"
	assert [ "$(date +%s)" -ge $((until - 1)) ]
	assert_pulled
}

@test "busy: a registry that goes on failing is told with its words" {
	fake --refuse 100 --refuse-manifests --status 500
	run -125 mlrun pull "$registry/x"
	assert_output --partial "mlrun: pull '$registry/x:latest': '$registry' answers HTTP status 500 for tag 'latest': fake toomanyrequests"
}

# --- ways there ---------------------------------------------------------------

@test "way: no such host" {
	run -125 timeout 100 mlrun pull registry.invalid/x
	assert_output --partial "mlrun: pull 'registry.invalid/x:latest': cannot find the host 'registry.invalid': "
	assert_output --partial "hint: check the registry's name and this machine's DNS; compute nodes often have no way out, pull on a login node; behind a proxy set https_proxy"
}

@test "way: nobody listening" {
	run -125 timeout 100 mlrun pull 127.0.0.1:1/x
	assert_output "mlrun: pull '127.0.0.1:1/x:latest': cannot connect to '127.0.0.1:1': Connection refused
hint: is a registry running there, and is it the right port? Behind a proxy set https_proxy"
}

@test "way: no route" {
	unshare -Urn true 2>/dev/null || skip "no network namespaces for this user"
	run -125 unshare -Urn mlrun pull 192.0.2.1:5000/x
	assert_output "mlrun: pull '192.0.2.1:5000/x:latest': cannot connect to '192.0.2.1:5000': Network is unreachable
hint: this machine has no way there: compute nodes often have none, pull on a login node; behind a proxy set https_proxy"
}

@test "way: nobody answers" {
	python3 -c 'import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(0)
clients = [socket.socket() for _ in range(4)]
for c in clients:
    c.setblocking(False)
    c.connect_ex(s.getsockname())
print(s.getsockname()[1], flush=True)
time.sleep(600)' >port 3>&- 4>&- &
	until [ -s port ]; do sleep 0.05; done
	conf "[registry 127.0.0.1:$(cat port)]" "timeout = 1"
	run -125 mlrun pull "127.0.0.1:$(cat port)/x"
	kill $!
	assert_output --partial "mlrun: pull '127.0.0.1:$(cat port)/x:latest': '127.0.0.1:$(cat port)' does not answer: "
	assert_output --partial "hint: a firewall may be between: "
}

@test "proxy: one that is not there is told as such" {
	https_proxy=http://127.0.0.1:1 run -125 mlrun pull registry.invalid/x
	assert_output "mlrun: pull 'registry.invalid/x:latest': cannot connect to the proxy '127.0.0.1:1': Connection refused
hint: https_proxy or http_proxy sets the proxy; no_proxy names hosts that need none"
	https_proxy=http://proxy.invalid:1 run -125 mlrun pull registry.invalid/x
	assert_output --partial "mlrun: pull 'registry.invalid/x:latest': cannot find the proxy: "
}

@test "proxy: an address that is malformed is told without the password in it" {
	for url in 'http://ann:sec ret@127.0.0.1:1' 'gopher://ann:sec%20ret@127.0.0.1:1'; do
		https_proxy=$url run -125 mlrun pull --verbose registry.invalid/x
		assert_output --partial "mlrun: pull 'registry.invalid/x:latest': the proxy's address is malformed
hint: https_proxy or http_proxy sets the proxy: http://USER:PASSWORD@PROXY:PORT"
		refute_output --partial sec
	done
}

@test "proxy: one that refuses, and one that wants a password" {
	fake --proxy 403
	https_proxy=http://$proxy run -125 mlrun pull registry.invalid/x
	assert_output "mlrun: pull 'registry.invalid/x:latest': the proxy will not connect to 'registry.invalid': HTTP status 403
hint: ask its administrator for that host, or name it in no_proxy"
	fake --proxy 407
	https_proxy=http://$proxy run -125 mlrun pull registry.invalid/x
	assert_output "mlrun: pull 'registry.invalid/x:latest': the proxy will not connect to 'registry.invalid': HTTP status 407
hint: it wants a password: https_proxy=http://USER:PASSWORD@PROXY:PORT"
	grep -q '^proxy CONNECT registry.invalid:443 ' "$log"
	https_proxy=http://$proxy no_proxy=registry.invalid run -125 mlrun pull registry.invalid/x
	assert_output --partial "cannot find the host 'registry.invalid'"
}

@test "proxy: loopback addresses need none" {
	fake
	http_proxy=http://127.0.0.1:1 https_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 pull_whole
}

# --- certificates -------------------------------------------------------------

@test "certificate: of a CA that nobody here knows" {
	certificate cert
	fake --tls cert.pem
	run -125 mlrun pull "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': the certificate of '$registry' is not trusted: SSL certificate problem: self-signed certificate
hint: put the site's CA certificate into '$HOME/.config/containers/certs.d/$registry/', or name it in mlrun.conf (ca = FILE) or SSL_CERT_FILE; --tls-verify=false gives up the check"
	assert_nothing_stored
	pull_whole --tls-verify=false
}

@test "certificate: for another host" {
	certificate cert -addext subjectAltName=DNS:registry.example
	fake --tls cert.pem
	SSL_CERT_FILE=cert.crt run -125 mlrun pull "$registry/x"
	assert_output --partial "mlrun: pull '$registry/x:latest': the certificate of '$registry' is made out to another name: "
	assert_output --partial "hint: ask for the registry by the name in its certificate"
}

# dated FROM TO: dated.pem and dated.crt, good in between only.
dated() {
	command -v openssl >/dev/null || skip "openssl is not installed"
	openssl req -newkey rsa:2048 -nodes -subj /CN=old -addext subjectAltName=IP:127.0.0.1 \
		-keyout dated.key -out dated.csr 2>/dev/null
	rm -rf ca
	mkdir ca
	touch ca/index
	printf '[ca]\ndefault_ca=c\n[c]\ndatabase=ca/index\nnew_certs_dir=ca\nrand_serial=yes\ndefault_md=sha256\npolicy=p\ncopy_extensions=copy\n[p]\ncommonName=supplied\n' >ca/conf
	openssl ca -batch -selfsign -config ca/conf -keyfile dated.key -in dated.csr -out dated.crt -notext \
		-startdate "$1" -enddate "$2" 2>/dev/null
	cat dated.crt dated.key >dated.pem
}

@test "certificate: expired, and not valid yet" {
	dated 20200101000000Z 20200201000000Z
	fake --tls dated.pem
	SSL_CERT_FILE=dated.crt run -125 mlrun pull "$registry/x"
	assert_output "mlrun: pull '$registry/x:latest': the certificate of '$registry' has expired
hint: its administrator must renew it, if this machine's clock is right (it says $(date -u +%F))"
	dated 20900101000000Z 20910101000000Z
	fake --tls dated.pem
	SSL_CERT_FILE=dated.crt run -125 mlrun pull "$registry/x"
	assert_output --partial "the certificate of '$registry' is not valid yet"
}

@test "certificate: certs.d, mlrun.conf and SSL_CERT_FILE each make it good" {
	certificate cert
	fake --tls cert.pem
	dir=$HOME/.config/containers/certs.d/$registry
	mkdir -p "$dir"
	cp cert.crt "$dir/ca.crt"
	run -0 mlrun pull -q "$registry/x"
	mv "$dir" gone
	rm -rf "$MLRUN_STORE"
	conf "[registry $registry]" "ca = $PWD/cert.crt"
	run -0 mlrun pull -q "$registry/x"
	rm -rf "$MLRUN_STORE"
	conf "[registry 127.0.0.1:1]" "ca = $PWD/cert.crt"
	run -125 mlrun pull -q "$registry/x"
	SSL_CERT_FILE=cert.crt run -0 mlrun pull -q "$registry/x"
	rm -rf "$MLRUN_STORE"
	conf "[registry $registry]" "insecure = true"
	run -0 mlrun pull -q "$registry/x"
	rm -rf "$MLRUN_STORE"
	conf "[registry $registry]" "ca = /no/such.pem"
	run -125 mlrun pull -q "$registry/x"
	assert_output --partial "'$registry': $MLRUN_CONFIG:2: CA certificates: "
	assert_output --partial "/no/such.pem"
}

@test "certificate: a registry that wants ours gets it from certs.d or mlrun.conf" {
	certificate cert
	certificate me -addext subjectAltName=DNS:me
	fake --tls cert.pem --client-ca me.crt
	SSL_CERT_FILE=cert.crt run -125 mlrun pull -q "$registry/x"
	dir=$HOME/.config/containers/certs.d/$registry
	mkdir -p "$dir"
	cp cert.crt "$dir/ca.crt"
	cp me.crt "$dir/me.cert"
	run -125 mlrun pull -q "$registry/x"
	assert_output --partial "client certificate '$dir/me.cert': its key '$dir/me.key': No such file or directory"
	cp me.key "$dir/me.key"
	run -0 mlrun pull -q "$registry/x"
	rm -rf "$MLRUN_STORE" "$dir"
	conf "[registry $registry]" "ca = $PWD/cert.crt" "client_cert = $PWD/me.crt" "client_key = $PWD/me.key"
	pull_whole -q
}

@test "certificate: ours is not shown to the storage that a redirect leads to" {
	certificate cert -addext subjectAltName=IP:127.0.0.1,IP:127.0.0.2
	certificate me -addext subjectAltName=DNS:me
	fake --tls cert.pem --client-ca me.crt --redirect-blobs --storage-tls cert.pem
	conf "[registry $registry]" "ca = $PWD/cert.crt" "client_cert = $PWD/me.crt" "client_key = $PWD/me.key"
	pull_whole -q
	grep -q '^registry .* cert=shown' "$log"
	assert_equal "$(grep -c '^storage .* cert=-' "$log")" 2
}

# --- transfers ----------------------------------------------------------------

@test "stall: a silent connection is made anew and goes on at its byte" {
	fake --stall 1000000 --cuts 1
	conf "[registry $registry]" "timeout = 2"
	SECONDS=0
	run -0 mlrun pull --verbose "$registry/x"
	assert_output --partial "'$registry' sent nothing for 2 s; trying again"
	assert_pulled
	grep -q 'range=bytes=1000000-' "$log"
	assert [ $SECONDS -lt 100 ]
}

@test "stall: a manifest that trickles in has an end" {
	fake --trickle
	conf "[registry $registry]" "timeout = 1"
	SECONDS=0
	run -125 mlrun pull "$registry/x"
	assert [ $SECONDS -lt 100 ]
	assert_output --partial "'$registry' took more than 4 s for a small answer"
}

@test "stall: a layer that trickles in is given up in the end" {
	fake --trickle-blobs
	conf "[registry $registry]" "timeout = 1"
	run -125 timeout 300 mlrun pull "$registry/x"
	assert_output --partial "'$registry' sent less than 1024 bytes in 1 s"
	assert_nothing_stored
}

@test "redirect: a signature that has run out is replaced by asking the registry again" {
	fake --redirect-blobs --cut 1100000 --expire 1
	run -0 mlrun pull --verbose "$registry/x"
	assert_output --partial "the registry's storage refuses it: HTTP status 403"
	assert_pulled
	# Each try asked the registry for a redirect of its own.
	assert_equal "$(grep -c '^storage .*secret' "$log")" "$(grep -o 'signature=secret[0-9]*' "$log" | sort -u | wc -l)"
	refute_output --partial secret
}

@test "full: a disk that gets full is told with its place" {
	unshare -Urm mount -t tmpfs none "$TMPDIR" || skip "no tmpfs in user namespaces here"
	fake
	mkdir small
	run -125 unshare -Urm sh -c "mount -t tmpfs -o nr_inodes=100 none small && mlrun pull --store small/store '$registry/x'"
	assert_output --partial "no room in store '$PWD/small/store'"
	assert_output --partial "No space left on device"
}

# --- mirrors ------------------------------------------------------------------

@test "mirror: asked first, and told in one line of --verbose" {
	fake
	conf "[registry 127.0.0.1:1]" "mirror = $registry/cache"
	run -0 mlrun pull --verbose 127.0.0.1:1/x
	assert_output --partial "the mirror '$registry' serves 'cache/x'"
	assert_equal "$(grep -c "the mirror .* serves" <<<"$output")" 1
	assert_pulled
	assert_equal "$(mlrun images --json | jq -r '.[0].name')" 127.0.0.1:1/x:latest
	grep -q '^registry GET /v2/cache/x/manifests/latest ' "$log"
}

@test "mirror: one that fails in whatever way is passed over for the next" {
	fake --status 500 --refuse 1000 --refuse-manifests
	broken=$registry
	log1=$log
	fake_keep
	fake
	conf "[registry $registry]" "mirror = 127.0.0.1:1" "mirror = registry.invalid" "mirror = $broken"
	run -0 mlrun pull --verbose "$registry/x"
	assert_output --partial "the mirror '127.0.0.1:1' is passed over: cannot connect"
	assert_output --partial "the mirror 'registry.invalid' is passed over: "
	assert_output --partial "the mirror '$broken' is passed over: '$broken' answers HTTP status 500"
	assert_pulled
	# Passed over for good: a few tries for the first document, none for the layers.
	refute grep -q blobs "$log1"
}

@test "mirror: one that failed is named where the registry fails, too" {
	conf "[registry 127.0.0.1:1]" "mirror = 127.0.0.1:2"
	run -125 mlrun pull 127.0.0.1:1/x
	assert_output --partial "the mirror '127.0.0.1:2' failed (cannot connect"
	assert_output --partial "and: cannot connect to '127.0.0.1:1'"
}

@test "a web page in place of a manifest is called one; S3's reason is told; a digest may be empty" {
	fake --page 200
	run -125 mlrun pull "$registry/x"
	assert_output --partial 'not JSON, but a page of HTML or XML'
	assert_output --partial 'hint: a web server, or a proxy'
	fake --denied-by-s3
	run -125 mlrun pull "$registry/x"
	assert_output --partial 'Access Denied by policy'
	fake --digest ''
	run -0 mlrun pull -q "$registry/x"
}

@test "mirror: one that breaks off in the middle is carried on from by the registry" {
	fake --cut 1000000
	broken=$registry
	fake_keep
	fake
	conf "[registry $registry]" "mirror = $broken" "[registry $broken]" "timeout = 2"
	pull_whole --verbose
}

@test "mirror: wrong bytes are caught, and the registry's taken" {
	fake --bad-blobs
	broken=$registry
	fake_keep
	fake
	conf "[registry $registry]" "mirror = $broken"
	run -0 mlrun pull --verbose "$registry/x"
	assert_output --partial "the mirror '$broken' served wrong bytes and is passed over"
	assert_pulled
	if has_squashfs; then
		run -0 mlrun pull --store squash --format squashfs "$registry/x"
		assert [ -s squash/squash/*.sqfs ]
	fi
}

@test "mirror: sees none of the registry's credentials" {
	fake --auth basic --user ann:secret
	mirror=$registry
	mirror_log=$log
	fake_keep
	fake --auth basic --user ann:secret
	login ann:secret
	conf "[registry $registry]" "mirror = $mirror"
	pull_whole --authfile auth.json
	grep -q manifests "$mirror_log"
	refute grep -q Basic "$mirror_log"
}

# --- tags ---------------------------------------------------------------------

@test "tags: all pages, in the order people count" {
	fake --tags 25
	run -0 mlrun tags "$registry/x"
	assert_output "$(seq 0 24)"
	assert_equal "$(grep -c 'tags/list' "$log")" 3
	run -0 mlrun tags --json "$registry/x"
	assert_equal "$(jq -c '[.registry, .repository, (.tags | length)]' <<<"$output")" "[\"$registry\",\"x\",25]"
}

@test "tags: a list without an end is given up before it fills the memory" {
	fake --tags-endless
	run -125 timeout 300 mlrun tags "$registry/x"
	assert_output "mlrun: tags '$registry/x': '$registry': the list of tags has no end"
	assert [ "$(grep -c tags/list "$log")" -lt 20 ]
}

@test "tags: a list that runs in a circle ends, and failures are told" {
	fake --tags 25 --tags-circle
	run -125 mlrun tags "$registry/x"
	assert_output --partial "the list of tags runs in a circle"
	fake --auth bearer --deny-token
	run -125 mlrun tags "$registry/x"
	assert_output --partial "mlrun: tags '$registry/x': '$registry' refuses 'x': "
	assert_output --partial "log in: mlrun login $registry"
}
