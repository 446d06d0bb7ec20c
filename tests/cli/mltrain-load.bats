#!/usr/bin/env bats
# mltrain load against a server on loopback that answers as its path says (load_server.py).
load common
load mltrain

setup() {
	common_setup
	load="$top_builddir/bin/mltrain load"
}

teardown() {
	[ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
	common_teardown
}

# serve [PORT|SOCKET [CERTIFICATE]]: sets $url
serve() {
	mkfifo ready
	python3 "$top_srcdir/tests/cli/load_server.py" "${@:-0}" >ready 2>server.err 3>&- &
	server=$!
	read -r port <ready
	url=http${2:+s}://127.0.0.1:$port
}

# field NAME: of the results in r.json
# Newer versions of jq print a number as it was written, 0.0, unless it was counted with.
field() { jq -r "walk(numbers += 0) | $1" r.json; }
# shows CONDITION ARGUMENT...: a run whose results are so; where other work took the processors from it, one of ten.
shows() {
	for _ in {1..10}; do
		run -0 $load "${@:2}" --json r.json
		[ "$(field "$1")" != true ] || return 0
	done
	echo "never: $1"
	cat r.json
	return 1
}
has_bodies() { [ "$(wc -l <bodies.log)" -ge "$1" ]; }

@test "load: users ask one request after the other, and all answers are counted" {
	serve
	touch bodies.log
	run -0 $load "$url/ok" -u 3 -d 1s --json r.json --check status==200 --check 'body contains "prediction"' --check 'body == x'
	assert_line --partial "$url/ok: 3 virtual users for 1 s"
	assert_line --regexp "^  requests +$(field .requests)  [0-9.]+/s\$"
	assert_line --regexp '^  latency +min [0-9.]+ ms  avg .* p99.9 .* max '
	assert_line --regexp "^  check +body contains \"prediction\"  100.00 %: $(field .requests) passed, 0 failed\$"
	[ "$(field .requests)" -gt 20 ]
	assert_equal "$(field '[.failed, .users_max, .connections, .statuses["200"] == .requests, .unfinished] | @csv')" '0,3,3,true,0'
	assert_equal "$(field '[.checks[] | .passed == 0] | @csv')" false,false,true
	# As many as the server saw, each as it was meant.
	assert_equal "$(wc -l <bodies.log)" "$(field .requests)"
	assert_equal "$(sort -u bodies.log | sed 's/mltrain[^|]*/X/')" "GET /ok HTTP/1.1|Host: ${url#http://}|User-Agent: X|Accept: */*||"
	# Time and rows fit.
	assert_equal "$(field '.seconds >= 1 and .seconds < 20 and ([.rows[].requests] | add) <= .requests')" true
	assert_equal "$(field '.latency_ms | .min <= .med and .med <= .p90 and .p90 <= .p99 and .p99 <= .max')" true
}

@test "load: stages ramp the users, who think" {
	serve
	# Ten who ask every 20 ms at most; half as many in the ramps.
	shows '(.rows | map(.users) | .[0] >= 9 and .[1] == 10 and .[2] <= 1) and
		(.rows | .[0].requests < .[1].requests and .[1].requests > .[2].requests and .[1].requests <= 500)' \
		"$url/ok" --stages 1s:10,1s:10,1s:0 --think 20ms
	assert_line --partial "stages 1s:10,1s:10,1s:0"
	assert_equal "$(field .users_max)" 10
}

@test "load: in an open loop the clock runs from when a request was due" {
	serve
	run -0 $load "$url/hold" --rate 100 -d 2s --json open.json
	assert_line --partial "100 requests a second for 2 s"
	serve_again() { kill "$server"; rm ready; serve; }
	for _ in {1..5}; do # beside other work all its answers may be late
		serve_again
		run -0 $load "$url/hold" -u 1 --think 10ms -d 2s --json closed.json
		[ "$(jq '.latency_ms.p90 < 100' closed.json)" != true ] || break
	done
	# The server stood still for half a second: 50 requests were due meanwhile, one user lost one.
	assert_equal "$(jq '.requests == 200 and .latency_ms.p90 > 100 and .latency_ms.max > 450' open.json)" true
	assert_equal "$(jq '.latency_ms.p90 < 100 and .latency_ms.max > 450' closed.json)" true
}

@test "load: what could not be sent for want of connections is told" {
	serve
	run -0 $load "$url/slow" --rate 200 -d 1s --max-connections 4 --connections 4 --json r.json
	assert_line --regexp '^  note +[0-9]+ requests were due but not sent: all 4 connections were busy \(--max-connections\)$'
	assert_equal "$(field '.requests == 200 and .failed == .not_sent and .not_sent > 80 and .connections == 4')" true
	# The requests of rows and of the rate are those that were sent.
	assert_equal "$(field '([.rows[].requests] | add) <= 200 - .not_sent and .requests_per_second < 120')" true
}

@test "load: requests that never got out break thresholds, as those without an answer do" {
	serve
	run -99 $load "$url/stall" --rate 200 -d 400ms --timeout 500ms --max-connections 4 --json r.json \
		--threshold 'p(50)<100ms' --threshold 'http_req_failed:rate<1%' --threshold 'http_reqs:count<5'
	assert_equal "$(field '[.requests, .failed, .failures.timeout, .not_sent, .unfinished] | @csv')" 80,80,80,76,0
	assert_equal "$(field '[.thresholds[].kept] | @csv')" false,false,true
	# Those who wait for an answer in vain do not make the run longer than it was.
	assert_equal "$(field .seconds)" 0.4
	: >bodies.log
	env --default-signal=INT $load "$url/stall" --rate 200 -d 1m --max-connections 4 --json r.json >out 3>&- &
	local pid=$!
	until_true has_bodies 4
	sleep 0.5 # others are due meanwhile
	kill -INT "$pid"
	wait "$pid" || true
	assert_equal "$(field '.not_sent > 0 and .failed == .not_sent and .unfinished == 4')" true
}

@test "load: the first connections of an open loop are there before its clock starts" {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	cat key cert >both
	serve 0 both
	run -0 $load "$url/ok" --cacert cert --rate 1000 -d 3ms --connections 20 --max-connections 20 --json r.json
	assert_equal "$(field '[.connections, .requests, .failed] | @csv')" 20,3,0
}

@test "load: an open loop takes connections that it has, and makes others when they are lost" {
	serve
	shows '.requests == 100 and .failed == 0 and .connections < 60' "$url/ok" --rate 100 -d 1s
	run -0 $load "$url/once" --rate 100 -d 1s --json r.json
	assert_equal "$(field '.requests == 100 and .failed == 0 and .connections == 100')" true
	# Idle ones that the server closes are no failures; it has a third of a second for it.
	shows '.requests == 9 and .failed == 0 and .connections >= 5' "$url/tired" --rate 3 -d 3s
}

@test "load: bodies, headers, a method and a token are sent as given" {
	serve
	touch bodies.log
	printf 'from a file\n' >body
	echo s3cret >token
	shows '.requests >= 3' "$url/ok?x=1" -u 1 -d 200ms --body '{"text":["a"]}' --body @body -H 'X-One: 1' --token-file token --method PUT
	sed -n 1,3p bodies.log >first
	run -0 cut -d'|' -f1,5-9 first
	assert_line --index 0 'PUT /ok?x=1 HTTP/1.1|Authorization: Bearer s3cret|X-One: 1|Content-Type: application/json|Content-Length: 14|'
	run -0 grep -c '||from a file$' bodies.log
	run -0 $load "$url/ok" -u 1 -d 100ms --no-keep-alive --json r.json
	assert_equal "$(field '.connections == .requests')" true
}

@test "load: --also asks for other paths first, in each turn of a user" {
	serve
	touch bodies.log
	run -0 $load "$url/ok" -u 3 -d 500ms --think 10ms --body '{"n":{unique}}' --cache-rate 0.5 --also /slow --also '/early?x' \
		--check status==200 --json r.json
	cut -d' ' -f1,2 bodies.log | sort | uniq -c | sort -k3 >paths
	run -0 awk '{ print $2, $3 }' paths
	assert_output "GET /early?x
POST /ok
GET /slow"
	# As often as each other, but for the last turns. The check is of the main one.
	run -0 awk 'NR == 1 { least = most = $1 } { if ($1 < least) least = $1; if ($1 > most) most = $1 } END { print most - least <= 3 }' paths
	assert_output 1
	assert_equal "$(field '.checks[0].failed == 0 and .checks[0].passed == .known + .unique')" true
	# In order, each user's: nobody asks /ok before the others.
	run -0 $load "$url/ok" -u 1 -d 100ms --also /slow --json r.json
	run -0 awk -v n="$(field .requests)" '{ line[NR] = $2 } END { for (i = NR - n + 1; i <= NR; i++) { want = (i - NR + n) % 2 ? "/slow" : "/ok"; if (line[i] != want) { print i, line[i]; exit 1 } } }' bodies.log
	run -1 $load "$url/ok" --also health
	assert_output --partial "'health' is not a path such as /health"
}

@test "load: --abort-on-fail ends a run that cannot keep its thresholds" {
	serve
	run -99 timeout 55 $load "$url/slow" -u 1 -d 60s --threshold 'p(99)<2ms' --threshold 'http_reqs:count>1000' --abort-on-fail --json r.json
	assert_equal "$(field '.interrupted and .seconds < 50 and (.thresholds[0].kept | not)')" true
	# Not before its time, nor for what is kept, nor for a count, which grows.
	run -99 timeout 55 $load "$url/slow" -u 1 -d 2500ms --threshold 'p(99)<2ms' --abort-on-fail=10s --json r.json
	assert_equal "$(field '.interrupted')" false
	run -99 timeout 55 $load "$url/slow" -u 1 -d 2500ms --threshold 'p(99)<20s' --threshold 'http_reqs:count>1000' --abort-on-fail --json r.json
	assert_equal "$(field '.interrupted')" false
	run -2 $load "$url/slow" --abort-on-fail=soon
	assert_output --partial "--abort-on-fail 'soon' is not a time"
}

@test "load: a share of requests is unique, and others repeat what a cache knows" {
	serve
	touch bodies.log
	run -0 $load "$url/hit" -u 2 -d 1s --body '{"n":{unique}}' --cache-rate 0.5 --check 'header x-mlapi-cache == "Hit"' --json r.json
	assert_line --regexp '^  bodies +(4[0-9]|5[0-9]|60)\.. % known'
	# Each unique body was a miss; each known one but the first a hit.
	assert_equal "$(field '.known + .unique == .requests and .checks[0].passed == .known - 1')" true
	assert_equal "$(grep -o '"n":.*' bodies.log | sort | uniq -u | wc -l)" "$(field .unique)"
	run -0 $load "$url/hit" -u 2 -d 300ms --body '{"n":{unique}}' --cache-rate 0 --check 'header x-mlapi-cache == "Hit"' --json r.json
	assert_equal "$(field '.checks[0].passed')" 0 # nor any of the run before
	# An interim answer's headers are not the answer's.
	run -0 $load "$url/interim" -u 1 -d 100ms --check 'header x-mlapi-cache == "Hit"' --json r.json
	assert_equal "$(field '.failed == 0 and .checks[0].failed == .requests')" true
}

@test "load: pictures of a data set or a folder are sent in turn" {
	needs_data
	SMALL=$PWD/small
	mkdir small
	for name in train t10k; do # 20 images of each
		cut_idx $name-images-idx3-ubyte 16 784 20
		cut_idx $name-labels-idx1-ubyte 8 1 20
	done
	serve
	touch bodies.log
	run -0 $load "$url/hit" -u 1 -d 500ms --images ./small --cache-rate 0.5 --json r.json
	run -0 grep -ac 'POST /hit .*|Content-Type: image/png|' bodies.log
	assert_equal "$output" "$(field .requests)"
	run -0 $load "$url/hit" -u 1 -d 200ms --images ./small --body '{"instances":[{"b64":"{base64}"}],"data":{pixels}}'
	grep -a instances bodies.log | head -n 1 | sed 's/.*||//' >first
	assert_equal "$(jq '.data | length' first)" 784
	jq -r '.instances[0].b64' first | base64 -d >folder.png
	mkdir folder
	mv folder.png folder/a.png
	rm bodies.log
	touch bodies.log
	run -0 $load "$url/hit" -u 1 -d 200ms --images folder --body '{pixels}'
	assert_equal "$(head -n 1 bodies.log | sed 's/.*||//' | jq -c .)" "$(jq -c .data first)"
	# Of three known pictures all but the first three requests are hits.
	run -0 $load "$url/hit" -u 1 -d 1s --images ./small --known 3 --body '{"known":{pixels}}' --check 'header X-MLAPI-Cache == Hit' --json r.json
	assert_equal "$(field '.requests > 3 and .checks[0].failed == 3')" true
	mkdir none
	run -1 $load "$url/ok" --images none
	assert_line --partial "mltrain: load: "
}

@test "load: thresholds decide the exit status as k6's do" {
	serve
	run -0 $load "$url/sick" -u 1 -d 1s --threshold 'p(99)<2000ms' --threshold http_req_failed:rate\<0.6 --threshold 'http_reqs:count>1'
	assert_line --regexp '^  threshold +p\(99\)<2000ms  kept: [0-9.]+ ms$'
	assert_line --regexp '^  failed +[0-9]+  [45][0-9.]+ %  status [0-9]+$'
	run -99 $load "$url/sick" -u 1 -d 1s --threshold 'p(99)<2000ms' --threshold 'http_req_failed:rate<1%'
	assert_line --regexp '^  threshold +http_req_failed:rate<1%  broken: [45][0-9.]+ %$'
	run -99 $load "$url/ok" -u 1 -d 200ms --check status==201 --threshold 'checks:rate>0.9' -q --json r.json
	assert_output ""
	assert_equal "$(field '.thresholds[0] | [.kept, .value] | @csv')" false,0
}

# Two runs, without and with what a cache knows.
two_runs() {
	serve
	run -0 $load "$url/slow" -u 4 -d 2s --name 'no <cache>' --json without.json -q --check status==201
	run -99 $load "$url/ok" --rate 200 -d 2s --name cached --json with.json -o with.html -q --threshold 'p(99)<0.001'
}

@test "load: results become a page, and runs stand side by side" {
	two_runs
	grep -q "<h1>Load on $url/ok</h1>" with.html
	[ "$(mltrain report with.json -o - | cksum)" = "$(cksum <with.html)" ]
	run -0 mltrain report without.json with.json
	grep -q '<h1>Load: 2 runs</h1>' report.html
	grep -q 'no &lt;cache&gt;' report.html
	run ! grep -q 'no <cache>' report.html
	# Nothing is loaded from anywhere.
	run ! grep -Eq '(src|href)=|@import|url\([^#]' report.html
	grep -q '<th scope="row">med</th><td class="num">[5-9][0-9.]* ms <small></small></td><td class="num">[0-9.]* ms <small>÷[0-9.]*</small></td>' report.html
	grep -q '<td>p(99)&lt;0.001</td><td class="num">[0-9.]* ms</td><td><span class="outcome odd">broken</span>' report.html
	local id
	for id in times percentiles rate users; do grep -q "<figure class=\"chart\" id=\"$id\">" report.html; done
	run ! grep -q 'id="failed"' report.html
	# A file may hold several, but a page shows one kind of runs.
	cat without.json with.json >both.json
	[ "$(mltrain report both.json -o - | cksum)" = "$(cksum <report.html)" ]
	# Runs of one name are told apart by their files.
	cat without.json without.json >both.json
	run -0 mltrain report without.json both.json with.json
	for where in without.json both.json both.json:2; do grep -qF "<th>no &lt;cache&gt; ($where)</th>" report.html || grep -qF "no &lt;cache&gt; ($where)" report.html; done
	run ! grep -qF 'cached (' report.html
	echo '{"event":"run","step":0,"steps":30,"batch":64,"seconds":0}' >train.jsonl
	run -1 mltrain report with.json train.jsonl
	assert_output "mltrain: 'train.jsonl': a page shows runs of training or of load, not both"
	echo '{"event":"load_test"}{' >bad.json
	run -1 mltrain report bad.json
	assert_output "mltrain: 'bad.json' line 1 is not what \`mltrain load --json\` writes"
	# On standard output stands one thing alone.
	run -0 --separate-stderr $load "$url/ok" -d 100ms --json -
	jq -e .requests <<<"$output"
	[[ $stderr == *"  requests  "* ]]
}

@test "load: a browser shows the page, asks nobody for anything, and tells values under the pointer" {
	BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) &&
		"$BROWSER" --version >/dev/null 2>&1 || # Ubuntu's package is a script that asks for a snap
		skip "no Chromium (Debian: apt-get install chromium)"
	two_runs
	mltrain report without.json with.json
	PYTHONPATH=$top_srcdir/tests/cli PYTHONDONTWRITEBYTECODE=1 BROWSER=$BROWSER python3 - <<-'END'
		import os
		from browser import Browser
		with Browser(os.environ["BROWSER"]) as b:
		    page = "file://" + os.getcwd() + "/report.html"
		    b.open(page)
		    assert b.value("document.documentElement.dataset.ready") == "yes"
		    assert b.value("document.querySelectorAll('.chart').length") == 4
		    assert b.value("document.querySelector('#latency thead').innerText.includes('no <cache>')")
		    b.value("document.querySelector('#percentiles .plot').focus()")
		    b.key("End")
		    said = b.value("document.querySelector('#percentiles [aria-live]').textContent")
		    assert said.startswith("one of 4") and "cached" in said and said.endswith(" ms"), said
		    assert not b.errors, b.errors
		    b.open(page, width=360, height=700)
		    assert b.value("document.documentElement.scrollWidth") <= 360, "it scrolls sideways"
	END
}

