#!/usr/bin/env bats
# mltrain fetch against a server of files on loopback that misbehaves on demand.

load common

setup() {
	common_setup
	unset CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR
	mkdir served
	head -c 3000000 /dev/urandom >served/data.gz
	sum=$(sha256sum <served/data.gz | cut -d' ' -f1)
}

teardown() {
	server_stop
	common_teardown
}

# server_start [OPTION...]: sets $URL; its requests are in server.log
server_start() {
	server_stop
	rm -f server.log
	mkfifo "server.in.$((++servers))" "server.out.$servers"
	python3 "$top_srcdir/tests/cli/file_server.py" served server.log "$@" <"server.in.$servers" >"server.out.$servers" 3>&- &
	server_pid=$!
	exec {server_in}>"server.in.$servers"
	read -r URL <"server.out.$servers"
	URL=http://$URL
}

server_stop() {
	[ -z "${server_in:-}" ] || exec {server_in}>&-
	server_in=
}

requests() { wc -l <server.log; }

# The file comes as it is served, into dir.
fetch_whole() {
	mltrain fetch "$URL/data.gz" --to dir
	cmp served/data.gz dir/data.gz
}

# Nothing but what was asked for.
assert_listing() {
	assert_equal "$(ls -A "$1" | sort | xargs)" "$2"
}

@test "fetch: a URL's file is there whole, its digest written down" {
	server_start
	run -0 --separate-stderr mltrain fetch "$URL/data.gz" --to here/there
	assert_output "here/there/data.gz"
	[[ $stderr == *"nothing is known to compare its sha256 $sum with, which is written down in 'here/there/SHA256SUMS'"* ]]
	cmp served/data.gz here/there/data.gz
	(cd here/there && sha256sum -c SHA256SUMS)
	assert_listing here/there ".fetch.lock SHA256SUMS data.gz"

	# again: it is there already, and nobody is asked
	run -0 --separate-stderr mltrain fetch "$URL/data.gz" --to here/there
	[[ $stderr == *"'here/there/data.gz' is there already"* ]]
	assert_equal "$(requests)" 1

	# a file that was written down comes as that, or not at all
	echo changed >served/data.gz
	rm here/there/data.gz
	run -1 mltrain fetch "$URL/data.gz" --to here/there
	assert_output --partial "where $sum was expected"
	assert_listing here/there ".fetch.lock SHA256SUMS"
}

