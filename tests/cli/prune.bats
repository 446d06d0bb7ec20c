# What prune removes and what it leaves; tag; rm --defer; leases of Slurm jobs.
load common

setup_file() {
	local i

	registry_start
	image_tiny tiny
	for i in 1 2 3; do
		mkdir "$BATS_FILE_TMPDIR/d$i"
		head -c 2000000 /dev/urandom >"$BATS_FILE_TMPDIR/d$i/data$i"
		layer_tar "$BATS_FILE_TMPDIR/$i.tar" "$BATS_FILE_TMPDIR/d$i"
		image_push_tar "app:$i" "$BATS_FILE_TMPDIR/tiny.tar" "$BATS_FILE_TMPDIR/$i.tar"
	done
	image_push_tar single "$BATS_FILE_TMPDIR/3.tar"
}

teardown_file() { registry_stop; }

names() { mlrun images --json | jq -r '.[].name' | sed "s,$REGISTRY/,,"; }

# used NAME DAYS: it was pulled and last used so long ago.
used() {
	local digest file

	digest=$(mlrun inspect --json "$REGISTRY/$1" | jq -r .digest)
	touch -d "$2 days ago" "$MLRUN_STORE/facts/${digest#sha256:}.json"
	file=$(grep -l "$REGISTRY/$1\"" "$MLRUN_STORE"/images/*.json)
	sed -i "s/\"pulled\": [0-9]*/\"pulled\": $(date -d "$2 days ago" +%s)/" "$file"
}

pull_all() {
	mlrun pull -q "$REGISTRY"/{app:1,app:2,app:3,tiny}
	used app:1 30
	used app:2 20
	used app:3 10
	used tiny:latest 40
}

# A container of this image that runs until stop_container.
start_container() {
	mlrun exec "$REGISTRY/$1" sh -c 'echo started; exec sleep 600' >started 3>&- &
	container=$!
	until [ -s started ]; do sleep 0.05; done
}
stop_container() {
	kill "$container"
	wait "$container" || true
}

@test "prune: without options it removes what nothing needs, and no image" {
	pull_all
	layer=$MLRUN_STORE/layers/$(printf %064d 1)
	mkdir -p "$layer/tree" "$MLRUN_STORE/dir/$(printf %064d 2)/tree"
	head -c 1000000 /dev/urandom >"$layer/tree/data"
	echo '{}' >"$MLRUN_STORE/blobs/sha256/$(printf %064d 3)"
	left=$MLRUN_STORE/tmp/layer-$(printf %064d 7).a-0123456789abcdef.$(uname -n).$(cat /proc/sys/kernel/random/boot_id).1.999999999.1
	mkdir -p "$left/tree"
	run -0 mlrun prune --dry-run
	assert_output --partial "would free 1.0 MB"
	assert [ -d "$layer" ]
	run -0 mlrun prune
	assert_output --partial "freed 1.0 MB"
	assert_equal "$(ls "$MLRUN_STORE/layers" | wc -l)" 4
	assert_equal "$(ls "$MLRUN_STORE/dir" "$MLRUN_STORE/tmp")" \
		"$MLRUN_STORE/dir:"$'\n\n'"$MLRUN_STORE/tmp:"
	assert_equal "$(ls "$MLRUN_STORE/blobs/sha256" | wc -l)" 8
	assert_equal "$(names)" $'app:1\napp:2\napp:3\ntiny:latest'
	mlrun exec "$REGISTRY/app:2" cat /data2 >/dev/null
}

@test "prune: --older-than goes by the last use, --keep-last keeps" {
	pull_all
	run -0 mlrun prune --older-than 25d --keep-last 1 --dry-run
	assert_output --partial "would remove '$REGISTRY/app:1', last used"
	assert_equal "$(names | wc -l)" 4
	run -0 mlrun prune --older-than 25d --keep-last 1
	assert_output --partial "removed '$REGISTRY/app:1', last used"
	assert_equal "$(names)" $'app:2\napp:3\ntiny:latest'
	run -0 mlrun prune --older-than 25d
	assert_equal "$(names)" $'app:2\napp:3'
	mlrun exec "$REGISTRY/app:2" true # a use today
	run -0 mlrun prune --older-than 5d
	assert_equal "$(names)" app:2
	assert_equal "$(ls "$MLRUN_STORE/layers" | wc -l)" 2
}

@test "prune: --keep-last alone removes all others of each repository" {
	pull_all
	run -0 mlrun prune --keep-last 2 --json
	assert_equal "$(jq -c '[.dry_run, (.images | map(.in_use)), .bytes_left]' <<<"$output")" \
		'[false,[false],null]'
	assert_equal "$(jq -r '.images[0].name' <<<"$output")" "$REGISTRY/app:1"
	assert [ "$(jq .bytes_freed <<<"$output")" -gt 2000000 ]
	assert_equal "$(names)" $'app:2\napp:3\ntiny:latest'
}

@test "prune: --max-size removes the longest unused until the rest fits" {
	pull_all
	used tiny:latest 5
	run -0 mlrun prune --max-size 8MB
	assert_equal "$(names)" $'app:2\napp:3\ntiny:latest'
	assert [ "$(du -sb "$MLRUN_STORE/layers" | cut -f1)" -lt 8000000 ]
	run -0 mlrun prune --max-size 1k --keep-last 1
	assert_output --partial "the rest must stay and takes"
	assert_equal "$(names)" $'app:3\ntiny:latest'
}

@test "prune: an image in use stays" {
	pull_all
	start_container app:1
	used app:1 30
	run -0 mlrun prune --keep-last 1
	assert_output --partial "in use, kept: '$REGISTRY/app:1'"
	assert_output --partial "removed '$REGISTRY/app:2'"
	assert_equal "$(names)" $'app:1\napp:3\ntiny:latest'
	stop_container
}

@test "prune: spares what a pull at work counts on, and waits for who counts on everything" {
	mlrun pull -q "$REGISTRY/tiny"
	layer=$(ls "$MLRUN_STORE/layers")
	mlrun rm "$REGISTRY/tiny"
	mkdir -p "$MLRUN_STORE/layers/$layer/tree" "$MLRUN_STORE/layers/$(printf %064d 1)/tree"
	sleep 600 3>&- &
	sleeper=$!
	hold=$MLRUN_STORE/holds/$(store_hold_of $sleeper)
	echo "$layer" >>"$hold"
	run -0 mlrun prune
	assert_equal "$(ls "$MLRUN_STORE/layers")" "$layer"
	printf '%016x\n*\n' 0 >"$hold"
	(sleep 1; touch killed; kill $sleeper) 3>&- &
	run -0 mlrun prune
	assert [ -e killed ]
	assert_equal "$(ls "$MLRUN_STORE/layers")" ""
}

@test "prune: ten at once, with pulls and runs, leave whole images" {
	mlrun pull -q "$REGISTRY/tiny" # makes the store
	for _ in 1 2 3; do
		pids=()
		for i in 1 2 3; do
			mlrun pull -q "$REGISTRY/app:$i" 3>&- &
			pids+=($!)
			mlrun prune 2>>said 3>&- &
			pids+=($!)
			mlrun rm "$REGISTRY/app:$i" 2>/dev/null 3>&- &
		done
		for pid in "${pids[@]}"; do
			wait "$pid" || { cat said; false; }
		done
		wait
	done
	mlrun pull -q "$REGISTRY"/app:{1,2,3}
	for i in 1 2 3; do
		mlrun exec "$REGISTRY/app:$i" cat "/data$i" | cmp - "$BATS_FILE_TMPDIR/d$i/data$i"
	done
	run -0 mlrun prune --dry-run --json
	assert_equal "$(jq -c .parts <<<"$output")" '[]'
}

@test "prune: nonsense is refused, by its name, and nothing is removed" {
	mlrun pull -q "$REGISTRY/tiny"
	for bad in '--older-than 3' '--older-than x' '--older-than 500ms' '--older-than 0' '--max-size -1' '--max-size 1X' '--keep-last x'; do
		# shellcheck disable=SC2086
		run -125 mlrun prune $bad
		assert_output --partial "'${bad##* }'"
	done
	run -125 mlrun prune image
	assert_output --partial "expected no argument"
	assert_equal "$(names)" tiny:latest
}

@test "tag: a second name keeps the image when the first goes" {
	mlrun pull -q "$REGISTRY/tiny"
	run -0 mlrun tag "$REGISTRY/tiny" mine:1
	assert_output --regexp "mlrun: 'localhost/mine:1' is sha256:[0-9a-f]+ now"
	run -0 mlrun rm "$REGISTRY/tiny"
	run -0 mlrun exec mine:1 sh -c 'echo $TINY'
	assert_output yes
	run -125 mlrun tag mine:1 "other@sha256:$(printf %064d 1)"
	assert_output --partial "an image cannot be given a digest"
	run -125 mlrun tag nosuch other
	assert_output --partial "mlrun: tag 'nosuch': image 'docker.io/library/nosuch:latest' is not in store"
	run -125 mlrun tag mine:1
	assert_output --partial "an image and its new name are expected"
}

@test "rm: --defer takes the name of an image in use, and the files go later" {
	mlrun pull -q "$REGISTRY/tiny"
	start_container tiny
	run -125 mlrun rm "$REGISTRY/tiny"
	assert_output --partial "is in use by process $container on"
	assert_output --partial "hint: remove it when that process has ended; --defer removes the name now"
	run -0 mlrun rm --defer "$REGISTRY/tiny"
	assert_output --partial "removed the name '$REGISTRY/tiny:latest'; its files are in use"
	assert_equal "$(names)" ""
	run -0 mlrun prune
	assert_equal "$(ls "$MLRUN_STORE/layers" | wc -l)" 1
	run -0 cat "/proc/$container/root/etc/os-release" # it still has its files
	assert_output NAME=tiny
	stop_container
	run -0 mlrun prune
	assert_equal "$(ls "$MLRUN_STORE/layers" | wc -l)" 0
}

# --- leases of Slurm jobs elsewhere -------------------------------------------

# foreign_lease JOB: a lease of a process on another node, of this job.
foreign_lease() {
	local digest

	digest=$(mlrun inspect --json "$REGISTRY/tiny" | jq -r .digest)
	lease=$MLRUN_STORE/leases/${digest#sha256:}.node17.$(cat /proc/sys/kernel/random/boot_id).1.4711.99
	echo "$1" >"$lease"
}

# fake_squeue SCRIPT
fake_squeue() {
	mkdir -p bin
	printf '#!/bin/sh\necho "$*" >>%s\n%s\n' "$PWD/asked" "$1" >bin/squeue
	chmod +x bin/squeue
	PATH=$PWD/bin:$PATH
}

@test "lease: names the Slurm job and step" {
	mlrun pull -q "$REGISTRY/tiny"
	SLURM_JOB_ID=77 SLURM_STEP_ID=3 SLURM_CLUSTER_NAME=big start_container tiny
	run -0 cat "$MLRUN_STORE"/leases/*
	assert_output "77.3 big"
	stop_container
}

@test "lease: a job elsewhere that runs keeps its image, one that ended does not" {
	mlrun pull -q "$REGISTRY/tiny"
	foreign_lease "77.3 -"
	fake_squeue 'echo RUNNING'
	run -125 mlrun rm "$REGISTRY/tiny"
	assert_output --partial "is in use by process 4711 on 'node17', of Slurm job 77.3"
	assert_equal "$(cat asked)" "-a -h -o %T -j 77"
	fake_squeue 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1'
	run -0 mlrun rm "$REGISTRY/tiny"
}

@test "lease: where squeue cannot tell, its age decides" {
	mlrun pull -q "$REGISTRY/tiny"
	foreign_lease "77.3 -"
	fake_squeue 'echo "Unable to contact slurm controller" >&2; exit 1'
	run -125 mlrun rm "$REGISTRY/tiny"
	assert_output --partial "whether it still runs cannot be seen from here"
	fake_squeue 'exec sleep 600'
	SECONDS=0
	run -125 mlrun rm "$REGISTRY/tiny"
	assert [ "$SECONDS" -lt 300 ]
	assert_output --partial "whether it still runs cannot be seen from here"
	fake_squeue 'exec >&- 2>&-; exec sleep 600' # all is said, and it does not end
	SECONDS=0
	run -125 mlrun rm "$REGISTRY/tiny"
	assert [ "$SECONDS" -lt 300 ]
	touch -d '8 days ago' "$lease"
	run -0 mlrun rm "$REGISTRY/tiny"
}

@test "prune: a temporary file that a kill left with its name is swept" {
	mlrun pull -q "$REGISTRY/tiny"
	touch -d '2 hours ago' "$MLRUN_STORE/tmp/plain.12.0.tmp"
	touch "$MLRUN_STORE/tmp/plain.13.0.tmp"
	mlrun prune
	assert_equal "$(ls "$MLRUN_STORE/tmp")" plain.13.0.tmp
}
