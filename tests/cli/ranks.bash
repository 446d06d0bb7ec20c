# shellcheck shell=bash
# For tests of training on several ranks: `load ranks` beside `load common`.
#
#   ranks_setup                     in setup(), after common_setup
#   ranks_data DIR                  make a data set of small images there
#   ranks_norm_net true|false       a network with batch norm over all ranks, or over each one's rows
#   assert_same_losses LOG LOG      of eight steps, in JSON lines
#   assert_same_tensors FILE FILE   of checkpoints
#   has_steps FILE COUNT            does a log have so many records of steps?
#   assert_ends PID                 a child of this shell ends by itself; sets $status

ranks_setup() {
	export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
	# Where mpirun and the ranks meet has a limit on the length of its name.
	export TMPDIR=/tmp
	# What MPI_Init(3) takes, MPI_Finalize(3) does not all give back.
	export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
}

ranks_data() {
	mkdir "$1"
	python3 - "$1" <<-'END'
	# Images of 16x16 noise with a bright row; which row is the class. Noise everywhere: where bytes are equal,
	# rounding decides which of them a pool takes, and two right answers differ.
	import random, struct, sys
	random.seed(1)
	for name, n in ("train", 500), ("t10k", 100):
	    labels = bytes(random.randrange(10) for _ in range(n))
	    images = bytearray(random.randrange(100) for _ in range(256 * n))
	    for i, l in enumerate(labels):
	        images[256 * i + 16 * l:256 * i + 16 * l + 16] = bytes(random.randrange(150, 256) for _ in range(16))
	    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte", "wb") as f:
	        f.write(struct.pack(">IIII", 2051, n, 16, 16) + images)
	    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte", "wb") as f:
	        f.write(struct.pack(">II", 2049, n) + labels)
	END
}

# ranks_norm_net SYNC: the description of a network with batch norm, on stdout
ranks_norm_net() {
	cat <<-END
	{"name": "norm", "layers": [{"kind": "conv", "outputs": 8, "size": 3, "pad": 1, "bias": false},
	 {"kind": "batchnorm", "sync": $1}, {"kind": "relu"}, {"kind": "maxpool", "size": 2},
	 {"kind": "dense", "outputs": 16, "bias": false}, {"kind": "batchnorm", "sync": $1},
	 {"kind": "relu"}, {"kind": "dropout", "rate": 0.3}, {"kind": "dense", "outputs": 10}]}
	END
}

# Losses of log $1 are those of log $2 within rounding.
assert_same_losses() {
	python3 - "$1" "$2" <<-'END'
	import json, sys
	def losses(name):
	    records = [json.loads(line) for line in open(name)]
	    return {r["step"]: r["loss"] for r in records if r["event"] == "step"}
	a, b = losses(sys.argv[1]), losses(sys.argv[2])
	assert len(b) == 8 and a.keys() == b.keys(), (a, b)
	assert len(set(b.values())) == 8
	for step in a:
	    assert abs(a[step] - b[step]) <= 1e-5 * b[step], (step, a[step], b[step])
	END
}

# The tensors of two checkpoints, momentum's too, differ by rounding alone.
assert_same_tensors() {
	python3 - "$1" "$2" <<-'END'
	import array, json, struct, sys
	def tensors(name):
	    b = open(name, "rb").read()
	    n = struct.unpack("<Q", b[:8])[0]
	    h = json.loads(b[8:8 + n])
	    h.pop("__metadata__")
	    assert len(b) == 8 + n + max(t["data_offsets"][1] for t in h.values())
	    return {k: array.array("f", b[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
	            for k, t in h.items() if t["dtype"] == "F32"}
	a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
	assert len(b) >= 8 and a.keys() == b.keys(), (a.keys(), b.keys())
	for k in b:
	    d, s = sum((x - y) ** 2 for x, y in zip(a[k], b[k])), sum(y * y for y in b[k])
	    assert len(a[k]) == len(b[k]) and d <= 1e-10 * s, (k, (d / s) ** 0.5)
	END
}

has_steps() { [[ $(grep -cs '"event":"step"' "$1") -ge $2 ]]; }

assert_ends() {
	until_true is_gone "$1" || { kill -KILL "$1"; return 1; }
	status=0
	wait "$1" || status=$?
}