@test "fetch: a digest that is given is checked before the file appears" {
	server_start
	run -0 mltrain fetch "$URL/data.gz" --sha256 "${sum^^}"
	assert_output --partial "its sha256 as expected"
	cmp served/data.gz data.gz
	rm data.gz SHA256SUMS
	wrong=${sum//[0-7]/8}
	run -1 mltrain fetch "$URL/data.gz" --sha256 "$wrong" --to dir
	assert_output --partial "mltrain: fetch '$URL/data.gz': $URL/data.gz: its sha256 is $sum where $wrong was expected"
	assert_output --partial "hint: the file on the server has changed"
	assert_listing dir ".fetch.lock"
}

@test "fetch: a connection that is cut goes on where it ended" {
	server_start --cut 1000000 --cuts 2
	run -0 mltrain fetch "$URL/data.gz" --sha256 "$sum"
	cmp served/data.gz data.gz
	run cat server.log
	assert_line --index 0 --regexp '^GET /data.gz 200 range= '
	assert_line --index 1 --regexp '^GET /data.gz 206 range=bytes=1000000- if-range="'
	assert_line --index 2 --regexp '^GET /data.gz 206 range=bytes=2000000- '
}

@test "fetch: without an ETag, or with a weak one, the time of change names the version" {
	for how in --no-etag --weak-etag; do
		server_start --cut 1000000 --cuts 1 $how
		run -0 mltrain fetch "$URL/data.gz" --sha256 "$sum" --to ${how#--}
		run cat server.log
		assert_line --index 1 --regexp '206 range=bytes=1000000- if-range=Sat, 01 Jan 2022'
	done
}

has_size() { [ "$(stat -c %s "$1" 2>/dev/null)" = "$2" ]; }

@test "fetch: one that was killed goes on where it ended" {
	server_start --stall 1500000
	mltrain fetch "$URL/data.gz" --to dir 3>&- &
	pid=$!
	until_true has_size dir/.data.gz.part 1500000
	kill -KILL $pid
	wait $pid || true
	assert_listing dir ".data.gz.part .data.gz.part.from .fetch.lock"
	fetch_whole
	run cat server.log
	assert_line --index 1 --regexp '206 range=bytes=1500000- '
	assert_listing dir ".fetch.lock SHA256SUMS data.gz"
}

# leave_part [OPTION...]: a download that could not be finished, and its server gone
# shellcheck disable=SC2120 # no option, most often
leave_part() {
	server_start --cut 1000 "$@"
	run -1 mltrain fetch "$URL/data.gz" --to dir
	assert_output --partial "hint: the same command again goes on where this one ended"
	[ -s dir/.data.gz.part ]
}

# serve_at_once: the server again, at the same URL by the part's own word
serve_at_once() {
	server_start "$@"
	sed -i "1s|.*|$URL/data.gz|" dir/.data.gz.part.from
}

@test "fetch: a file that has changed meanwhile begins anew" {
	leave_part
	head -c 2000000 /dev/urandom >served/data.gz
	serve_at_once
	fetch_whole
	run cat server.log
	assert_output --regexp '^GET /data.gz 200 range=bytes=[0-9]+- if-range="[0-9a-f]*"$'

	# and one that has become empty is that, not what the part held
	rm -r dir
	leave_part
	: >served/data.gz
	serve_at_once
	fetch_whole
}

@test "fetch: a server that knows no If-Range, or sends other bytes than asked for, does no harm" {
	leave_part
	head -c 2000000 /dev/urandom >served/data.gz
	serve_at_once --other-version
	fetch_whole
	for how in --wrong-range --no-range; do
		rm -r dir
		leave_part
		serve_at_once $how
		fetch_whole
	done
}

@test "fetch: a part that was all of it already is taken, one that is more is not" {
	leave_part
	cp served/data.gz dir/.data.gz.part
	serve_at_once
	fetch_whole
	run cat server.log
	assert_output --regexp '^GET /data.gz 416 range=bytes=3000000- if-range="[0-9a-f]*"$'
	rm -r dir
	leave_part
	cat served/data.gz served/data.gz >dir/.data.gz.part
	serve_at_once
	fetch_whole
}

@test "fetch: a server that sends less than asked for is asked for the rest, half a file is none" {
	server_start --cut 1000000 --cuts 1 --piece 700000
	fetch_whole
	assert_equal "$(requests)" 4
	server_start --half
	run -1 mltrain fetch "$URL/data.gz" --to other
	assert_output --partial "the server sent another part than asked for"
	assert_listing other ".fetch.lock"
}

@test "fetch: a server that never comes to the end is not asked for ever" {
	server_start --cut 1200000 --no-range
	run -1 timeout 300 mltrain fetch "$URL/data.gz" --to dir
	[ "$(requests)" -le 6 ]
}

@test "fetch: a password in a URL is told to nobody" {
	server_start --cut 1000
	run -1 timeout 300 mltrain fetch "http://me:s3cret@${URL#http://}/data.gz" --to dir
	assert_output --partial "mltrain: fetch '$URL/data.gz': $URL/data.gz: "
	refute_output --partial s3cret
	assert_equal "$(stat -c %a dir/.data.gz.part.from)" 600
}

@test "fetch: a server that is busy is asked again, one that says no is not" {
	server_start --refuse 2 --status 503
	fetch_whole
	assert_equal "$(requests)" 3
	server_start
	run -1 mltrain fetch "$URL/none.gz" --to dir
	assert_output "mltrain: fetch '$URL/none.gz': $URL/none.gz: the server answered 404"
	assert_equal "$(requests)" 1
	assert_listing dir ".fetch.lock SHA256SUMS data.gz"
}

@test "fetch: redirects are followed, without a length too" {
	server_start --no-length
	to=$URL
	into=$server_in
	server_in=
	server_start --redirect "$to"
	fetch_whole
	exec {into}>&-
}

@test "fetch: a certificate must be trusted, and https leads to no http" {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 \
		-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>/dev/null
	cat key.pem cert.pem >both.pem
	server_start --tls both.pem
	url=${URL/http/https}
	run -1 mltrain fetch "$url/data.gz" --to dir
	assert_output --partial "SSL certificate problem"
	assert_output --partial "hint: --cacert FILE trusts another certificate authority"
	assert_listing dir ".fetch.lock"
	mltrain fetch "$url/data.gz" --to dir --cacert cert.pem
	cmp served/data.gz dir/data.gz
	CURL_CA_BUNDLE=$PWD/cert.pem mltrain fetch "$url/data.gz" --to dir2
	SSL_CERT_FILE=$PWD/cert.pem mltrain fetch "$url/data.gz" --to dir3

	server_start
	plain=$URL
	into=$server_in
	server_in=
	server_start --tls both.pem --redirect "$plain"
	run -1 mltrain fetch "${URL/http/https}/data.gz" --to dir4 --cacert cert.pem
	assert_output --regexp 'Protocol "http" (not supported|disabled)'
	assert_listing dir4 ".fetch.lock"
	exec {into}>&-
}

@test "fetch: without the internet the way out is told" {
	server_start
	url=$URL
	server_stop
	until_true is_gone "$server_pid"
	run -1 mltrain fetch "$url/data.gz" --to dir
	assert_output --partial "mltrain: fetch '$url/data.gz': $url/data.gz: "
	assert_output --partial "hint: where this machine has no internet, fetch on one that has and copy the directory here ('dir'), or set https_proxy"
	run -1 mltrain fetch http://no-such-host.invalid/x --to dir
	assert_output --partial "no-such-host.invalid"
	assert_output --partial "hint: where this machine has no internet"
}

@test "fetch: two at once take turns, and both end well" {
	server_start --cut 2900000 --cuts 1
	mltrain fetch "$URL/data.gz" --to dir 2>first &
	pid=$!
	mltrain fetch "$URL/data.gz" --to dir 2>second
	wait $pid
	cmp served/data.gz dir/data.gz
	cat first second
	grep -q "is there already" first second
	assert_listing dir ".fetch.lock SHA256SUMS data.gz"
	assert_equal "$(grep -c ' 200 ' server.log)" 1
}

@test "fetch: a file of that name that is another is replaced once the right one is there" {
	server_start
	mkdir dir
	echo mine >dir/data.gz
	run -1 mltrain fetch "$URL/data.gz" --to dir --sha256 "${sum//[0-7]/8}"
	assert_equal "$(cat dir/data.gz)" mine
	run -0 mltrain fetch "$URL/data.gz" --to dir --sha256 "$sum"
	assert_output --partial "'dir/data.gz' is there with the sha256 "
	cmp served/data.gz dir/data.gz
}

@test "fetch: a disk that is full is told, and what came stays for later" {
	server_start
	(
		ulimit -f 1000
		trap '' XFSZ
		run -1 mltrain fetch "$URL/data.gz" --to dir
		assert_output --partial "$URL/data.gz: write: File too large"
	)
	assert_listing dir ".data.gz.part .data.gz.part.from .fetch.lock"
}

# make_cifar DIR: CIFAR-10's files, small
make_cifar() {
	mkdir -p "$1/cifar-10-batches-bin"
	for f in data_batch_{1..5}.bin test_batch.bin; do
		head -c $((20 * 3073)) /dev/zero >"$1/cifar-10-batches-bin/$f"
	done
	printf '%s\n' airplane automobile bird cat deer dog frog horse ship truck '' >"$1/cifar-10-batches-bin/batches.meta.txt"
	echo hello >"$1/cifar-10-batches-bin/readme.html"
}

@test "fetch: an archive of CIFAR-10 is unpacked, of which nothing but its files comes out" {
	make_cifar c
	echo evil >c/evil
	tar -C c -czf served/cifar-10-binary.tar.gz --transform 's|^evil|../evil|' -P cifar-10-batches-bin evil
	server_start
	run -0 mltrain fetch "$URL/cifar-10-binary.tar.gz" --to dir/below
	assert_output --partial "unpacked 'cifar-10-binary.tar.gz' in 'dir/below'"
	assert_listing dir/below ".fetch.lock SHA256SUMS batches.meta.txt data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin"
	assert_listing dir below
	(cd dir/below && sha256sum -c --ignore-missing SHA256SUMS)
	cmp c/cifar-10-batches-bin/test_batch.bin dir/below/test_batch.bin

	# again: all is there already; and when one of the files is not, it comes anew
	mltrain fetch "$URL/cifar-10-binary.tar.gz" --to dir/below
	assert_equal "$(requests)" 1
	echo damaged >dir/below/data_batch_2.bin
	mltrain fetch "$URL/cifar-10-binary.tar.gz" --to dir/below
	assert_equal "$(requests)" 2
	cmp c/cifar-10-batches-bin/data_batch_2.bin dir/below/data_batch_2.bin
}

@test "fetch: a set is looked for at the mirror first, and must have its known digest" {
	mkdir -p served/sets/mnist
	cp served/data.gz served/sets/mnist/train-images-idx3-ubyte.gz
	server_start
	# the set's own places are not to be reached
	https_proxy=http://127.0.0.1:1 http_proxy=http://127.0.0.1:1 no_proxy=127.0.0.1 \
		run -1 mltrain fetch mnist --mirror "$URL/sets" --to dir
	assert_output --partial "$URL/sets/mnist/train-images-idx3-ubyte.gz: its sha256 is $sum where 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 was expected; trying the next place"
	assert_output --partial "mltrain: fetch 'mnist': https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz: "
	[ ! -e dir/mnist/train-images-idx3-ubyte.gz ]
}

@test "fetch: a set goes where --data finds it" {
	server_start
	XDG_DATA_HOME=$PWD/xdg https_proxy=http://127.0.0.1:1 run -1 mltrain fetch cifar-100
	[ -d xdg/datasets/cifar-100 ]
	assert_output --partial "copy the directory here ('$PWD/xdg/datasets/cifar-100')"
}

@test "fetch: what makes no sense is told with its way out" {
	run -2 mltrain fetch
	assert_output --partial "which data set? one of mnist, fashion-mnist, cifar-10, cifar-100, or a URL"
	run -2 mltrain fetch imagenet
	assert_output --partial "'imagenet' is neither a URL nor one of mnist"
	run -2 mltrain fetch --sha256 abc http://127.0.0.1/x
	assert_output --partial "--sha256 'abc' is not 64 hexadecimal digits"
	run -2 mltrain fetch --sha256 "$sum" mnist
	assert_output --partial "--sha256 goes with a single URL"
	for url in http://127.0.0.1 http://127.0.0.1/ http://127.0.0.1/a/.. http://127.0.0.1/%2e%2e http://127.0.0.1/SHA256SUMS; do
		run -1 mltrain fetch "$url"
		assert_output --partial "the end of '$url' is not a file name"
	done
	run -2 mltrain fetch --bogus
	assert_output "mltrain: fetch: unknown option '--bogus'
hint: mltrain fetch --help lists the options"
	run -2 mltrain fetch --miror http://127.0.0.1/ mnist
	assert_output --partial "hint: is --mirror meant? mltrain fetch --help lists the options"
	run -1 mltrain fetch gopher://127.0.0.1/x
	assert_output --partial "gopher"
}

@test "fetch: mltrain itself loads none of the libraries that it takes" {
	run ldd "$top_builddir/bin/mltrain"
	refute_output --regexp 'libcurl|libarchive|libcrypto'
}
