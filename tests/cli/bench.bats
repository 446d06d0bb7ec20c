#!/usr/bin/env bats
# bench/pull/run, bench/exec and bench/gpu: that they run, and that their reports tell what was measured.

load common

# sample NAME SECONDS PEAK-MIB [OTHERS' CPU] [BUILT]
sample() {
	printf '{"image": "small", "name": "%s", "wall": %s, "peak": %s, "others": %s, "built": %s,' "$1" "$2" "$3" \
		"${4:-0}" "${5:-7}"
	printf ' "cpu": 1, "registry_cpu": 0, "on_disk": 0, "inodes": 1, "disk_mib": 1, "again": [0.015, 0.03, 0.01]}\n'
}

setup() {
	common_setup
	echo '{"machine": ["a quiet one"], "images": {"small": "1 layer"}}' >"$BATS_TEST_TMPDIR/samples"
	{
		sample floor 1.0 5
		sample floor+digest 2.0 5
	} >>"$BATS_TEST_TMPDIR/samples"
	command -v python3 >/dev/null || skip "python3 is not installed"
}

report() { "$top_srcdir/bench/pull/run" --report --resume "$BATS_TEST_TMPDIR/samples"; }

@test "bench: the help of bench/pull/run names every contender" {
	run -0 "$top_srcdir/bench/pull/run" --help
	for name in floor+digest mlrun-squashfs curl+inflate+tar skopeo+umoci podman ch-image+squash; do
		assert_output --partial "$name"
	done
}

@test "bench: a report shows medians, ratios and the bars that are met and missed" {
	{
		sample mlrun 2.2 65
		sample mlrun 9.0 20 4.0
		sample mlrun 2.4 20
	} >>"$BATS_TEST_TMPDIR/samples"
	run -0 report
	assert_line --partial "| mlrun | 2.40 | 2.20–9.00 | 2.40 | 1.20 | 1.00 | 0.00 | 65 | 0.015 |"
	assert_line --partial "3, 1 noisy"
	assert_line "| small | layer trees / floor+digest | ≤ 1.25 | 1.2 | yes |"
	assert_line "| small | layer trees / floor | ≤ 1.38 | 2.4 | **no** |"
	assert_line "| small | pulled again | ≤ 20 ms | 15 ms | yes |"
	assert_line "| small | peak memory | ≤ 64 MiB | 65 MiB | **no** |"
	assert_line "2 of 4 bars are met."
}

@test "bench: samples of an older build of mlrun are left out of a report" {
	{
		sample mlrun 0.1 20 0 6
		sample mlrun 2.2 20 0 7
	} >>"$BATS_TEST_TMPDIR/samples"
	run -0 report
	assert_line --partial "| mlrun | 2.20 | 2.20–2.20 |"
}

@test "bench: a contender that failed is reported with its message and misses its bar" {
	echo '{"image": "small", "name": "mlrun", "wall": 1, "others": 0, "failed": "no | such image"}' \
		>>"$BATS_TEST_TMPDIR/samples"
	run -0 report
	assert_line --partial "| mlrun | failed: no / such image |"
	assert_line "| small | mlrun |  | failed | **no** |"
}

# --- bench/exec ---------------------------------------------------------------

# starts NAME AT-ONCE MEDIAN [FAILURES]
starts() {
	printf '{"name": "%s", "at_once": %s, "median": %s, "failures": %s,' "$1" "$2" "$3" "${4:-0}"
	printf ' "runs": 20, "p99": 9, "min": 0.5, "cpu": 1}\n'
}

# Of records on stdin, and "NAME": "WHY" of what is absent.
exec_document() {
	jq -s --argjson absent "{${1:-}}" '{machine: ["a quiet one"], absent: $absent, records: .}' >starts.json
}

@test "bench: the help of bench/exec names every contender and how to repeat a run" {
	run -0 "$top_srcdir/bench/exec" --help
	for name in overlay pidns host mlrun-squashfs mlrun-joined bubblewrap charliecloud-squashfs crun runc \
		podman enroot apptainer BENCH_USER; do
		assert_output --partial "$name"
	done
}

