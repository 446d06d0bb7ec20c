# Whatever fails at whatever moment, the store is good afterwards: the next pull succeeds and all
# that is in it verifies. FAULT_POINTS is the number of points tried of each family of system calls
# (4; 0: all), KILLS the number of kills (5); four times as many in `check --all`.
load common

setup_file() {
	registry_start
	image_tiny tiny
	mkdir -p "$BATS_FILE_TMPDIR/top/sub"
	seq 20000 >"$BATS_FILE_TMPDIR/top/sub/numbers"
	layer_tar "$BATS_FILE_TMPDIR/top.tar" "$BATS_FILE_TMPDIR/top"
	image_push_tar app "$BATS_FILE_TMPDIR/tiny.tar" "$BATS_FILE_TMPDIR/top.tar"
	# Many files and several layers: a kill meets every stage.
	for i in 1 2 3; do
		mkdir "$BATS_FILE_TMPDIR/m$i"
		(cd "$BATS_FILE_TMPDIR/m$i" && seq -f "layer $i %.0f" 3000 | split -l 2 - f)
		layer_tar "$BATS_FILE_TMPDIR/m$i.tar" "$BATS_FILE_TMPDIR/m$i"
	done
	image_push_tar many "$BATS_FILE_TMPDIR"/m{1,2,3}.tar
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	fault=$top_builddir/tests/fault/fault.so
	export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
}

without_leak_check() {
	ends_early
	exec mlrun "$@"
}

# With the fault gone, the store must be as good as new.
is_usable() {
	mlrun pull -q "$REGISTRY/app" 2>"$TMPDIR/after" || { cat "$TMPDIR/after"; return 1; }
	mlrun store verify 2>>"$TMPDIR/after" || { cat "$TMPDIR/after"; return 1; }
	# What a process could not tidy up after itself the next pull takes along, or else prune.
	mlrun prune 2>>"$TMPDIR/after" || { cat "$TMPDIR/after"; return 1; }
	assert_equal "$(ls "$MLRUN_STORE/tmp" "$MLRUN_STORE/holds")" \
		"$MLRUN_STORE/holds:"$'\ntoken\n\n'"$MLRUN_STORE/tmp:"
}

# each_call_fails FAMILY ERRNO: the n-th call of the family fails, for n spread over all there are.
each_call_fails() {
	local count n step status failed=0 points=${FAULT_POINTS:-$(rounds 16)}

	FAULT_COUNT=$TMPDIR/count LD_PRELOAD=$fault mlrun pull -q "$REGISTRY/app"
	count=$(sed -n "s/^$1 //p" "$TMPDIR/count")
	assert [ "$count" -ge 1 ]
	step=1
	if [ "$points" -gt 0 ] && [ "$count" -gt "$points" ]; then
		step=$((count / $points))
	fi
	for ((n = 1; n <= count; n += step)); do
		chmod -R u+rwX "$MLRUN_STORE" && rm -rf "$MLRUN_STORE"
		status=0
		FAULT_CALL=$1:$n FAULT_ERRNO=$2 LD_PRELOAD=$fault \
			mlrun pull -q "$REGISTRY/app" >said 2>&1 || status=$?
		failed=$((failed + (status != 0)))
		if [ "$status" != 0 ] && [ "$status" != 125 ]; then
			echo "$1 $n of $count: status $status"
			cat said
			return 1
		fi
		# A failure is told in a sentence.
		[ "$status" = 0 ] || grep -q '^mlrun: ' said || { cat said; return 1; }
		is_usable || { echo "after $1 $n of $count failed"; cat said; return 1; }
	done
	assert [ "$failed" -ge 1 ] # the faults did reach it
}

@test "faults: a write fails" { each_call_fails write 28; }
@test "faults: a rename fails" { each_call_fails rename 5; }
@test "faults: a sync fails" { each_call_fails fsync 5; }
@test "faults: a mkdir fails" { each_call_fails mkdir 28; }
@test "faults: an open fails" { each_call_fails open 24; }
@test "faults: a connect fails" { FAULT_POINTS=0 each_call_fails connect 111; }

@test "faults: a pull killed at any moment leaves a good store" {
	for ((i = 0; i < ${KILLS:-$(rounds 20)}; i++)); do
		without_leak_check pull -q "$REGISTRY/many" "$REGISTRY/app" 3>&- &
		sleep "0.$(printf %03d $((RANDOM % 250)))"
		kill -KILL $! 2>/dev/null || true
		wait $! || true
		if ((i % 5 == 4)); then
			mlrun rm "$REGISTRY/many" 2>/dev/null || true
			mlrun prune 2>/dev/null || true
		fi
		[ ! -e "$MLRUN_STORE/version" ] || mlrun store verify 2>/dev/null || {
			mlrun store verify || true
			return 1
		}
	done
	run -0 mlrun pull -q "$REGISTRY/many"
	is_usable
}

@test "faults: rm and prune killed at any moment leave a good store" {
	for ((i = 0; i < ${KILLS:-$(rounds 20)} / 2; i++)); do
		mlrun pull -q "$REGISTRY/many" "$REGISTRY/app"
		for command in "rm $REGISTRY/many" "rm --defer $REGISTRY/app" prune "prune --keep-last 1"; do
			# shellcheck disable=SC2086
			without_leak_check $command >/dev/null 2>&1 3>&- &
			sleep "0.0$(printf %02d $((RANDOM % 60)))"
			kill -KILL $! 2>/dev/null || true
			wait $! || true
		done
		mlrun store verify 2>/dev/null || {
			mlrun store verify || true
			return 1
		}
	done
	is_usable
}
