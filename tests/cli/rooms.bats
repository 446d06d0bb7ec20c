#!/usr/bin/env bats
# Which room of src/ uses which: docs/architecture.md, Makefile.am's MLRUN_ROOMS and MLTRAIN_ROOMS.
load common

@test "rooms: no include and no symbol turns back" {
	command -v nm >/dev/null || skip "no nm"
	run -0 --separate-stderr "$top_srcdir/tests/cli/rooms" "$top_srcdir" "$top_builddir"
	[ "${#lines[@]}" -gt 50 ]
	assert_line --regexp '^mlrun/rootfs mlrun/store [1-9][0-9]* [1-9][0-9]*$'
	assert_line --regexp '^mltrain/serve http [1-9][0-9]* [1-9][0-9]*$'
	assert_line --regexp '^http base [1-9][0-9]* [1-9][0-9]*$'
	refute_line --regexp '^base '
}

@test "rooms: an include and a symbol that turn back are told" {
	command -v nm >/dev/null || skip "no nm"
	mkdir -p tree/src build
	cp -r "$top_srcdir/Makefile.am" tree/
	cp -r "$top_srcdir"/src/{base,http,mlrun,mltrain} tree/src/
	chmod -R u+w tree
	echo '#include "pull/pull.h"' >>tree/src/mlrun/store/blob.c
	echo '#include "http/http.h"' >>tree/src/mlrun/work/work.c
	echo '#include "mlrun/store/blob.h"' >>tree/src/mltrain/data/idx.c
	run -1 --separate-stderr "$top_srcdir/tests/cli/rooms" tree
	assert_equal "$stderr" 'src/mlrun/store/blob.c: includes "pull/pull.h", but mlrun/store may not use mlrun/pull
src/mlrun/work/work.c: includes "http/http.h", but mlrun/work may not use http
src/mltrain/data/idx.c: includes "mlrun/store/blob.h", but mltrain/data may not use mlrun/store'

	# In an order where plan comes before all that use it, their symbols turn back, too.
	sed -i 's, src/mlrun/plan/libplan.a,,; s,^MLRUN_ROOMS =,& src/mlrun/plan/libplan.a,' tree/Makefile.am
	run -1 --separate-stderr "$top_srcdir/tests/cli/rooms" tree "$top_builddir"
	[[ $stderr == *"device.o: uses plan_mount_add(), but mlrun/exec may not use mlrun/plan"* ]]
}

@test "rooms: a public name that tells neither its room nor its file is told" {
	command -v nm >/dev/null || skip "no nm"
	mkdir -p tree/src
	cp -r "$top_srcdir/Makefile.am" tree/
	cp -r "$top_srcdir"/src/{base,http,mlrun,mltrain} tree/src/
	chmod -R u+w tree

	# pull/layer.c without its room's word would speak as if it were the room layer.
	mkdir build
	(cd "$top_builddir" && find src -name 'lib*.a' -exec cp --parents -t "$OLDPWD/build" {} +)
	mkdir one
	(cd one && ar x ../build/src/mlrun/pull/libpull.a)
	objcopy --redefine-sym pull_layer_bring=layer_bring one/*layer.o
	rm build/src/mlrun/pull/libpull.a
	ar rc build/src/mlrun/pull/libpull.a one/*.o
	run -1 --separate-stderr "$top_srcdir/tests/cli/rooms" tree build
	assert_equal "$stderr" "src/mlrun/pull: layer_bring() of layer begins neither with 'pull' nor with a noun of its file"
}

# only FILES PATTERN: that code of src/ which matches is in these files.
only() {
	run -0 bash -c 'cd "$1" && grep -rlE "$2" src --include="*.c" | sort | xargs' bash "$top_srcdir" "$2"
	assert_output "$1"
}

@test "rooms: one mechanism reads options, one spans of time, and one prints listings" {
	only src/base/options.c '\b(argp_parse|getopt|getopt_long)\([^0-9)]'
	run -1 grep -rnE '%-?\*s +%-?[0-9*]*s' "$top_srcdir"/src/mlrun/cli --include=*.c --exclude=top_view.c
	only src/base/duration.c '"ms", 1e-3|86400 \}'
}

@test "rooms: one mechanism of mltrain plans nodes, one converts ranks' addresses, and one mixes bits" {
	only src/mltrain/dist/lifeline.c 's6_addr \+ 12|V4MAPPED'
	run -1 grep -rl 0xbf58476d1ce4e5b9 "$top_srcdir"/src --include=*.c # it is in tensor/rng.h
	only src/mltrain/backend/graph.c 'use\[.*\]\.reader\b'
}

# Those that call escape_next() themselves count columns, stop early or only look.
@test "rooms: one mechanism escapes what is printed, one encodes base64, one starts programs" {
	only "src/base/escape.c src/base/log.c src/base/record.c src/mlrun/cli/listing.c src/mlrun/cli/top_view.c src/mltrain/cli/cmd_eval.c" \
		'\bescape_next\('
	only src/mltrain/report/html.c 'v >> 18'
	only src/base/spawn.c 'posix_spawnp?\(&|posix_spawnp?\(pid'
}

@test "rooms: one supervisor starts and reaps what services and workers run" {
	run -1 grep -rnE '\b(signalfd|vfork|posix_spawnp?|exec[vl]p?e?|waitid)\(' "$top_srcdir"/src/mlrun/work \
		--include=*.c --exclude=supervisor.c
}

@test "rooms: Slurm is behind the table of batch systems" {
	run -1 grep -rnE ', "(sbatch|squeue|sinfo|scancel|srun)"\)|"SLURM|slurm_[a-z_]+\(' "$top_srcdir"/src/mlrun/work \
		--include=*.c --exclude=slurm.c
}

# A fake root's records are not names of an image.
@test "rooms: one tree holds an image's names" {
	only src/base/owners_file.c '\btsearch\('
}

# What takes a value of an object by its key, but base/record: documents that are changed in place (add_text, find_env,
# find_key, need, set), and lines of logs and helpers, in which what is wrong counts as unknown.
@test "rooms: one mechanism reads JSON into structs" {
	run -0 bash -c 'cd "$1" && grep -rhoE "[a-z_]+\((const )?json_t \*[a-z_]+, const char \*(key|name|member)" \
		src --include="*.c" | cut -d"(" -f1 | sort -u | xargs' bash "$top_srcdir"
	assert_output "add_text amount count_of find_env find_key get is_given is_left_out ms_of need number real_of set small_count_of text text_of"
	only src/mltrain/dist/rendezvous.c 'json_unpack'
}

@test "rooms: Slurm's plugin has all of base that it calls" {
	[ -e "$top_builddir/bin/spank_mlrun.so" ] || skip "the plugin is not built: Slurm's headers are missing"
	command -v nm >/dev/null || skip "no nm"
	run -0 comm -12 <(nm -D --undefined-only "$top_builddir/bin/spank_mlrun.so" | awk '{ print $NF }' | sort -u) \
		<(nm -g --defined-only "$top_builddir/src/base/libbase.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
	assert_output ''
}
