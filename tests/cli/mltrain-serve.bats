#!/usr/bin/env bats
# mltrain serve, asked by curl, by serve_client.py, by PyPI's clients and by a browser.

load common
load mltrain

setup_file() {
	mltrain_setup
	[ -x "$top_builddir/bin/mltrain-serve" ] || return 0
	[ -e "$data" ] || return 0
	cd "$BATS_FILE_TMPDIR" || return 1
	# A network with every kind of layer that computes in its own way when predicting.
	"$mltrain" train -q --net lenet-5 --data "$SMALL" --steps 3 --checkpoint net.safetensors
	"$mltrain" train -q --net lenet-5 --data "$SMALL" --steps 6 --checkpoint other.safetensors
	"$mltrain" predict --json --checkpoint net.safetensors $(seq -f "$SMALL/t10k-images-idx3-ubyte:%g" 0 39) |
		jq -c .logits >logits
}

setup() {
	common_setup
	[ -x "$top_builddir/bin/mltrain-serve" ] || skip "mltrain serve is not built"
	needs_data
	export NET="$BATS_FILE_TMPDIR/net.safetensors" IMAGES="$SMALL/t10k-images-idx3-ubyte"
	client="$top_srcdir/tests/cli/serve_client.py"
}

teardown() {
	common_teardown
}

# serve [OPTION...]: start it, with $NET; sets $url, $port and $server, and leaves its log in the file log.
serve() {
	"$mltrain" serve --checkpoint "$NET" --listen 127.0.0.1:0 "$@" 2>log 3>&- &
	server=$!
	PIDS+=("$server")
	until_true grep -q '^mltrain: serving' log
	url=$(sed -n 's/.* on \(http.*\)/\1/p' log)
	port=${url##*:}
}

# post PATH BODY [CURL-OPTION...]: sets $code and leaves the answer in the file answer.
post() {
	code=$(curl -s -o answer -w '%{http_code}' "${@:3}" --data-binary "$2" "$url$1")
}

# numbers N: image N of the test set as JSON numbers
numbers() {
	python3 -c "import sys; d = open('$IMAGES', 'rb').read(); print(list(d[16 + 784 * $1:16 + 784 * $1 + 784]))"
}

# png FILE N: image N of the test set
png() {
	python3 - "$@" <<-'END'
	import os, struct, sys, zlib
	d = open(os.environ["IMAGES"], "rb").read()[16 + 784 * int(sys.argv[2]):][:784]
	chunk = lambda k, b: struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b))
	rows = b"".join(b"\0" + d[i:i + 28] for i in range(0, 784, 28))
	open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)) +
	                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
	END
}

@test "mltrain serve: /predict and /health answer as the tutorial's client wants" {
	serve
	run -0 curl -s "$url/health"
	assert_output '{"status":"healthy"}'
	post /predict "{\"images\": [$(numbers 0), $(numbers 1)]}"
	[ "$code" = 200 ]
	jq -e '(.predictions | type == "array" and length == 2)
		and all(.predictions[]; length == 10 and all(.[]; keys == ["label", "score"]) and ([.[].score] | add | . > 0.999999 and . < 1.000001))
		and [.predictions[0][].label] == ["0","1","2","3","4","5","6","7","8","9"]' answer
	cp answer flat
	# The same from a PNG as the body, in base64, and as rows of numbers.
	png 0.png 0
	post /predict @0.png -H 'Content-Type: image/png'
	jq -e --slurpfile flat flat '.predictions == [$flat[0].predictions[0]]' answer
	post /predict "{\"images\": [{\"b64\": \"$(base64 -w0 0.png)\"}, \"$(base64 -w0 0.png)\", $(numbers 0 | jq -c '[_nwise(28)]')]}"
	jq -e --slurpfile flat flat '.predictions == [range(3) | $flat[0].predictions[0]]' answer
	# Without Content-Type, as k6 sends it; fields that are unknown are refused.
	post /predict "{\"images\": [$(numbers 0)], \"text\": []}" -H 'Content-Type:'
	[ "$code" = 422 ]
	jq -e '.detail[0].loc == ["body"] and .detail[0].msg == "extra fields not permitted: \"text\""' answer
}