kinds() { field '.failures | to_entries | map(select(.value > 0).key) | @csv'; }

@test "load: each kind of failure is counted, in bounded time and memory" {
	serve
	local kind
	for kind in reset:closed half:closed cut:closed garbage:garbage header:size stall:timeout endless:timeout; do
		for _ in {1..10}; do # beside other work any answer may come too late
			# The sanitizers want terabytes of addresses.
			([ "$sanitizers" = yes ] || ulimit -v 400000; $load "$url/${kind%:*}" -u 2 -d 300ms --timeout 200ms --json r.json) >out
			[ "$(field '.requests >= 2 and .seconds < 2') $(kinds)" != "true \"${kind#*:}\"" ] || break
		done
		[ "$(field .requests)" -ge 2 ]
		assert_equal "$kind $(kinds)" "$kind \"${kind#*:}\""
		assert_equal "$(field '.failed == .requests and .seconds < 2')" true
		refute grep -q $'\x1b' out
	done
	run -0 $load "$url/once" -u 2 -d 300ms --json r.json
	assert_equal "$(field '.failed == 0 and .connections == .requests')" true
	run -0 $load "$url/chunked" -u 2 -d 300ms --check 'body == "{\"prediction\":[7]}"' --json r.json
	assert_equal "$(field .failed)" 0
	# A server that says why it takes no more of a body is heard.
	head -c 20000000 /dev/zero >big
	run -0 $load "$url/early" -u 1 -d 300ms --body @big --json r.json
	assert_equal "$(field '.requests > 0 and (.kinds.closed // 0) < .requests and .statuses["413"] > 0')" true
}

