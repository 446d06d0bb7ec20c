#!/usr/bin/env bats
# bench/pull/run, as far as it measures nothing.

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