@test "mltrain serve: answers under load are bit for bit those of mltrain predict" {
	serve --max-delay 300 --max-batch 17
	run -0 "$client" answers "$port" "$IMAGES" 40 6 0.5
	[ "${#lines[@]}" = 40 ]
	python3 - "$BATS_FILE_TMPDIR/logits" <<-END
	import json, struct, sys
	bits = lambda text: [struct.pack("f", v) for v in json.loads(text)]
	wanted, got = open(sys.argv[1]).read().splitlines(), """$output""".splitlines()
	assert [bits(a) for a in got] == [bits(b) for b in wanted]
	END
	# Requests did share batches.
	curl -s "$url/metrics" >metrics
	[ "$(sed -n 's/^mltrain_batch_images_sum //p' metrics)" -gt "$(($(sed -n 's/^mltrain_batch_images_count //p' metrics) * 5))" ]
	grep -q '^mltrain_requests_total{path="/v2/models/{m}/infer",code="200"} [1-9]' metrics
	grep -q '^mltrain_queue_images 0$' metrics
	grep -q '^mltrain_request_bytes 0$' metrics
}

@test "mltrain serve: PyPI's tritonclient infers, with and without binary data" {
	python_with 'tritonclient[http]'
	serve --checkpoint "second=$BATS_FILE_TMPDIR/other.safetensors"
	"$PYTHON" - "$port" "$IMAGES" "$BATS_FILE_TMPDIR/logits" <<-'END'
	import json, sys
	import numpy
	import tritonclient.http as http
	client = http.InferenceServerClient("127.0.0.1:" + sys.argv[1])
	assert client.is_server_live() and client.is_server_ready()
	assert client.is_model_ready("net") and client.is_model_ready("second", "1") and not client.is_model_ready("none")
	assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
	meta = client.get_model_metadata("net")
	assert meta["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": [-1, 1, 28, 28]}], meta
	images = numpy.frombuffer(open(sys.argv[2], "rb").read()[16:], numpy.uint8).reshape(-1, 1, 28, 28)[:40]
	wanted = numpy.array([json.loads(line) for line in open(sys.argv[3])], numpy.float32)
	for kind in numpy.uint8, numpy.float32, numpy.int64:
	    for ask in True, False:
	        for answer in True, False:
	            given = http.InferInput("images", [40, 1, 28, 28], http.np_to_triton_dtype(kind) if hasattr(http, "np_to_triton_dtype")
	                                    else {numpy.uint8: "UINT8", numpy.float32: "FP32", numpy.int64: "INT64"}[kind])
	            given.set_data_from_numpy(images.astype(kind), binary_data=ask)
	            wish = [http.InferRequestedOutput(n, binary_data=answer) for n in ("class", "logits", "probabilities")]
	            got = client.infer("net", [given], outputs=wish, request_id="a\"b")
	            assert (got.as_numpy("logits") == wanted).all()
	            assert (got.as_numpy("class") == wanted.argmax(1)).all() and got.get_response()["id"] == "a\"b"
	            assert abs(got.as_numpy("probabilities").sum(1) - 1).max() < 1e-5
	pictures = numpy.array([open("/dev/null", "rb").read()], numpy.object_)
	given = http.InferInput("images", [1], "BYTES")
	given.set_data_from_numpy(pictures)
	for wrong in [(given, "picture"), (http.InferInput("image", [1, 1, 28, 28], "UINT8"), "called")]:
	    if wrong[1] == "called":
	        wrong[0].set_data_from_numpy(images[:1])
	    try:
	        client.infer("net", [wrong[0]])
	        raise SystemExit("not refused")
	    except http.InferenceServerException as e:
	        assert wrong[1] in str(e), e
	END
}

@test "mltrain serve: TensorFlow Serving's forms" {
	serve
	run -0 curl -s "$url/v1/models/net"
	assert_output '{"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":""}}]}'
	run -0 curl -s "$url/v1/models/net/versions/1/metadata"
	echo "$output" | jq -e '.metadata.signature_def.signature_def.serving_default.inputs.images.tensor_shape.dim | map(.size) == ["-1", "1", "28", "28"]'
	png 0.png 0
	b64=$(base64 -w0 0.png)
	post /v1/models/net:predict "{\"instances\": [$(numbers 0), {\"b64\": \"$b64\"}, {\"images\": {\"b64\": \"$b64\"}}, $(numbers 0 | jq -c '[_nwise(28) | map([.])]')]}"
	[ "$code" = 200 ]
	jq -e '(.predictions | length == 4) and all(.predictions[]; length == 10) and (.predictions | unique | length == 1)' answer
	cp answer rows
	post /v1/models/net/versions/1:predict "{\"signature_name\": \"serving_default\", \"inputs\": {\"images\": [$(numbers 0)]}}"
	jq -e --slurpfile rows rows '.outputs == [$rows[0].predictions[0]]' answer
	post /v1/models/net:predict "{\"instances\": [$(numbers 0)], \"inputs\": [$(numbers 0)]}"
	[ "$code" = 400 ]
	jq -e '.error == "the body has to have either \"instances\" or \"inputs\", an array of images"' answer
	post /v1/models/net:classify '{"examples": []}'
	[ "$code" = 501 ]
	jq -e '.error | startswith(":classify and :regress")' answer
	post /v1/models/none:predict '{}'
	[ "$code" = 404 ]
}