@test "load: a server that is not there is told soon, with the way out" {
	serve
	kill "$server"
	local start=$SECONDS
	run -1 $load "$url/ok" -u 4 -d 1m
	assert_line "mltrain: load: connect to '${url#http://}': Connection refused"
	assert_line "hint: is the server running, and does it listen there?"
	[ $((SECONDS - start)) -lt 50 ]
	run -1 $load http://no-such-host.invalid/ -d 1s
	assert_output --partial "mltrain: load: host 'no-such-host.invalid': "
	run -1 $load unix:./none -d 100ms
	assert_output --partial "connect to 'unix:./none': No such file or directory"
}

@test "load: a server that goes away in between costs what was on its way" {
	serve
	touch bodies.log
	$load "$url/slow" -u 4 -d 6s --json r.json >out 3>&- &
	local pid=$!
	until_true has_bodies 50
	kill -9 "$server"
	sleep 0.5
	rm ready
	serve "$port"
	wait $pid
	assert_equal "$(field '.failures.closed <= 8 and .failures.connection > 0 and .statuses["200"] > 40')" true
	assert_equal "$(field '.rows | last | .requests > 0 and .failed == 0')" true
}

@test "load: over TLS the certificate is checked, and a socket has a name in the file system" {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	cat key cert >both
	serve 0 both
	run -1 $load "$url/ok" -u 1 -d 300ms
	assert_line --partial "mltrain: load: connect to '${url#https://}': self-signed certificate"
	assert_line --partial "hint: --cacert FILE trusts another authority"
	run -0 $load "$url/ok" -u 2 -d 300ms --cacert cert --json r.json
	assert_equal "$(field '.failed == 0 and .requests > 10 and .connections == 2')" true
	run -0 $load "$url/ok" -u 2 -d 300ms --tls-verify=false --no-keep-alive --json r.json
	assert_equal "$(field '.failed == 0 and .connections == .requests')" true
	# A name that the certificate does not have.
	run -1 $load "https://localhost:$port/ok" -u 1 -d 300ms --cacert cert
	assert_line --partial "hostname mismatch"
	run -1 $load "$url/ok" --cacert key
	assert_output --partial "certificates of authorities 'key'"
	kill "$server"
	rm ready
	serve ./s
	run -0 $load unix:./s:/ok -u 2 -d 300ms --json r.json
	assert_equal "$(field '.failed == 0 and .requests > 10')" true
}

