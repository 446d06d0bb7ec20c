#!/usr/bin/env bats
# mlrun web: runs on a page. By curl, and by a browser that loads the page from it.
# shellcheck disable=SC2016 # the shell inside expands

load common

setup_file() {
	[ -x "$top_builddir/bin/mlrun-web" ] || skip_file "mlrun web is not built: libmicrohttpd is missing"
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	IMG=rootfs:$BATS_FILE_TMPDIR/root
	mkdir runs
}

teardown() {
	services_end
	common_teardown
}

# web [OPTION...]: start a server of ./runs; sets $server, $url, $key, $socket and $header.
web() {
	local root=()

	[ "$(id -u)" != 0 ] || root=(--allow-root)
	mlrun web --listen 127.0.0.1:0 "${root[@]}" "$@" "$PWD/runs" >said 2>&1 3>&- &
	server=$!
	PIDS+=("$server")
	until_true grep -q '^elsewhere' said
	url=$(sed -n 's/^here  *\(.*\)#k=.*/\1/p' said)
	key=$(sed -n 's/^here .*#k=//p' said)
	socket=$(mlrun web list --json | jq -r ".[] | select(.pid == $server).socket")
	header=$(mlrun web list --json | jq -r ".[] | select(.pid == $server).header_file")
}

# get PATH [CURL-OPTION...], post PATH JSON [CURL-OPTION...]: as scripts do
get() { curl -sg --max-time 60 --unix-socket "$socket" -H @"$header" "${@:2}" "http://localhost/api/v1/$1"; }
post() { get "$1" -H 'Content-Type: application/json' --data-binary @- "${@:3}" <<<"$2"; }
# code ARGUMENT...: the status of an answer to curl
code() { curl -sg --max-time 60 -o answer -w '%{http_code}' "$@"; }
# ids [QUERY]: of the runs that match
ids() { get "runs?q=${1-}" | jq -r '.runs[].id'; }
listed() { [ "$(get runs | jq -c '[.matched, .scanning]')" = "[$1,false]" ]; }
# statuses [OPTION]: of the services, no other containers
statuses() { mlrun ps "$@" --json | jq -r '.[] | select(.name).status'; }
state_is() { [ "$(get "runs/$1" | jq -r .state)" = "$2" ]; }
# start NAME COMMAND...: prints the run's id
start() {
	post runs "$(printf '%s\0' "$PWD/runs" "$IMG" "$@" | jq -Rsc 'split("\u0000") |
		{directory: .[0], experiment: "tests", image: .[1], name: .[2], command: .[3:]}')" | jq -r .id
}

@test "web: two lines say where the page is; link, list and stop know the server" {
	local at

	web
	run -0 cat said
	assert_line --regexp '^here       http://127\.0\.0\.1:[0-9]+/#k=[0-9a-f]{32}$'
	assert_line --regexp "^elsewhere  ssh -L [0-9]+:127\.0\.0\.1:[0-9]+ $(hostname), then the same link\$"
	at=$(dirname "$socket")
	assert_equal "$(stat -c '%a' "$at" "$socket" "$header" | xargs)" "700 600 600"
	# A link opens the page once; the token that it gets opens the rest.
	assert_equal "$(code "$url"api/v1/session -H 'Content-Type: application/json' -d "{\"key\": \"$key\"}")" 200
	assert_equal "$(code "$url"api/v1/runs -H "Authorization: Bearer $(jq -r .token answer)")" 200
	assert_equal "$(code "$url"api/v1/session -H 'Content-Type: application/json' -d "{\"key\": \"$key\"}")" 401
	key=$(mlrun web link | sed -n 's/^here .*#k=//p')
	touch -d '11 minutes ago' "$at/keys/$key"
	assert_equal "$(code "$url"api/v1/session -H 'Content-Type: application/json' -d "{\"key\": \"$key\"}")" 401
	assert_equal "$(code "$url"api/v1/session -H 'Content-Type: application/json' -d '{"key": "../header"}')" 401
	run -0 mlrun web stop
	until_true is_gone "$server"
	refute [ -e "$at" ]
	run -1 mlrun web link
	assert_output "$(printf 'mlrun: web: no server of yours runs on this node\nhint: mlrun web [DIR...] starts one')"
	run -0 mlrun web list --json
	assert_output '[]'
	# One that was killed is forgotten.
	web
	kill -KILL "$server"
	until_true is_gone "$server"
	run -0 mlrun web list
	assert_output ''
	run -125 mlrun dashboard
	assert_line "hint: mlrun web shows runs in a browser"
	run -125 mlrun web --listen nonsense runs
	assert_line "mlrun: web: --listen 'nonsense': no such address"
	run -125 mlrun web --listen 0.0.0.0:0 runs
	assert_output --partial "others can reach this address"
}