@test "mltrain serve: what cannot be answered is refused in JSON, by its status" {
	serve --max-body 1 --max-queue 4 --max-memory 2
	post /nowhere '{}'
	[ "$code" = 404 ] && jq -e '.error == "there is no such path"' answer
	code=$(curl -s -o answer -D headers -w '%{http_code}' "$url/predict")
	[ "$code" = 405 ] && grep -qi '^allow: POST' headers && jq -e .detail answer
	post /predict '{"images": [1'
	[ "$code" = 400 ] && jq -e '.detail[0].msg | startswith("the body is not JSON: line 1")' answer
	post /predict '{"images": [[1, 2, 3]]}'
	[ "$code" = 422 ] && jq -e '.detail[0].msg == "image 0: an image is not 784 numbers, nor 1x28x28"' answer
	post /predict ''
	[ "$code" = 400 ] && jq -e '.detail[0].msg | startswith("the body is not JSON")' answer
	post /predict "{\"images\": [$(numbers 0 | sed 's/0/0.5/')]}"
	[ "$code" = 422 ] && jq -e '.detail[0].msg == "image 0: 0.5 is not a pixel: a whole number from 0 to 255"' answer
	post /predict '{"images": ["bm8gcGljdHVyZQ=="]}'
	[ "$code" = 422 ] && jq -e '.detail[0].msg == "image 0: a picture: neither PNG nor JPEG"' answer
	post /predict "{\"images\": [$(yes '[]' | head -5 | paste -sd,)]}"
	[ "$code" = 413 ] && jq -e '.detail[0].msg == "5 images are more than 4"' answer
	head -c 1048577 /dev/zero >large
	post /predict @large
	[ "$code" = 413 ]
	# Chunked, the length is known at the end alone.
	post /predict @large -H 'Transfer-Encoding: chunked'
	[ "$code" = 413 ] && jq -e '.detail[0].msg == "the body has more than 1048576 bytes"' answer
	post /v2/models/net/infer '{}' -H 'Inference-Header-Content-Length: 3'
	[ "$code" = 400 ] && jq -e '.error | startswith("Inference-Header-Content-Length is more")' answer
	# All that is counted by path and status, and nothing that a client chose is a name there.
	run -0 curl -s "$url/metrics"
	assert_line 'mltrain_requests_total{path="/predict",code="413"} 3'
	assert_line 'mltrain_requests_total{path="other",code="404"} 1'
	assert_line 'mltrain_request_bytes 0'
}

# renorm FROM TO: the same weights for pixels that are scaled otherwise
renorm() {
	python3 - "$@" <<-'END'
	import json, struct, sys
	d = open(sys.argv[1], "rb").read()
	n = struct.unpack("<Q", d[:8])[0]
	head = json.loads(d[8:8 + n])
	norm = json.loads(head["__metadata__"]["norm"])
	norm["scale"] = [2 * v for v in norm["scale"]]
	head["__metadata__"]["norm"] = json.dumps(norm)
	text = json.dumps(head).encode()
	text += b" " * (-len(text) % 8)
	open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + d[8 + n:])
	END
}

@test "mltrain serve: networks with the same weights that scale pixels otherwise share no answers" {
	renorm "$NET" scaled.safetensors
	serve --checkpoint scaled.safetensors --cache memory:1m
	for model in net scaled; do
		post "/v1/models/$model:predict" "{\"instances\": [$(numbers 0)]}" -D headers
		[ "$code" = 200 ] && grep -qi '^x-mlapi-cache: Miss' headers
		mv answer $model
	done
	run ! cmp -s net scaled
}

# blank FILE: a PNG of 4096x4096 pixels in 2 KB
blank() {
	python3 - "$1" <<-'END'
	import struct, sys, zlib
	chunk = lambda k, b: struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b))
	open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4096, 4096, 1, 0, 0, 0, 0)) +
	                              chunk(b"IDAT", zlib.compress(bytes(513 * 4096), 9)) + chunk(b"IEND", b""))
	END
}