@test "load: interrupted, it still prints what it has" {
	serve
	local signal pid status
	touch bodies.log
	for signal in INT TERM; do
		: >bodies.log
		env --default-signal=INT $load "$url/ok" -u 2 -d 1m --json r.json >out 3>&- &
		pid=$!
		until_true has_bodies 10
		kill -$signal "$pid"
		status=0
		wait "$pid" || status=$?
		assert_equal "$status" "$([ $signal = INT ] && echo 130 || echo 143)"
		grep -E '^  note +the run was interrupted after [0-9.]+ s$' out
		assert_equal "$(field '.interrupted and .requests > 5')" true
	done
}

@test "load: on a terminal a line tells of each second, elsewhere nothing is told" {
	serve
	run -0 env TERM=xterm python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' $load "$url/ok" -u 2 -d 1200ms
	assert_output --partial $'\r1 of 1.2 s  2 users  '
	assert_output --partial $'\r\e[K'
	run -0 --separate-stderr $load "$url/ok" -u 2 -d 1200ms
	assert_equal "$stderr" ""
}

@test "load: too few open files are told with the way out" {
	serve
	run -1 bash -c "ulimit -n 100 && $load $url/ok -u 200 -d 1s"
	assert_line "mltrain: load: 200 connections need 232 open files, but this process may have 100"
	assert_line --partial "hint: "
	# Where only the soft limit is low, it is raised.
	run -0 bash -c "ulimit -Sn 50 && $load $url/ok -u 100 -d 300ms --json r.json"
	assert_equal "$(field '.failed == 0 and .connections == 100')" true
}