@test "web: root is refused" {
	[ "$(id -u)" = 0 ] || skip "only root can try"
	run -125 mlrun web runs
	assert_line --partial "whoever has the link could do all that root can"
}

@test "web: without the token, from another site, for another host, or with another method nothing is answered" {
	local path

	web
	for path in session runs runs/0123456789abcdef runs/0123456789abcdef/{charts,log,files/log} machine events; do
		assert_equal "$path $(code "$url"api/v1/$path)" "$path 401"
		assert_equal "$path $(code "$url"api/v1/$path -H 'Authorization: Bearer 0')" "$path 401"
	done
	for path in runs preview runs/0123456789abcdef/{stop,note}; do
		assert_equal "$path $(code "$url"api/v1/$path -H 'Content-Type: application/json' -d '{}')" "$path 401"
		assert_equal "$path $(code "$url"api/v1/$path -H @"$header" -H 'Content-Type: text/plain' -d '{}')" "$path 415"
	done
	for path in runs preview runs/0123456789abcdef/note; do
		assert_equal "$path $(code "$url"api/v1/$path -H @"$header" -H 'Content-Type: application/json' -d '[')" "$path 400"
		assert_equal "$path $(code "$url"api/v1/$path -H @"$header" -H 'Content-Type: application/json' -d '{"note": 1, "name": 1}')" "$path 422"
	done
	assert_equal "$(code "$url"api/v1/runs -H @"$header" -H 'Host: evil.example')" 421
	assert_equal "$(code "$url"api/v1/runs -H @"$header" -H 'Host: localhost:1234')" 200
	assert_equal "$(code "$url"api/v1/preview -H @"$header" -H 'Content-Type: application/json' -H 'Origin: http://evil.example' -d '{}')" 403
	assert_equal "$(code "$url"api/v1/machine -H @"$header" -X DELETE)" 405
	# The page's own files hold no data; their policy lets nothing else in.
	for path in '' app.js app.css report.js report.css; do assert_equal "$path $(code "$url$path")" "$path 200"; done
	run -0 curl -sI -X GET "$url"
	assert_line --partial "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self';"
	assert_line --partial "X-Content-Type-Options: nosniff"
	assert_line --partial "Cache-Control: no-store"
}

@test "web: --read-only shows, and changes nothing" {
	local path

	mkdir runs/a
	echo '{"step": 1, "loss": 2}' >runs/a/x.jsonl
	web --read-only
	until_true listed 1
	assert_equal "$(get session | jq .read_only)" true
	for path in runs runs/"$(ids)"/{stop,note}; do
		assert_equal "$path $(code --unix-socket "$socket" -H @"$header" -H 'Content-Type: application/json' -d '{}' "http://localhost/api/v1/$path")" "$path 403"
	done
	run -0 find runs -type f
	assert_output runs/a/x.jsonl
}