@test "bench: bench/exec measures, counts failures and leaves nothing behind" {
	needs_ordinary_user
	cc --version >/dev/null || skip "no C compiler"
	MLRUN=$top_builddir/bin/mlrun run "$top_srcdir/bench/exec" --only overlay,host,mlrun,bubblewrap --at-once 4 \
		--rounds 2 --save starts.json 3
	assert [ "$status" -le 1 ] # bars need a quiet machine
	assert_line --regexp '^\| floor: overlay of 6, .* \| 1\.00 \| .* \| 0/3 \|$'
	assert_line --regexp '^\| mlrun: overlay of 6 layers \| [0-9.]+ \| [0-9.]+ \| .* \| 0/3 \|$'
	assert_line --regexp '^\| mlrun: overlay of 6 layers \| .* \| 0/8 \|$'
	run -0 jq -c '[.records[] | select(.name == "mlrun") | [.at_once, .runs, .failures]]' starts.json
	assert_output '[[1,3,0],[4,2,0]]'
	run -0 find "$TMPDIR" -mindepth 1 -name 'mlrun-bench*'
	refute_output
}

@test "bench: bench/exec tells bars that are missed and then fails" {
	{
		starts overlay 1 1.0
		starts mlrun 1 1.4
		starts mlrun-squashfs 1 3.0
		starts bubblewrap 1 1.8
		starts overlay 64 40
		starts mlrun 64 50
		starts mlrun-squashfs 64 120
		starts charliecloud-squashfs 64 130
	} | exec_document
	run -0 "$top_srcdir/bench/exec" --report starts.json
	assert_line "| mlrun: overlay of 6 layers, 1 at once / floor | ≤ 1.6 | 1.4 | yes |"
	assert_line "| mlrun: squashfs, 64 at once / floor | ≤ 3.5 | 3 | yes |"
	assert_line "| ahead of bubblewrap, 1 at once | < 1.8 ms | 1.4 ms | yes |"
	assert_line "| ahead of Charliecloud: squashfs, 64 at once | < 130 ms | 120 ms | yes |"
	assert_line --partial "8 of 8 bars are met"
	{
		starts overlay 1 1.0
		starts mlrun 1 1.7
		starts bubblewrap 1 1.5
		starts charliecloud 1 1.7 20
		starts mlrun 256 150 3
	} | exec_document '"mlrun-pid": "exit status 125: no | such thing", "runc": "not installed"'
	run -1 "$top_srcdir/bench/exec" --report starts.json
	assert_line "missed: mlrun: overlay of 6 layers, 1 at once / floor: ≤ 1.6 is wanted, 1.7 is what it is"
	assert_line --partial "missed: ahead of bubblewrap, 1 at once: < 1.5 ms is wanted"
	assert_line --partial "missed: failures, mlrun: overlay of 6 layers, 256 at once: ≤ 0 is wanted, 3 is"
	assert_line --partial "missed: mlrun: --pid: starts is wanted, exit status 125: no / such thing"
	assert_line "| runc | not installed |  |  |  |  |  |"
	assert_line --regexp '^\| Charliecloud: directory \| 1.70 .* 20/20 \|$'
}

# gpu_record NAME MEDIAN [FAILURES]
gpu_record() {
	printf '{"name": "%s", "at_once": 1, "runs": 9, "failures": %s, "median": %s, "p99": 9, "min": %s, "cpu": 1}' "$1" \
		"${3:-0}" "$2" "$2"
}

@test "bench: a report of bench/gpu tells what GPUs add, and the bars that are missed" {
	printf '{"machine": ["a quiet one"], "absent": {"apptainer/with": "not installed"}, "entries": 9, "records": [%s,%s,%s,%s]}' \
		"$(gpu_record mlrun/without 2.0)" "$(gpu_record mlrun/with 3.5)" \
		"$(gpu_record mlrun-rootfs/without 2.0)" "$(gpu_record mlrun-rootfs/with 7.5)" >doc
	run -1 "$top_srcdir/bench/gpu" --report doc
	assert_line "| mlrun: overlay of 6 layers | 2.00 | 3.50 | 1.50 | 1.75 | 1.50 | 0.00 | 0 |"
	assert_line "| Apptainer --nv | not installed |  |  |  |  |  |  |"
	assert_line "| mlrun: overlay of 6 layers: GPUs add | ≤ 5 ms (aim 2) | 1.50 ms | yes |"
	assert_line "| mlrun: rootfs:DIRECTORY: GPUs add | ≤ 5 ms (aim 2) | 5.50 ms | **no** |"
	assert_line "2 of 3 bars are met."
}

@test "bench: bench/gpu misses its bars where nothing of a GPU is brought, or starts fail" {
	printf '{"machine": [], "absent": {"mlrun-rootfs/with": "no GPU"}, "entries": 0, "records": [%s,%s]}' \
		"$(gpu_record mlrun/without 2.0)" "$(gpu_record mlrun/with 2.1 1)" >doc
	run -1 "$top_srcdir/bench/gpu" --report doc
	assert_line "0 of 3 bars are met."
}
