#!/usr/bin/env bats
# What mltrain train says of a run: on a terminal, as the tutorial does, as JSON lines, for TensorBoard.

load mltrain.bash

setup_file() {
    mltrain_setup
}

setup() {
    cd "$BATS_TEST_TMPDIR"
}

train() {
    $mltrain train --threads 1 --data "$SMALL" --net "$SMALL/tiny.json" --validation 100 "$@"
}

@test "metrics: --log-format=tf prints the tutorial's lines every 100 steps, and nothing else" {
    needs_data
    train -q --steps 101 --epochs 20 --log-format tf > out
    cat out
    [ "$(wc -l < out)" = 10 ]
    paste -sd '|' out | grep -Eq "^Initialized\!\|Step 0 \(epoch 0\.00\), [0-9]+\.[0-9] ms\|\
Minibatch loss: [0-9]+\.[0-9]{3}, learning rate: 0\.010000\|Minibatch error: [0-9]+\.[0-9]%\|\
Validation error: [0-9]+\.[0-9]%\|Step 100 \(epoch 5\.82\), [0-9]+\.[0-9] ms\|\
Minibatch loss: [0-9]+\.[0-9]{3}, learning rate: 0\.007738\|Minibatch error: [0-9]+\.[0-9]%\|\
Validation error: [0-9]+\.[0-9]%\|Test error: [0-9]+\.[0-9]%$"
}

@test "metrics: --log-format=json gives on standard output what --log writes" {
    needs_data
    train -q --epochs 2 --log-format json --log run.jsonl > out
    cmp out run.jsonl
    [ "$(jq -r .event out | uniq | paste -sd ' ')" != "" ]
    [ "$(jq -s '[.[] | select(.event == "epoch")] | length' out)" = 2 ]
    [ "$(tail -n 1 out | jq -r .event)" = end ]
    # Time goes on, and every record tells it.
    jq -s -e '[.[].seconds] | . == sort and all(. > 0)' out
    # Steps, epochs and the end have the same keys, and those that the manual documents.
    jq -s -e '[.[] | select(.event == "step" or .event == "epoch" or .event == "end") | keys] | unique | length == 1' out
    MANROFFOPT='' mandoc -T utf8 "$top_srcdir/src/mltrain/cli/mltrain.1" | col -b > manual
    for key in $(jq -r 'keys[]' out | sort -u | grep -vx event); do
        grep -qw -- "$key" manual || { echo "$key is not in the manual"; false; }
    done
}

@test "metrics: of two formats the latter counts, validation included" {
    needs_data
    train -q --log-format=tf --log-format=text --steps 1 --log run.jsonl > out
    grep -q "^test accuracy" out
    [ -z "$(grep '"event":"validated"' run.jsonl)" ]
}

@test "metrics: an unknown format is named" {
    run -2 "$mltrain" train --data x --log-format xml
    [[ "$output" == *"--log-format takes text, tf or json, not 'xml'"* ]]
}

@test "metrics: the load is sampled, of the process and of the node" {
    needs_data
    # Not by the function: the shell would be killed in its place.
    $mltrain train -q --threads 1 --data "$SMALL" --validation 100 --epochs 9000 --load-every 0.2 --log run.jsonl > out 3>&- &
    wait_records run.jsonl load 3
    kill $!
    wait $!
    jq -s -e '[.[] | select(.event == "load")] | length >= 3 and
        all(.rss_bytes > 20000000 and .cpu_node_percent >= 0 and .cpu_node_percent <= 100 and .gpus == []) and
        all(.cpu_process_percent >= 0 and .cpu_process_percent < 900) and any(.cpu_process_percent > 5)' run.jsonl
    train -q --epochs 1 --load-every 0 --log none.jsonl > out
    [ "$(jq -s '[.[] | select(.event == "load")] | length' none.jsonl)" = 0 ]
}