@test "web: other programs' runs are found, filtered and ordered; what is broken has a note" {
	local run

	mkdir -p runs/mnist/{a,b,c} runs/deep/{1/2/3/4/5/6,1/2/3/4/5/6/7/8} runs/.hidden runs/mnist/a/within
	printf '{"event":"run","lr":0.01,"net":"lenet","steps":10}\n{"event":"step","step":1,"loss":3}\n{"event":"step","step":5,"loss":1.5,"batch_error":0.25}\n' >runs/mnist/a/m.jsonl
	cp runs/mnist/a/m.jsonl runs/mnist/a/within/
	printf '\xef\xbb\xbf{"epoch": 1, "loss": NaN, "acc": 0.5}\r\n{"epoch": 2, "loss": -Infinity, "acc": 0.75}\r\n{"epoch": 3, "acc": ' >runs/mnist/b/x.jsonl
	printf 'no JSON\n{"step": 3, "loss": 0.5}\n[1]\n' >runs/mnist/c/x.jsonl
	echo '{"step": 1, "loss": 7}' | tee runs/deep/1/2/3/4/5/6/x.jsonl runs/deep/1/2/3/4/5/6/7/8/x.jsonl runs/.hidden/x.jsonl >/dev/null
	echo '{"no": "number"}' >runs/x.jsonl
	ln -s "$PWD/runs/mnist" runs/link
	mkdir runs/{fifo,dir,big,closed}
	mkfifo runs/fifo/x.jsonl
	mkdir runs/dir/x.jsonl
	truncate -s 1G runs/big/run.json
	echo '[]' >runs/closed/run.json
	web
	until_true listed 6
	assert_equal "$(get 'runs?sort=loss' | jq -c '[.runs[:3][] | [.name, .state, .metrics.loss]], ([.runs[3:][].name] | sort)')" \
		"$(printf '[["c","unknown",0.5],["a","unknown",1.5],["6","unknown",7]]\n["b","big","closed"]')"
	assert_equal "$(get 'runs?sort=-loss&limit=1&offset=1' | jq -r '.runs[].name')" a
	assert_equal "$(get 'runs?q=loss<=1.5' | jq -r '.runs[].name' | sort | xargs)" "a c"
	assert_equal "$(get 'runs?q=mnist+net=lenet+lr<0.1+state:unknown' | jq -r '.runs[].name')" a
	assert_equal "$(get 'runs?q=acc>0.5' | jq -c '.runs[] | [.name, .experiment, .metrics.acc, .is_own]')" '["b","mnist",0.75,false]'
	assert_equal "$(get 'runs?q=lr=0.01' | jq -c '.runs[] | [.progress, .values.net]')" '[0.5,"lenet"]'
	assert_equal "$(get 'runs?q=loss<x' -o answer -w '%{http_code}') $(jq -r .detail answer)" "400 'loss<x': expected a number behind <"
	assert_equal "$(get 'runs?q=state:nothing' -o answer -w '%{http_code}') $(jq -r .detail answer)" "400 there is no state 'nothing'"
	assert_equal "$(get "runs/$(ids acc'>'0)" | jq -c .notes)" '["x.jsonl has values that are not finite"]'
	assert_equal "$(get "runs/$(ids loss=0.5)" | jq -c .notes)" '["x.jsonl has lines that are no JSON objects"]'
	assert_equal "$(get "runs/$(ids big)" | jq -r '.notes[0]')" "read 'run.json': larger than 1048576 bytes"
	assert_equal "$(get "runs/$(ids closed)" | jq -r '.notes[0]')" "run.json: expected an object, found []"
	# What changes meanwhile is seen: a line more, a run that begins, one that is gone.
	run=$(ids acc'>'0)
	printf '1}\n' >>runs/mnist/b/x.jsonl
	until_true eval '[ "$(get "runs/$run" | jq .metrics.acc)" = 1 ]'
	run=$(ids loss=0.5)
	rm -r runs/mnist/c
	mkdir runs/new && echo '{"step": 1, "acc": 2}' >runs/new/x.jsonl
	until_true eval '[ "$(get runs | jq -r "[.runs[].name] | sort | join(\" \")")" = "6 a b big closed new" ]'
	assert_equal "$(get "runs/$run" -o answer -w '%{http_code}') $(jq -r .detail answer)" "410 this run was removed"
}

@test "web: only names of a run's directory are opened, as attachments, and no link, fifo or device" {
	local id name

	mkdir runs/a
	echo '{"step": 1, "loss": 2}' >runs/a/x.jsonl
	echo '<script>' >'runs/a/p.html'
	echo secret >secret
	ln -s ../../secret runs/a/link
	mkfifo runs/a/fifo
	ln secret runs/a/hard
	web
	until_true listed 1
	id=$(ids)
	assert_equal "$(get "runs/$id" | jq -c '[.files[].name]')" '["hard","p.html","x.jsonl"]'
	run -0 get "runs/$id/files/p.html" -i
	assert_line --partial "Content-Disposition: attachment"
	assert_line --partial "Content-Type: application/octet-stream"
	assert_line '<script>'
	for name in link fifo nothing ../../secret ..%2f..%2fsecret %2e%2e/%2e%2e/secret . '' a/b; do
		assert_equal "$name $(code --path-as-is --unix-socket "$socket" -H @"$header" "http://localhost/api/v1/runs/$id/files/$name")" "$name 404"
	done
	for name in ../../etc/passwd %2e%2e%2f%2e%2e%2fetc%2fpasswd 0123456789ABCDEF 0123456789abcdef; do
		assert_equal "$name $(code --path-as-is --unix-socket "$socket" -H @"$header" "http://localhost/api/v1/runs/$name")" "$name 404"
	done
}