@test "mltrain serve: a short request cannot order much work or memory" {
	serve --max-body 1 --max-memory 64
	# All pictures of a request have a limit together, in every dialect.
	blank blank.png
	b64=$(base64 -w0 blank.png)
	post /predict "{\"images\": [\"$b64\"]}"
	[ "$code" = 200 ]
	post /predict "{\"images\": [\"$b64\", \"$b64\"]}"
	[ "$code" = 413 ]
	jq -e '.detail[0].msg == "image 1: a picture: 4096x4096 pixels make more than 16777216 of the request'"'"'s pictures"' answer
	post /v2/models/net/infer "{\"inputs\": [{\"name\": \"images\", \"shape\": [2], \"datatype\": \"BYTES\", \"data\": [\"$b64\", \"$b64\"]}]}"
	[ "$code" = 413 ]
	# JSON's values are counted before they are made.
	python3 -c 'print("{\"images\": [" + "{}," * 300000 + "{}]}")' >values
	post /predict @values
	[ "$code" = 413 ] && jq -e '.detail[0].msg | startswith("the JSON'"'"'s values would take ")' answer
	[ "$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server/status")" -lt 200000 ] || [ "${sanitizers:-no}" != no ]
	# The longest body of ordinary images passes.
	python3 -c 'print("{\"images\": [" + ",".join(["[" + ",".join(["7"] * 784) + "]"] * 600) + "]}")' >images
	post /predict @images
	[ "$code" = 200 ] && jq -e '.predictions | length == 600' answer
	run -0 curl -s "$url/metrics"
	assert_line 'mltrain_request_bytes 0'
}

@test "mltrain serve: a body that is announced as too long is read, so that the client gets its answer" {
	serve --max-body 1
	python3 - "$port" <<-'END'
	import socket, sys
	s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
	def ask(length, body, more=b""):
	    s.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (more, length) + body)
	    head = b""
	    while b"\r\n\r\n" not in head:
	        got = s.recv(65536)
	        assert got, head
	        head += got
	    return head
	answer = ask(8 << 20, b"x" * (8 << 20))
	assert answer.startswith(b"HTTP/1.1 413 ") and b"the body has more than 1048576 bytes" in answer, answer
	assert ask(2, b"{}").startswith(b"HTTP/1.1 422 ") # the connection goes on
	assert ask(8 << 20, b"", b"Expect: 100-continue\r\n").startswith(b"HTTP/1.1 413 ")
	s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
	assert ask(17 << 20, b"").startswith(b"HTTP/1.1 413 ") # nor is more read than 16 times the limit
	END
}

@test "mltrain serve: two sockets divide the connections" {
	shared=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	serve --max-connections 2 --shared-listen "127.0.0.1:$shared"
	python3 - "$(sed -n 's/.* on http:[^ ]*:\([0-9]*\) and.*/\1/p' log)" "$shared" <<-'END'
	import socket, sys
	def ask(port):
	    s = socket.create_connection(("127.0.0.1", int(port)))
	    s.settimeout(0.5)
	    s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	    try:
	        return s, s.recv(100)
	    except TimeoutError:
	        return s, b""
	one, answer = ask(sys.argv[1])
	assert answer.startswith(b"HTTP/1.1 200"), answer
	two, answer = ask(sys.argv[1])
	assert not answer, answer
	three, answer = ask(sys.argv[2])
	assert answer.startswith(b"HTTP/1.1 200"), answer
	END
}

@test "mltrain serve: a full queue is refused with 429, and what waited is answered" {
	serve --max-queue 2 --max-delay 10000000 --max-batch 3
	for i in 0 1 2; do
		curl -s -o "answer$i" -w '%{http_code}\n' --data-binary "{\"images\": [$(numbers $i)]}" "$url/predict" >"code$i" 3>&- &
	done
	until_true grep -qs 429 code0 code1 code2
	kill "$server"
	wait
	[ "$(sort code0 code1 code2 | paste -sd' ')" = "200 200 429" ]
}

@test "mltrain serve: garbage, slow clients and idle ones, in bounded memory" {
	MLRUN_LOG=debug serve --timeout 1s --idle-timeout 1s
	"$client" garbage "$port"
	slow=()
	for what in header body answer; do
		"$client" slow "$port" $what 1 >$what 3>&- &
		slow+=($!)
	done
	wait "${slow[@]}"
	cat header body answer
	[ "$(cut -d. -f1 header body answer | sort -n | tail -n 1)" -le 30 ]
	run ! grep -q "$(printf '\033')" log
	curl -sf "$url/health"
}

@test "mltrain serve: 10,000 idle connections cost 17 KiB each at most" {
	skip_if_sanitized
	ulimit -n "$(ulimit -Hn)"
	serve
	run -0 "$client" idle "$port" 10000 "$server"
	read -r count bytes <<<"$output"
	echo "$count connections, $bytes bytes each" >&3
	[ "$count" -ge 500 ] && [ "$bytes" -le 17408 ]
}