# terminal COLUMNS COLUMNS -- COMMAND...: run it on a terminal whose width changes from the one to the other after
# some lines that were drawn, until some more have come; tell every drawn line on stdout.
terminal() {
    python3 - "$@" <<-'END'
	import fcntl, os, pty, re, signal, struct, sys, termios
	split = sys.argv.index("--")
	widths, command = [int(w) for w in sys.argv[1:split]], sys.argv[split + 1:]
	pid, fd = pty.fork()
	def resize(columns):
	    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
	if pid == 0:
	    os.environ["TERM"] = "xterm"
	    os.read(0, 1)  # until the size is set
	    os.execvp(command[0], command)
	resize(widths.pop(0))
	os.write(fd, b"\n")
	text, ended = b"", False
	try:
	    while True:
	        more = os.read(fd, 4096)
	        if not more:
	            break
	        text += more
	        if widths and text.count(b"\x1b[K") >= 3:
	            resize(widths.pop(0))
	        elif not widths and not ended and len(re.findall(rb"\r[^\r]{10,49}\x1b\[K", text)) >= 5:
	            os.kill(pid, signal.SIGTERM)
	            ended = True
	except OSError:
	    pass
	_, status = os.waitpid(pid, 0)
	for piece in text.decode().split("\r"):
	    if piece.endswith("\x1b[K"):
	        print(piece[:-3])
	sys.exit(os.waitstatus_to_exitcode(status))
	END
}

@test "metrics: the live line fits the terminal, also when its width changes" {
    needs_data
    terminal 200 50 -- $mltrain train --threads 1 --data "$SMALL" --validation 100 --epochs 9000 > lines
    cat lines
    # At first the whole line, with all that it tells; then what fits into 49 columns of it.
    grep -Eq '^epoch 1/9000  step [0-9]+/153000  [0-9:]+:[0-9]{2} left  [0-9]+ images/s  loss [0-9.]+  batch error [0-9.]+ %  validation error (-|[0-9.]+ %)$' lines
    # Once it has changed, none is longer.
    sed '1,/^.\{10,49\}$/d' lines | grep . > narrow
    [ "$(wc -l < narrow)" -ge 4 ]
    [ -z "$(grep -E '.{50}' narrow)" ]
    # No number and no word is cut.
    [ -z "$(grep -Ev '^epoch [0-9]+/9000  step [0-9]+/153000(  [0-9:]+:[0-9]{2} left)?(  [0-9]+ images/s)?(  loss [0-9]+\.[0-9]{3})?(  batch error [0-9.]+ %)?$' narrow)" ]
}

@test "metrics: TensorBoard reads every scalar at its step, in runs to lay over each other, and the hyper-parameters" {
    needs_data
    python=$("$top_srcdir/tests/cli/python-env" tensorboard 2>&1) || skip "$python"
    train -q --net reference --batch 16 --steps 20 --log-every 5 --tensorboard events --log run.jsonl --load-every 0.1 > out
    [ "$(ls events)" = $'test\ntrain\nvalidation' ]
    [ "$(ls events/* | grep -c tfevents)" = 3 ]
    $python - <<-'END'
	import json, math
	from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
	records = [json.loads(line) for line in open("run.jsonl")]
	runs = {}
	for run in "train", "validation", "test":
	    runs[run] = EventAccumulator("events/" + run, size_guidance={"scalars": 0, "tensors": 0})
	    runs[run].Reload()
	def told(run, tag):
	    return [(e.step, e.value) for e in runs[run].Scalars(tag)]
	def logged(event, key):
	    return [(r["step"], r[key]) for r in records if r["event"] == event]
	def same(run, tag, event, key):
	    x, y = told(run, tag), logged(event, key)
	    assert len(x) == len(y) > 0, (tag, x, y)
	    for (s, v), (t, w) in zip(x, y):
	        assert s == t and math.isclose(v, w, rel_tol=1e-6, abs_tol=1e-9), (tag, s, v, t, w)
	same("train", "loss", "step", "loss")
	same("train", "cross_entropy", "step", "cross_entropy")
	same("train", "error", "step", "batch_error")
	same("train", "lr", "step", "lr")
	same("validation", "error", "epoch", "validation_error")
	same("test", "error", "end", "test_error")
	same("test", "cross_entropy", "test", "cross_entropy")
	same("train", "load/cpu_process_percent", "load", "cpu_process_percent")
	same("train", "load/cpu_node_percent", "load", "cpu_node_percent")
	same("train", "load/rss_bytes", "load", "rss_bytes")
	assert len(told("train", "images_per_second")) == len(told("train", "loss"))
	assert all(v > 0 for _, v in told("train", "images_per_second"))
	((step, value),) = told("validation", "cross_entropy")
	assert step == 20 and 0 < value < 3, value
	text = runs["train"].Tensors("hparams")[0].tensor_proto.string_val[0].decode()
	assert "| batch | `16` |" in text and "| net | " in text, text
	END
}