@test "web: a run is started, followed to its end, and known to a server that comes after kill -9" {
	local id

	web
	id=$(start first sh -c 'echo one; echo "{\"step\": 1, \"loss\": 0.5}" >metrics.jsonl; until [ -e go ]; do sleep 0.1; done; echo two; exit 3')
	until_true state_is "$id" running
	assert_equal "$(get "runs/$id" | jq -c '[.is_own, .place, .experiment, .command[0], .log]')" '[true,"here","tests","sh","log"]'
	until_true eval '[ "$(get "runs/$id" | jq .metrics.loss)" = 0.5 ]'
	assert_equal "$(get "runs/$id/log" | jq -r .text)" one
	kill -KILL "$server"
	until_true is_gone "$server"
	touch runs/tests/first/go
	until_true eval '[ "$(statuses --all)" = exited ]'
	web
	until_true state_is "$id" failed
	assert_equal "$(get "runs/$id" | jq -r .reason)" "exit status 3"
	assert_equal "$(get "runs/$id/log" | jq -r .text)" "$(printf 'one\ntwo')"
	assert_equal "$(jq -r .state runs/tests/first/end.json)" failed
	# What it began as is a line for a shell.
	run -0 jq -r .line <(get "runs/$id")
	assert_output --partial "mlrun run -d --name=first-"
	# A supervisor that is killed loses its run; another server's word is believed.
	id=$(start lost sleep "$NAP")
	until_true state_is "$id" running
	pkill -KILL -u "$(id -u)" -f "service-hold --store=$MLRUN_STORE lost-"
	until_true state_is "$id" lost
	pkill -f "sleep $NAP" || true
}

@test "web: each word of a command arrives as it is; what cannot be is refused with its field" {
	local id word=$'a\nb' body

	web
	id=$(start words sh -c 'for w; do printf "<%s>" "$w"; done' sh '; touch /tmp/x' '$(id)' --privileged - "$word" '' '*' "it's")
	until_true state_is "$id" succeeded
	assert_equal "$(get "runs/$id/log" | jq -r .text)" "<; touch /tmp/x><\$(id)><--privileged><-><$word><><*><it's>"
	body='{"directory": "'$PWD'/runs", "experiment": "e", "name": "n", "image": "'$IMG'", "command": ["true"]}'
	refused() { # FIELD WORDS JQ-FILTER
		assert_equal "$(post runs "$(jq -c "$3" <<<"$body")" -o answer -w '%{http_code}')" 422
		assert_equal "$(jq -r .field answer)" "$1"
		jq -r .detail answer | grep -qF "$2"
	}
	refused directory "none of this server's" '.directory = "/"'
	refused experiment "does not begin with '.'" '.experiment = "../x"'
	refused name "no '/'" '.name = "a/b"'
	refused name "at most 100 bytes" '.name = ("a" * 101)'
	refused name "needs a name" 'del(.name)'
	refused image "expected the name of an image" '.image = "--privileged"'
	refused command "command: " '.command = ["a\u0000b"]'
	refused command "longer than the kernel takes" '.command = ["a" * 131072]'
	# A command that fails leaves nothing, and says why.
	assert_equal "$(post runs "$(jq -c '.image = "rootfs:/no/such"' <<<"$body")" -o answer -w '%{http_code}')" 422
	jq -r .detail answer | grep -qF "/no/such"
	refute [ -e runs/e/n ]
	# A name that is taken.
	assert_equal "$(post runs "$body" -o answer -w '%{http_code}')" 201
	assert_equal "$(post runs "$body" -o answer -w '%{http_code}')" 409
	jq -r .detail answer | grep -qF "File exists"
}

@test "web: a start that is sent again with its key starts once, also at the same time" {
	local i body started=()

	web
	body='{"directory": "'$PWD'/runs", "experiment": "e", "name": "n", "image": "'$IMG'", "command": ["true"]}'
	for i in 1 2 3 4; do post runs "$body" -H 'Idempotency-Key: 4711' >"got$i" & started+=($!); done
	wait "${started[@]}"
	assert_equal "$(jq -r .id got? | sort -u | wc -l)" 1
	assert_equal "$(statuses --all | wc -l)" 1
}