@test "mltrain serve: SIGHUP exchanges the network, or keeps the old one and says why" {
	cp "$NET" net.safetensors
	NET=net.safetensors serve
	post /v2/models/net/infer "{\"inputs\": [{\"name\": \"images\", \"shape\": [1, 784], \"datatype\": \"UINT8\", \"data\": $(numbers 0)}]}"
	cp answer first
	head -c 1000 "$BATS_FILE_TMPDIR/other.safetensors" >net.safetensors
	kill -HUP "$server"
	until_true grep -q "reload model 'net': .*serving the old one" log
	post /v1/models/net:predict "{\"instances\": [$(numbers 0)]}"
	[ "$code" = 200 ]
	cp "$BATS_FILE_TMPDIR/other.safetensors" net.safetensors
	kill -HUP "$server"
	until_true grep -q 'read the checkpoints again' log
	post /v2/models/net/versions/1/infer '{}'
	[ "$code" = 404 ] && jq -e '.error == "the model'"'"'s version is 2"' answer
	post /v2/models/net/infer "{\"inputs\": [{\"name\": \"images\", \"shape\": [1, 784], \"datatype\": \"UINT8\", \"data\": $(numbers 0)}]}"
	jq -e --slurpfile first first '.model_version == "2" and .outputs[1].data != $first[0].outputs[1].data' answer
}

@test "mltrain serve: SIGTERM answers what has begun, then ends with 0" {
	serve --max-batch 8
	run -0 "$client" drain "$port" "$server"
	[ "$output" -ge 1 ]
	wait "$server"
	grep -q 'ending after the requests that have begun' log
}

@test "mltrain serve: SIGTERM lets a client finish the request that it has begun to send" {
	serve
	run -0 "$client" half "$port" "$server"
	assert_output "HTTP/1.1 200 OK
HTTP/1.1 200 OK"
	wait "$server"
}

@test "mltrain serve: a request that could be read in two ways is refused, and nothing behind it is read" {
	serve
	"$client" strict "$port"
	run -0 curl -s "$url/metrics"
	assert_output --partial 'mltrain_requests_total{path="other",code="400"}'
}

@test "mltrain serve: a picture that takes long to decode delays no other client" {
	serve
	python3 - picture.png <<-'END'
	import struct, sys, zlib
	chunk = lambda k, b: struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b))
	open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 4096, 4096, 8, 2, 0, 0, 0)) +
	                              chunk(b"IDAT", zlib.compress(bytes(4096 * (1 + 3 * 4096)), 1)) + chunk(b"IEND", b""))
	END
	run -0 "$client" aside "$port" picture.png
	assert_output "health
picture 200"
	# A body above 64 KiB is read there, too, with the same answer.
	python3 -c "print('{\"images\": [' + ','.join(['[' + '200, ' * 783 + '200]'] * 40) + ']}')" >large.json
	post /predict @large.json
	[ "$code" = 200 ] && jq -e '(.predictions | length) == 40 and (.predictions | unique | length) == 1' answer
	post /predict "{\"images\": [[$(seq -s, 200 0 200 | head -c 0)$(printf '200,%.0s' {1..783})200]]}"
	jq -cS '.predictions[0]' answer >one
	post /predict @large.json
	jq -cS '.predictions[39]' answer | cmp - one
}

@test "mltrain serve: beyond this machine a token is needed" {
	run -1 "$mltrain" serve --checkpoint "$NET" --listen 0.0.0.0:0
	assert_output "mltrain: --listen '0.0.0.0:0': others can reach this address
hint: --token-file FILE says who may ask; or listen on 127.0.0.1"
	echo short >token
	run -1 "$mltrain" serve --checkpoint "$NET" --token-file token
	assert_line "mltrain: --token-file 'token': a token has at least 16 characters"
	echo 0123456789abcdef >token
	serve --listen 0.0.0.0:0 --token-file token
	url=http://127.0.0.1:$port
	post /predict '{}'
	[ "$code" = 401 ]
	post /predict '{}' -H 'Authorization: Bearer 0123456789abcdeg'
	[ "$code" = 401 ] && jq -e '.detail[0].msg == "the token is wrong"' answer
	post /nowhere '{}'
	[ "$code" = 401 ]
	post /predict '{}' -H 'Authorization: Bearer 0123456789abcdef'
	[ "$code" = 422 ]
	curl -sf "$url/health" # for those that only want to know whether it lives
}