@test "metrics: TensorBoard has histograms of the weights, pictures of samples and of mistakes" {
    needs_data
    python=$("$top_srcdir/tests/cli/python-env" tensorboard 2>&1) || skip "$python"
    [[ "$($mltrain --version)" == *" +png "* ]] || skip "mltrain was built without libpng"
    train -q --epochs 3 --tensorboard events --checkpoint c.safetensors --log run.jsonl > out
    PYTHONPATH="$top_srcdir/tests/cli" $python - <<-'END'
	import base64, json, math, os, struct, zlib
	from browser import unfilter
	from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
	def run(name):
	    a = EventAccumulator("events/" + name, size_guidance={"histograms": 0, "images": 0})
	    a.Reload()
	    return a
	train, test = run("train"), run("test")
	records = [json.loads(line) for line in open("run.jsonl")]
	# Histograms: at the start and after every epoch, the last of the weights that were saved.
	data = open("c.safetensors", "rb").read()
	(n,) = struct.unpack("<Q", data[:8])
	tensors = {k: v for k, v in json.loads(data[8:8 + n]).items() if k[0] not in "_v"}
	assert {"weights/" + k for k in tensors} == set(train.Tags()["histograms"]), train.Tags()
	for name, t in tensors.items():
	    a, b = (8 + n + o for o in t["data_offsets"])
	    values = struct.unpack("<%df" % ((b - a) // 4), data[a:b])
	    told = train.Histograms("weights/" + name)
	    assert [e.step for e in told] == [0] + [r["step"] for r in records if r["event"] == "epoch"], told
	    h = told[-1].histogram_value
	    assert h.num == len(values) == sum(h.bucket) and len(h.bucket) == len(h.bucket_limit) == 30
	    assert math.isclose(h.min, min(values)) and math.isclose(h.max, max(values))
	    assert math.isclose(h.sum, sum(values), abs_tol=1e-6)
	    assert math.isclose(h.sum_squares, sum(v * v for v in values), rel_tol=1e-6)
	    for i, limit in enumerate(h.bucket_limit):  # a value on a limit may be on either side
	        below = sum(v <= limit + 1e-9 for v in values), sum(v < limit - 1e-9 for v in values)
	        assert below[1] <= sum(h.bucket[:i + 1]) <= below[0], (name, i)
	    assert told[0].histogram_value.sum != h.sum
	# Pictures: those of the data set, by their own names.
	def pixels(png):
	    at, packed = 8, b""
	    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">IIBB", png[16:26]) == (28, 28, 8, 0)
	    while at < len(png):
	        size, kind = struct.unpack(">I4s", png[at:at + 8])
	        packed += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
	        at += 12 + size
	    raw, up, out = zlib.decompress(packed), bytearray(28), b""
	    for y in range(28):
	        line = bytearray(raw[29 * y + 1:29 * y + 29])
	        unfilter(raw[29 * y], line, up, 1)
	        up, out = line, out + bytes(line)
	    return out
	images = open(os.environ["SMALL"] + "/train-images-idx3-ubyte", "rb").read()[16:]
	labels = open(os.environ["SMALL"] + "/train-labels-idx1-ubyte", "rb").read()[8:]
	tags = sorted(train.Tags()["images"])
	assert len(tags) == 12, tags
	for i, tag in enumerate(tags):
	    assert tag == "samples/%02d %d" % (i, labels[100 + i]), tag
	    (e,) = train.Images(tag)
	    assert (e.step, e.width, e.height) == (0, 28, 28)
	    assert pixels(e.encoded_image_string) == images[784 * (100 + i):784 * (101 + i)], tag
	(told,) = [r for r in records if r["event"] == "test"]
	tags = sorted(test.Tags()["images"])
	assert len(tags) == len(told["mistakes"]) == 24, tags
	for i, (tag, m) in enumerate(zip(tags, told["mistakes"])):
	    assert tag == "mistakes/%02d %d taken for %d, %.1f %%" % (i, m["label"], m["guess"], 100 * m["probability"]), tag
	    assert test.Images(tag)[0].encoded_image_string == base64.b64decode(m["png"])
	END
}

@test "metrics: of a directory with two files TensorBoard drops what the first told of later steps" {
    needs_data
    python=$("$top_srcdir/tests/cli/python-env" tensorboard 2>&1) || skip "$python"
    train -q --steps 30 --epochs 3 --tensorboard events > out
    sleep 1.1 # files are read in the order of the seconds in their names
    train -q --steps 10 --epochs 3 --tensorboard events > out
    [ "$(ls events/train | wc -l)" = 2 ]
    $python - <<-'END'
	from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
	a = EventAccumulator("events/train", size_guidance={"scalars": 0})
	a.Reload()
	assert [e.step for e in a.Scalars("loss")] == [1, 10], a.Scalars("loss")
	END
}

@test "metrics: a run that is resumed goes on in the same directory and the same log" {
    needs_data
    python=$("$top_srcdir/tests/cli/python-env" tensorboard 2>&1) || skip "$python"
    train -q --steps 20 --log-every 1 --checkpoint c.safetensors --checkpoint-every 10 --tensorboard events --log run.jsonl > out
    sleep 1.1
    train -q --steps 40 --log-every 1 --checkpoint c.safetensors --resume --tensorboard events --log run.jsonl > out
    $python - <<-'END'
	from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
	a = EventAccumulator("events/train", size_guidance={"scalars": 0})
	a.Reload()
	assert [e.step for e in a.Scalars("loss")] == list(range(1, 41)), a.Scalars("loss")
	END
    $mltrain report run.jsonl
    grep -q 'data-points="40"' report.html
    ! grep -q 'Side by side' report.html
}

@test "metrics: after a record that was cut, the next begins a line of its own" {
    needs_data
    printf '{"event":"st' > run.jsonl
    train -q --steps 1 --log run.jsonl > out
    [ "$(head -n 1 run.jsonl)" = '{"event":"st' ]
    [ "$(sed 1d run.jsonl | jq -r .event | head -n 1)" = run ]
    train -q --steps 1 --log run.jsonl > out
    [ -z "$(sed 1d run.jsonl | grep -v '^{.*}$')" ]
    $mltrain report run.jsonl 2> err
    grep -q "'run.jsonl' line 1: damaged" err
}

@test "metrics: a file that is no log is left as it is" {
    needs_data
    train -q --steps 1 --checkpoint c.safetensors > out
    cp c.safetensors before
    run -1 train -q --steps 1 --log c.safetensors
    [[ "$output" == "mltrain: log 'c.safetensors' is there and begins with no record"* ]]
    cmp c.safetensors before
}

@test "metrics: two runs that write one log at the same time are warned" {
    needs_data
    $mltrain train --threads 1 --data "$SMALL" --validation 100 -q --epochs 9000 --log run.jsonl > out 2> err 3>&- &
    first=$!
    wait_records run.jsonl run 1
    train -q --steps 1 --log run.jsonl > out2 2> err2
    kill "$first"
    wait "$first" || true
    cat err err2
    run -1 grep warning err
    grep -q "^mltrain: warning: another run writes to log 'run.jsonl' meanwhile" err2
    train -q --steps 1 --log run.jsonl > out3 2> err3
    [ ! -s err3 ]
}

@test "metrics: what can't be written is told before training, a full disk at the end" {
    needs_data
    : > file
    run -1 train --tensorboard file/events
    [[ "$output" == *"'file' is not a directory"* ]]
    [[ "$output" != *"images to train with"* ]]
    (trap '' XFSZ; ulimit -f 2; train -q --epochs 2 --log-every 1 --log run.jsonl > out 2> err || echo $? > status)
    cat err
    [ "$(cat status)" = 1 ]
    grep -q "write log 'run.jsonl': File too large" err
    (trap '' XFSZ; ulimit -f 2; train -q --epochs 3 --log-every 1 --tensorboard events > out 2> err || echo $? > status)
    cat err
    [ "$(cat status)" = 1 ]
    grep -q "write 'events/train/events.out.tfevents.*': File too large" err
}