@test "web: a run is stopped on the page; its note is edited by one at a time" {
	local id

	web
	id=$(start long sh -c 'trap "echo ends; exit 0" TERM; while :; do sleep 0.1; done')
	until_true state_is "$id" running
	# A command that writes into its run.json ends no other service by it.
	mlrun run -d --name other "$IMG" sleep "$NAP"
	jq '.service = "other"' runs/tests/long/run.json >new && cat new >runs/tests/long/run.json
	until_true eval '[ "$(get "runs/$id" | jq -r .line | grep -o "name=[^ ]*")" != name=other ]'
	assert_equal "$(post "runs/$id/stop" '{}' | jq -r .state)" stopped
	assert_equal "$(statuses)" running
	mlrun stop -t 0 --rm other
	assert_equal "$(post "runs/$id/stop" '{}' -o answer -w '%{http_code}')" 403
	assert_equal "$(statuses)" ''
	assert_equal "$(post "runs/$id/note" '{"note": "good", "tags": ["x"], "was": {"note": "", "tags": []}}' | jq -c '[.note, .tags]')" '["good",["x"]]'
	assert_equal "$(ids tag:x)" "$id"
	assert_equal "$(post "runs/$id/note" '{"note": "bad", "tags": [], "was": {"note": "", "tags": []}}' -o answer -w '%{http_code}')" 409
	assert_equal "$(jq -c '[.note, .tags]' answer)" '["good",["x"]]'
	# Not of a run that is another's, or that others may write.
	chmod o+w runs/tests/long
	until_true eval '[ "$(get "runs/$id" | jq .is_own)" = false ]'
	assert_equal "$(post "runs/$id/note" '{"note": "bad", "tags": [], "was": {"note": "good", "tags": ["x"]}}' -o answer -w '%{http_code}')" 403
}

@test "web: the stream tells changes, the log's growth and its beginning anew, and resumes where it was" {
	local id seen

	mkdir runs/a
	echo '{"step": 1, "loss": 2}' >runs/a/x.jsonl
	printf 'old\n' >runs/a/log
	web
	until_true listed 1
	id=$(ids)
	get "events?run=$id" -N >stream 2>&1 3>&- &
	PIDS+=($!)
	until_true eval '[ "$(get events -o /dev/null -w "%{http_code}" --max-time 1)" = 200 ]'
	until_true eval 'printf "\xffnew\r50%%\n" >>runs/a/log; grep -q "^event: log" stream'
	grep -A1 '^event: log' stream | sed -n 's/^data: //p' | head -n 1 | jq -r .text | grep -qF $'\xef\xbf\xbdnew\r50%'
	echo '{"step": 2, "loss": 1}' >>runs/a/x.jsonl
	until_true grep -q '^event: charts' stream
	until_true grep -q '"loss":1.0' stream
	: >runs/a/log
	until_true grep -q "begins anew" stream
	echo again >>runs/a/log
	until_true grep -q again stream
	seen=$(sed -n 's/^id: //p' stream | head -n 1)
	# Numbers of a server that has ended mean nothing here.
	for seen in $((seen - 1)) 1000000; do
		get events -N -H "Last-Event-ID: $seen" >"resumed.$seen" 2>&1 3>&- &
		PIDS+=($!)
		until_true grep -q '"loss":1.0' "resumed.$seen"
	done
	# What is far ahead is skipped, with its length.
	get "events?run=$id&from=0" -N --max-time 20 >far 2>&1 3>&- &
	PIDS+=($!)
	head -c 5000000 /dev/zero | tr '\0' x >>runs/a/log
	until_true grep -q '"skipped":[1-9]' far
	# The server's end ends all streams.
	mlrun web stop
	until_true is_gone "$server"
}

@test "web: the end of a large log is read, and what comes before it from a line on" {
	local id at

	mkdir runs/a
	echo '{"step": 1, "loss": 2}' >runs/a/x.jsonl
	seq 200000 >runs/a/log
	web
	until_true listed 1
	id=$(ids)
	get "runs/$id/log?size=1000" >end
	assert_equal "$(jq -r .text end | grep . | tail -n 1)" 200000
	at=$(jq .from end)
	get "runs/$id/log?size=1000&to=$at" >before
	assert_equal "$(($(jq -r .text before | grep . | tail -n 1) + 1))" "$(jq -r .text end | head -n 1)"
	assert_equal "$(get "runs/$id/log?to=0" | jq -r .text)" ''
}

@test "web: in a browser a run is found, started, followed and stopped, and nothing hostile does anything" {
	local browser

	browser=$(command -v chromium chromium-browser google-chrome | head -n 1) || skip "no Chromium"
	mkdir -p 'runs/e/<img src=x onerror=alert(1)>'
	printf '{"event":"run","lr":0.01,"net":"</script><b>"}\n{"step": 1, "<script>alert(1)</script>": 2, "loss": 3}\n{"step": 2, "<script>alert(1)</script>": 1, "loss": 2}\n' \
		>'runs/e/<img src=x onerror=alert(1)>/x.jsonl'
	web
	run -0 env -C "$top_srcdir/tests/cli" python3 web_browser.py "$browser" "$url#k=$key" "$PWD/runs" "$IMG"
	assert_output fine
}