@test "mltrain serve: a UNIX socket, taken from a dead server, not from a living one" {
	"$mltrain" serve --checkpoint "$NET" --listen unix:sock 2>log 3>&- &
	PIDS+=($!)
	until_true grep -q 'serving' log
	[ "$(stat -c %a sock)" = 600 ]
	curl -sf --unix-socket sock http://x/health
	run -1 "$mltrain" serve --checkpoint "$NET" --listen unix:sock
	assert_output --partial "listen on 'sock': Address already in use"
	kill -KILL "${PIDS[-1]}"
	until_true is_gone "${PIDS[-1]}"
	"$mltrain" serve --checkpoint "$NET" --listen unix:sock 2>log2 3>&- &
	PIDS+=($!)
	until_true grep -q 'serving' log2
	curl -sf --unix-socket sock http://x/health
}

@test "mltrain serve: another site's page and another name of this machine are refused" {
	status() { curl -s -o answer -w '%{http_code}' "$@"; }
	from() { status -d '{}' "${@:2}" -H "Origin: $1" "$url/predict"; }
	serve --host front.example --host other.example:8443
	# A name that somebody made to lead here, so that a browser takes both for one site.
	for host in evil.example evil.example:80 127.0.0.1.evil.example 127.100.100.100.evil.example localhost.evil.example :80 \
		front.example.evil 10.0.0.1 '[::2]' other.example other.example:8000; do
		[ "$(status -H "Host: $host" "$url/health")" = 421 ] || fail "'$host' is let in"
	done
	jq -e '.error == "the server is not called '"'other.example:8000'"'"' answer
	for host in 127.0.0.1 127.0.0.1:1 127.0.0.2:80 localhost LocalHost:9000 '[::1]' '[::1]:80' front.example FRONT.example:1 \
		other.example:8443; do
		[ "$(status -H "Host: $host" "$url/health")" = 200 ] || fail "'$host' is refused"
	done
	# What changes nothing may come from everywhere, which browsers do not let the other page read.
	[ "$(status -H 'Origin: http://evil.example' "$url/health")" = 200 ]
	for origin in http://evil.example null "http://127.0.0.1:1" "http://evil.example/127.0.0.1:$port" "https://127.0.0.1" \
		https://other.example https://front.example:1; do
		[ "$(from "$origin")" = 403 ] || fail "'$origin' is let in"
	done
	jq -e '.error == "the page comes from another site, '"'https://front.example:1'"'"' answer
	for origin in "http://127.0.0.1:$port" https://front.example https://other.example:8443; do
		[ "$(from "$origin")" = 422 ] || fail "'$origin' is refused"
	done
	[ "$(from "https://localhost:9" -H 'Host: localhost:9')" = 422 ]
	for site in cross-site same-site; do
		[ "$(status -d '{}' -H "Sec-Fetch-Site: $site" "$url/predict")" = 403 ]
	done
	for site in same-origin none; do
		[ "$(status -d '{}' -H "Sec-Fetch-Site: $site" "$url/predict")" = 422 ]
	done
	run -0 curl -s "$url/metrics"
	assert_line 'mltrain_requests_total{path="other",code="421"} 11'
	assert_line 'mltrain_requests_total{path="other",code="403"} 9'

	run -1 "$mltrain" serve --checkpoint "$NET" --listen 127.0.0.1:0 --host a/b
	assert_output --partial "host 'a/b': give NAME or NAME:PORT"
}

@test "mltrain serve: a UNIX socket and other machines' addresses have any name, until --host names them" {
	status() { curl -s -o answer -w '%{http_code}' "$@"; }
	echo 0123456789abcdef >token
	serve --listen unix:sock
	[ "$(status --unix-socket sock http://evil.example/health)" = 200 ]
	[ "$(status --unix-socket sock -d '{}' -H 'Origin: http://evil.example' http://x/predict)" = 403 ]
	rm log
	serve --listen 0.0.0.0:0 --token-file token
	[ "$(status -H 'Host: any.example' "http://127.0.0.1:$port/health")" = 200 ]
	rm log
	serve --listen 0.0.0.0:0 --token-file token --host any.example
	[ "$(status -H 'Host: any.example' "http://127.0.0.1:$port/health")" = 200 ]
	[ "$(status "http://127.0.0.1:$port/health")" = 200 ]
	[ "$(status -H 'Host: evil.example' "http://127.0.0.1:$port/health")" = 421 ]
}

@test "mltrain serve: what it is given wrongly is named" {
	run -2 "$mltrain" serve
	assert_line --partial 'which weights?'
	run -1 "$mltrain" serve --checkpoint none.safetensors
	assert_output --partial "none.safetensors"
	run -1 "$mltrain" serve --checkpoint "$NET" --checkpoint "$NET"
	assert_line "mltrain: two models are called 'net'"
	run -1 "$mltrain" serve --checkpoint "$NET" --listen nowhere
	assert_line --partial 'give HOST:PORT'
	run -1 "$mltrain" serve --checkpoint "$NET" --listen 127.0.0.1:0 --cache disk:/tmp
	assert_line --partial 'give memory:SIZE or redis://HOST:PORT/DB'
	for cache in 127.0.0.1/x 127.0.0.1:1/2/3 127.0.0.1:/3 /3; do
		run -1 "$mltrain" serve --checkpoint "$NET" --listen 127.0.0.1:0 --cache "redis://$cache"
		assert_line --partial "'redis://$cache' is not redis://HOST:PORT/DB"
	done
	serve --cache redis://127.0.0.1/3 # the port is redis' own
}

@test "mltrain serve: --cache memory answers from memory, for a while, by weights and input" {
	cp "$NET" net.safetensors
	NET=net.safetensors serve --cache memory:1m --cache-ttl 2s
	asks() { curl -s -o answer -D - --data-binary "{\"images\": [$(numbers "$1")]}" "$url/predict" | tr -d '\r' | sed -n 's/^X-MLAPI-Cache: //p'; }
	hits() { [ "$(asks "$1")" = Hit ]; }
	[ "$(asks 0)" = Miss ]
	cp answer first
	until_true hits 0
	cmp answer first
	# Weights that are the same, read again, have the same answers.
	kill -HUP "$server"
	is_version() { [ "$(curl -s "$url/v1/models/net" | jq -r '.model_version_status[0].version')" = "$1" ]; }
	until_true is_version 2
	until_true hits 1
	cp "$BATS_FILE_TMPDIR/other.safetensors" net.safetensors
	kill -HUP "$server"
	until_true is_version 3
	[ "$(asks 1)" = Miss ]
	until_true hits 1
	misses() { [ "$(asks 1)" = Miss ]; }
	until_true misses
	run -0 curl -s "$url/metrics"
	assert_line --regexp '^mltrain_cache_hits_total [1-9]'
}

redis_start() {
	redis-server --port "$redis" --save '' --appendonly no --dir "$PWD" >/dev/null 3>&- &
	redis_pid=$!
	PIDS+=("$redis_pid")
	until_true redis-cli -p "$redis" ping >/dev/null
}

@test "mltrain serve: redis stopped and started under load fails no request" {
	command -v redis-server >/dev/null || skip "no redis-server"
	redis=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	serve --cache "redis://127.0.0.1:$redis/3"
	until_true grep -q "redis at 127.0.0.1:$redis: Connection refused; answers are not cached until it is back" log
	"$client" cached "$port" "$IMAGES" end >counts 2>failures 3>&- &
	asking=$!
	redis_start
	told() { [ "$(grep -c "$1" log)" -ge "$2" ]; }
	until_true told "$redis is back" 1
	has_hits() { curl -s "$url/metrics" | grep -q '^mltrain_cache_hits_total [1-9]'; }
	until_true has_hits
	run -0 redis-cli -p "$redis" -n 3 keys 'mlapi-cache:*'
	[ "${#lines[@]}" -ge 1 ]
	[ "$(redis-cli -p "$redis" -n 3 ttl "${lines[0]}")" -le 60 ]
	lost=$(grep -c 'answers are not cached' log)
	kill -KILL "$redis_pid"
	until_true told 'answers are not cached' $((lost + 1))
	back=$(grep -c "$redis is back" log)
	redis_start
	until_true told "$redis is back" $((back + 1))
	# Stopped, it neither answers nor refuses.
	lost=$(grep -c 'answers are not cached' log)
	kill -STOP "$redis_pid"
	until_true told 'answers are not cached' $((lost + 1))
	touch end
	wait "$asking"
	kill -CONT "$redis_pid"
	read -r hits misses failed <counts
	[ "$hits" -gt 0 ] && [ "$misses" -gt 0 ] && [ "$failed" = 0 ]
	[ ! -s failures ]
	# Each loss was told once: the two messages take turns.
	[ -z "$(sed -n 's/.*not cached until.*/lost/p; t; s/.* is back$/back/p' log | uniq -d)" ]
}

@test "mltrain serve: what is no number in redis is computed anew" {
	command -v redis-server >/dev/null || skip "no redis-server"
	redis=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	redis_start
	serve --cache "redis://127.0.0.1:$redis/3"
	predicted() {
		post /predict "{\"images\": [$(numbers 0)]}" -D headers
		[ "$code" = 200 ] && grep -qi "^X-MLAPI-Cache: $1" headers
	}
	until_true predicted Hit
	mv answer first
	printf '\0\0\300\177%.0s' {1..10} | redis-cli -p "$redis" -n 3 -x set "$(redis-cli -p "$redis" -n 3 keys 'mlapi-cache:*')"
	predicted Miss
	cmp answer first
	until_true predicted Hit
	cmp answer first
}

@test "mltrain serve: a browser draws on the page, and drops a picture" {
	for name in chromium chromium-browser google-chrome; do
		BROWSER=$(command -v $name) && export BROWSER && break
	done
	[ -n "${BROWSER:-}" ] || skip "no Chromium (Debian: apt-get install chromium)"
	serve
	PYTHONPATH="$top_srcdir/tests/cli" PYTHONDONTWRITEBYTECODE=1 python3 - "$url" <<-'END'
	import os, sys, time
	from browser import Browser
	def wait_for(b, expression):
	    end = time.monotonic() + 60
	    while not b.value(expression):
	        assert time.monotonic() < end, (expression, b.errors)
	        time.sleep(0.05)
	with Browser(os.environ["BROWSER"]) as b:
	    b.open(sys.argv[1] + "/")
	    box = b.value("(({x, y}) => [x, y])(document.getElementById('pad').getBoundingClientRect())")
	    b.drag(box[0] + 60, box[0] + 220, box[1] + 140)
	    wait_for(b, "document.querySelectorAll('#answer tr').length == 5")
	    shares = b.value("[...document.querySelectorAll('#answer meter')].map(m => m.value)")
	    assert shares == sorted(shares, reverse=True) and shares[0] > 0.1, shares
	    b.value("document.getElementById('clear').click()")
	    assert b.value("document.querySelectorAll('#answer tr').length") == 0
	    b.value("""pad.toBlob((p) => {
	        const t = new DataTransfer();
	        t.items.add(new File([p], 'x.png', { type: 'image/png' }));
	        document.dispatchEvent(new DragEvent('drop', { dataTransfer: t, bubbles: true, cancelable: true }));
	    }, 'image/png')""")
	    wait_for(b, "document.querySelectorAll('#answer tr').length == 5")
	    # What is no picture is refused in words.
	    b.value("ask(new Blob(['no'], { type: 'image/png' }))")
	    wait_for(b, "document.getElementById('note').textContent.includes('neither PNG nor JPEG')")
	    wrong = [e for e in b.errors if not e.startswith("asks for " + sys.argv[1] + "/predict") and "422" not in e]
	    assert not wrong, wrong
	    # Nothing from elsewhere, as the policy says.
	    b.value("fetch('https://example.org/').catch(() => { document.title = 'refused'; })")
	    wait_for(b, "document.title == 'refused'")
	END
}

# share N: a server with an address of its own, which shares the port $shared, too; sets pid[N].
share() {
	"$mltrain" serve --checkpoint "$NET" --listen 127.0.0.1:0 --shared-listen "127.0.0.1:$shared" 2>"log$1" 3>&- &
	pid[$1]=$!
	PIDS+=("$!")
	until_true grep -q '^mltrain: serving' "log$1"
}

# has_predicted N: that server has answered.
has_predicted() {
	curl -s "$(sed -n 's/.* on \(http[^ ]*\) and.*/\1/p' "log$1")/metrics" |
		grep -q '^mltrain_requests_total{path="/predict",code="200"} [1-9]'
}

@test "mltrain serve --shared-listen: replicas divide connections, and one that is killed loses what it had in hand" {
	local shared load pid=()
	shared=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	share 1
	share 2
	share 3
	grep -qE "^mltrain: serving 'net' on http://127.0.0.1:[0-9]+ and http://127.0.0.1:$shared$" log2
	"$mltrain" load "http://127.0.0.1:$shared/predict" --images "$SMALL" -u 40 -d 5s --json load.json >/dev/null 2>&1 3>&- &
	load=$!
	PIDS+=("$load")
	until_true has_predicted 2
	kill -KILL "${pid[2]}"
	wait "$load"
	jq -c '{failed, requests, failures}' load.json
	jq -e '.failed <= 40 and .requests > 100 and .statuses == {"200": (.requests - .failed)}' load.json
	has_predicted 1
	has_predicted 3
	# A kept connection ends after a while, so that a replica that was restarted gets its share.
	run -0 "$client" closes_after "$shared"
	[ "$output" -ge 1000 ] && [ "$output" -lt 1300 ]
	"$mltrain" load "http://127.0.0.1:$shared/predict" --images "$SMALL" -u 1 -d 2s --json kept.json >/dev/null 2>&1
	jq -e '.failed == 0' kept.json
	# One that does not share is told that the port is taken.
	run -1 "$mltrain" serve --checkpoint "$NET" --listen "127.0.0.1:$shared"
	assert_output --partial "--listen '127.0.0.1:$shared': listen: Address already in use"
	run -1 "$mltrain" serve --checkpoint "$NET" --shared-listen unix:socket
	assert_output --partial "servers cannot share a socket in the file system"
}