@test "load: what makes no sense is told and named" {
	run -2 $load
	assert_output --partial "which URL?"
	run -2 $load http://x/ --stages 30s:20,1x:3
	assert_output --partial "--stages '30s:20,1x:3': stage 2: '1x' is not a duration such as 30s, 1m30s or 500ms"
	run -2 $load http://x/ --threshold 'q(9)<1'
	assert_output --partial "--threshold 'q(9)<1': 'q' is none of avg"
	run -2 $load http://x/ --check 'code==1'
	assert_output --partial "--check 'code==1': it begins with none of status, body and header"
	run -2 $load http://x/ --rate 5 -u 3
	assert_output --partial "--rate is another kind of load"
	run -2 $load http://x/ --connections 3
	assert_output --partial "a virtual user has one connection"
	run -2 $load http://x/ --stages 1s:1 -d 3s
	assert_output --partial "--stages says the users and the time"
	run -2 $load http://x/ --body @none
	assert_output --partial "open 'none': No such file or directory"
	run -2 $load http://x/ --timeout 0s
	assert_output --partial "--timeout takes a time above 0 such as 90, 90s, 1m30s, 8h or 2d, not '0s'"
	run -1 $load localhost:8000
	assert_output --partial "hint: is http://localhost:8000 meant?"
	run -1 $load http://127.0.0.1:1/ --body '{}' --cache-rate 0.5
	assert_output --partial "hint: write {unique} where a number may stand"
	run -2 $load http://x/ --vuss 3
	assert_output --partial "hint: is --vus meant?"
}

@test "load: mltrain itself loads none of the libraries that it takes" {
	run -0 ldd "$top_builddir/bin/mltrain"
	refute_output --partial libssl
	run -0 ldd "$top_builddir/bin/mltrain-load"
	refute_output --partial libdnnl
}
