#!/usr/bin/env bats
# --explain: what it tells must be what happens.
# shellcheck disable=SC2016,SC2046 # the inner shell expands; several words
load common
load gpu

setup_file() {
	export FILE_STORE=$BATS_FILE_TMPDIR/store FILE_ROOT=$BATS_FILE_TMPDIR/root
	tiny_root "$FILE_ROOT"
	rm "$FILE_ROOT/etc/passwd"
	mkdir -p "$FILE_ROOT"/{run,var,data/deep,opt}
	touch "$FILE_ROOT"/data/{a,b} "$FILE_ROOT/opt/file"
	ln -s ../run "$FILE_ROOT/var/run"
	ln -s ../run/resolv.conf "$FILE_ROOT/etc/resolv.conf"
	ln -s /data "$FILE_ROOT/link"
	registry_start
	layered
	if has_squashfs; then
		MLRUN_STORE=$BATS_FILE_TMPDIR/squash mlrun pull -q --format=squashfs "$REGISTRY/layered"
	fi
	registry_stop
}

# An image that looks as if it had glibc, at ./glibc.
ldconfig_root() {
	tiny_root glibc
	mkdir -p "glibc/lib/$(uname -m)-linux-gnu"
	gpu_library "glibc/lib/$(uname -m)-linux-gnu/libc.so.6" --soname=libc.so.6 --defines=GLIBC_2.36
	GLIBC=rootfs:$PWD/glibc
}

# Three layers: /d has b, c, e; /o has z; /gone and what /link led to are gone.
layered() {
	local l=$BATS_FILE_TMPDIR/l

	tiny_root "$l/1"
	mkdir -p "$l"/{1,2,3}/{d,o} "$l/1/gone"
	touch "$l"/1/d/{a,b,c} "$l"/1/o/{x,y} "$l/2/d/e" "$l/2/d/.wh.a" "$l/3/o/z" "$l/3/o/.wh..wh..opq" "$l/3/.wh.gone"
	ln -s d "$l/1/to-d"
	for i in 1 2 3; do layer_tar "$l/$i.tar" "$l/$i"; done
	image_push_tar -c --config.user -c 1234 -c --config.env -c FROM=image -c --config.cmd -c /bin/true \
		layered "$l"/{1,2,3}.tar
	MLRUN_STORE=$FILE_STORE mlrun pull -q "$REGISTRY/layered"
}

setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
	IMG=rootfs:$FILE_ROOT
}

# there, entries, link, path, on of the mount on TARGET in $output
place() { jq -c --arg t "$1" '[.mounts[] | select(.target == $t) | [.there, .entries, .link, .path, .on]][-1]' <<<"$output"; }

# Compare the plan of an image and options with a start of the same.
agrees() {
	mlrun exec --explain=json "$@" true >plan.json
	mlrun exec "$@" cat /proc/self/mountinfo >mountinfo
	mlrun exec "$@" cat /proc/self/environ >environ
	mlrun exec "$@" cat /proc/self/status >status
	mlrun exec "$@" cat /proc/self/limits >limits
	mlrun exec "$@" cat /proc/sys/kernel/hostname >hostname
	mlrun exec "$@" sh -c 'pwd -P; for n in user mnt pid ipc net uts; do readlink /proc/self/ns/$n; done' >inside
	mlrun exec "$@" sh -c 'for f; do readlink "$f" || echo; done' sh \
		$(jq -r '.mounts[] | select(.kind == "symlink") | .target' plan.json) >links
	mlrun exec "$@" sh -c 'for f; do stat -c "%n %s" "$f"; done' sh \
		$(jq -r '.mounts[] | select(.kind == "file") | .path' plan.json) >sizes
	mlrun exec "$@" sh -c 'for f; do [ ! -f "$f" ] || echo "$f"; done' sh $(jq -r '.libraries[].path' plan.json) >found
	mlrun exec "$@" sh -c 'for d; do [ -d "$d" ] && [ -w "$d" ] && echo "$d" $(ls -A "$d"); done; true' sh \
		$(jq -r '.mounts[] | select(.kind == "tmpfs") | .path' plan.json) >memory
	for n in user mnt pid ipc net uts; do readlink /proc/self/ns/$n; done >outside
	python3 - <<-'END'
		import json, os, re
		plan = json.load(open('plan.json'))
		wrong = []
		unescape = lambda s: re.sub(r'\\([0-7]{3})', lambda m: chr(int(m[1], 8)), s)
		real = [(unescape(f[4]), f[5].split(',')) for f in (l.split() for l in open('mountinfo'))]
		told = [m for m in plan['mounts'] if not m['left_out'] and m['kind'] not in ('copy', 'symlink', 'file', 'seal')]
		# The root is in memory as well, so a directory of its own that holds no more than what is told serves.
		memory = {l.split()[0]: l.split()[1:] for l in open('memory')}
		put = {m['path'] for m in plan['mounts']}
		def is_directory(m):
		    return m['kind'] == 'tmpfs' and all(any(p == m['path'] + '/' + n or p.startswith(m['path'] + '/' + n + '/') for p in put)
		                                     for n in memory.get(m['path'], ['?']))
		told = [m for m in told if not is_directory(m) or any(p == m['path'] for p, o in real)]
		for m in told:
		    here = [o for p, o in real if p == m['path']]
		    if not here:
		        wrong.append('told, but not mounted: ' + m['path'])
		    # The last one of a place lies on top.
		    elif m is [t for t in told if t['path'] == m['path']][-1]:
		        if m['readonly'] and 'ro' not in here[-1]:
		            wrong.append('not read-only: ' + m['path'])
		        wrong += ['no %s: %s' % (f, m['path']) for f in ('nosuid', 'nodev', 'noexec') if m[f] and f not in here[-1]]
		for p, o in real:
		    if p != '/' and not any(p == m['path'] or (m['kind'] == 'bind' and p.startswith(m['path'] + '/')) for m in told):
		        wrong.append('mounted, but not told: ' + p)
		for m in plan['mounts']:
		    if m['left_out'] and m['kind'] == 'bind' and any(p == m['path'] for p, o in real):
		        wrong.append('told to be left out: ' + m['path'])
		sealed = {m['path'] for m in plan['mounts'] if m['kind'] == 'seal'}
		for place in sealed:
		    here = [o for p, o in real if p == place]
		    if not here or 'ro' not in here[-1]:
		        wrong.append('told to be sealed: ' + place)
		sizes = dict(l.rsplit(' ', 1) for l in open('sizes').read().split('\n') if l)
		for m in plan['mounts']:
		    if m['kind'] == 'file' and sizes.get(m['path']) != str(m['size']):
		        wrong.append('%s has %s bytes, not %s' % (m['path'], sizes.get(m['path']), m['size']))
		    if (m['kind'] == 'file') != (m['size'] is not None):
		        wrong.append('%s has a size of %s' % (m['path'], m['size']))
		found = set(open('found').read().split('\n'))
		wrong += ['not there: ' + l['path'] for l in plan['libraries'] if l['path'] not in found]
		links = open('links').read().split('\n')
		for m, l in zip([m for m in plan['mounts'] if m['kind'] == 'symlink'], links):
		    if not m['left_out'] and m['source'] != l:
		        wrong.append('%s is a link to %s, not to %s' % (m['target'], l, m['source']))
		env = dict(v.split('=', 1) for v in open('environ').read().split('\0') if v)
		told_env = {v['key']: v['value'] for v in plan['environment']}
		# What differs between two starts by the tests themselves.
		for k in set(env) | set(told_env):
		    if env.get(k) != told_env.get(k):
		        wrong.append('%s is %r, not %r' % (k, env.get(k), told_env.get(k)))
		wrong += ['left out, but there: ' + k for k in plan['left_out'] if k in env and k not in told_env]
		status = dict(l.split(':\t', 1) for l in open('status').read().split('\n') if ':\t' in l)
		if bin(int(status['CapEff'], 16)).count('1') != len(plan['confinement']['capabilities']):
		    wrong.append('capabilities are ' + status['CapEff'])
		ids = [int(status['Uid'].split()[0]), int(status['Gid'].split()[0])]
		if ids != [plan['identity']['uid'], plan['identity']['gid']]:
		    wrong.append('ids are %s' % ids)
		names = {'nofile': 'Max open files', 'core': 'Max core file size', 'stack': 'Max stack size'}
		for l in plan['confinement']['limits']:
		    line = [i for i in open('limits') if i.startswith(names[l['resource']])][0]
		    if re.split('  +', line.strip())[1:3] != [str(v) if v is not None else 'unlimited' for v in (l['soft'], l['hard'])]:
		        wrong.append('not limited: ' + line)
		if plan['confinement']['hostname'] and open('hostname').read().strip() != plan['confinement']['hostname']:
		    wrong.append('the host is called ' + open('hostname').read())
		inside, outside = open('inside').read().split('\n'), open('outside').read().split('\n')
		if inside[0] != plan['directory']['path']:
		    wrong.append('the directory is ' + inside[0])
		spaces = [('mount' if i.startswith('mnt') else i.split(':')[0]) for i, o in zip(inside[1:], outside) if i != o]
		if sorted(spaces) != sorted(plan['confinement']['namespaces']):
		    wrong.append('namespaces of its own are %s' % spaces)
		print('\n'.join(wrong))
		raise SystemExit(bool(wrong))
	END
}

@test "explain: what is told is what happens, without an option" {
	run -0 agrees "$IMG"
	run -0 agrees "$REGISTRY/layered"
}

@test "explain: what is told is what happens, with links, volumes over volumes, and files" {
	mkdir -p a/sub b
	touch a/f
	mkdir -p "$HOME/.config/mlrun"
	printf '[exec]\nvolume = %s:/conf:noexec\nvolume = /no/such:/x:optional\nenv = C=conf\n' "$PWD/b" >"$HOME/.config/mlrun/mlrun.conf"
	export TMPDIR=/no/such PYTHONPATH=/x
	run -0 agrees -v "$PWD/a:/var/run/x:ro" -v "$PWD/a:/link" -v "$PWD/b:/data/sub:nosuid,nodev" -v "$PWD/a/f:/opt/file" \
		-v "$PWD/b:/conf/more" -v "$PWD/b:/new/place" -e A=b -e TINY=1 "$IMG"
	run -0 agrees -v "$PWD/a:/to-d" -v "$PWD/b:/o" -v "$PWD/b:/gone" -w /deep/er "$REGISTRY/layered"
}

@test "explain: what is told is what happens, with other ways of starting" {
	needs_ordinary_user
	run -0 agrees --home "$IMG"
	run -0 agrees --fakeroot "$IMG"
	run -0 agrees --clearenv --read-only "$IMG"
	run -0 agrees --pid --hostname other "$IMG"
	run -0 agrees --init "$IMG"
	run -0 agrees --ipc=private --net=none "$IMG"
	run -0 agrees --ulimit nofile=100:200 --ulimit core=0 --fakeroot --cap-drop CHOWN "$IMG"
	run -0 agrees --tmpfs /scratch:size=1m,noexec,ro -v "$PWD:/over:O" --tmpfs /data --mount type=bind,src="$PWD",dst=/var/run/here,ro "$IMG"
}

@test "explain: what is told is what happens, where what is written is kept" {
	needs_ordinary_user
	run -0 agrees --write=box "$REGISTRY/layered"
	mlrun exec --write=box "$REGISTRY/layered" sh -c 'rm -r /d && mkdir -p /d/own && touch /mine && ln -s mine /etc/hosts.new'
	mkdir -p a
	run -0 agrees --write=box -v "$PWD/a:/d" -v "$PWD/a:/new" "$REGISTRY/layered"
	run -0 mlrun exec --explain=json --write=box -v "$PWD/a:/d" -v /etc/hostname:/mine "$REGISTRY/layered"
	assert_equal "$(place /d)" '["directory",1,null,"/d",null]'
	assert_equal "$(place /mine)" '["file",null,null,"/mine",null]'
	assert_equal "$(jq -r .root.writes <<<"$output")" kept
}

@test "explain: what is told is what happens, with GPUs" {
	needs_ordinary_user
	driver_tree workstation
	ldconfig_root
	run -0 agrees --gpu=1 -e NVIDIA_DRIVER_CAPABILITIES=all "$GLIBC"
	run -0 agrees --gpu=all --read-only "$GLIBC"
	run -0 agrees --gpu=all --pid --fakeroot "$GLIBC"
	run -0 agrees --gpu=none "$GLIBC"
	run -0 agrees --gpu=all --write=gpus "$REGISTRY/layered"
	driver_tree mig
	run -0 agrees --gpu=0:1 "$GLIBC"
	driver_tree amd
	run -0 agrees --gpu=all "$REGISTRY/layered"
}

@test "explain: libraries and decisions are told, files by their size alone" {
	driver_tree ubuntu
	ldconfig_root
	run -0 mlrun exec --explain --gpu=0 "$GLIBC" true
	assert_line --regexp '^  gpu      file     /etc/ld.so.cache [0-9]+ bytes   \('
	assert_line '  gpu      seal     /usr/local/nvidia/lib64   (read-only from here on)'
	assert_line '  gpu      libcuda.so.1 (64 bits) /usr/local/nvidia/lib64/libcuda.so.1'
	assert_line '  gpu      NVIDIA driver 550.90.07, CUDA up to 12.4'
	run -0 mlrun exec --explain=json --gpu=0 "$GLIBC" true
	assert_equal "$(jq -c '[.libraries[] | select(.name == "libcuda.so.1") | [.origin, .path, .bits]]' <<<"$output")" \
		'[["gpu","/usr/local/nvidia/lib64/libcuda.so.1",64]]'
	assert_equal "$(jq -c '[.remarks[] | select(.text | startswith("NVIDIA driver")) | .origin]' <<<"$output")" '["gpu"]'
	run -0 mlrun exec --explain=json --gpu=none "$GLIBC" true
	assert_equal "$(jq -c '[.libraries, [.remarks[] | select(.origin != "default")]]' <<<"$output")" '[[],[]]'
}

@test "explain: a container that is joined has no mounts to tell of" {
	needs_ordinary_user
	mlrun exec -e FROM=first "$IMG" sleep 600 3>&- &
	local pid=$!
	until_true runs "$pid" sleep 600
	mlrun exec --join "$pid" --explain=json true >plan.json
	assert_equal "$(jq -c '[.confinement.join, .root, .mounts, .files]' plan.json)" "[$pid,null,[],[]]"
	assert_equal "$(jq -c '.environment[] | select(.key == "FROM") | .origin' plan.json)" '"joined"'
	# A configuration is no option, so there is nothing to refuse.
	mkdir -p "$HOME/.config/mlrun"
	printf '[exec]\nhome = true\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -0 mlrun exec --join "$pid" true
	run -0 mlrun exec --join "$pid" --explain true
	assert_line --partial "container  that of process $pid, as it is: $IMG"
	kill "$pid"
}

@test "explain: of each place it is told what the image has there" {
	mkdir a
	touch a/f
	run -0 mlrun exec --explain=json -v ./a:/data -v ./a/f:/opt/file -v ./a:/var/run/x -v ./a:/link -v ./a:/new \
		-v ./a:/data/f2 "$IMG" true
	assert_equal "$(jq -c '[.mounts[] | select(.target == "/data") | [.there, .entries]]' <<<"$output")" '[["directory",3]]'
	assert_equal "$(place /opt/file)" '["file",null,null,"/opt/file",null]'
	assert_equal "$(place /var/run/x)" '["nothing",null,null,"/run/x",null]'
	assert_equal "$(place /new)" '["nothing",null,null,"/new",null]'
	# Where the link leads, the first volume lies already.
	assert_equal "$(place /link)" '["directory",1,null,"/data","/data"]'
	assert_equal "$(place /etc/resolv.conf | jq -c '.[0, 3]' | tr '\n' ' ')" '"link" "/etc/resolv.conf" '
	assert_equal "$(place /etc/localtime | jq -c '.[0]')" '"nothing"'
	assert_equal "$(jq -c '[.mounts[] | select(.target == "/link") | .hides]' <<<"$output")" '[[{"origin":"user","target":"/data"}]]'
	run -0 mlrun exec --explain -v ./a:/data -v ./a:/etc "$IMG" true
	assert_line --regexp "^  user +bind +.*/a -> /data   \(over the image's directory of 3 entries\)$"
	assert_line --regexp "^  user +bind +.*/a -> /etc   \(over the image's directory of [0-9]+ entries; hides default's /etc/resolv.conf"
	assert_line --regexp "^  default +copy +/etc/resolv.conf -> /etc/resolv.conf   \(over the image's link to ../run/resolv.conf\)$"
	assert_line --regexp "^  default +tmpfs +/dev   \(made\)$"
}

@test "explain: layers are looked through as the overlay shows them" {
	mkdir a
	run -0 mlrun exec --explain=json -v ./a:/o -v ./a:/gone -v ./a:/to-d "$REGISTRY/layered"
	assert_equal "$(place /o)" '["directory",1,null,"/o",null]'
	assert_equal "$(place /gone)" '["nothing",null,null,"/gone",null]'
	assert_equal "$(place /to-d)" '["directory",3,null,"/d",null]'
	run -0 mlrun exec -w / "$REGISTRY/layered" sh -c 'ls /d | wc -l; ls /o | wc -l; ls -d /gone 2>&1 | grep -c "No such"'
	assert_output 3$'\n'1$'\n'1
	run -0 mlrun exec --explain=json "$REGISTRY/layered"
	assert_equal "$(jq -c '[.root.kind, (.root.trees | length), .root.writes, .image_user]' <<<"$output")" \
		'["overlay",3,"memory","1234"]'
	[[ $(jq -r .platform <<<"$output") == linux/* ]]
	assert_equal "$(jq -c '.command' <<<"$output")" '{"argv":["/bin/true"],"origin":"image"}'
}

@test "explain: of a squashfs file that is none it is not known what is there" {
	touch file.sqfs
	run -0 mlrun exec --explain=json squashfs:file.sqfs true
	assert_equal "$(jq -c '[.root.kind, .root.file]' <<<"$output")" "[\"squashfs\",\"$PWD/file.sqfs\"]"
	assert_equal "$(place /proc)" '["unknown",null,null,"/proc",null]'
	run -0 mlrun exec --explain squashfs:file.sqfs true
	assert_line --regexp '^  default +bind +/proc -> /proc   \(not known what is there\)$'
}

@test "explain: a squashfs image tells the same of what is there as the same image as layers" {
	needs_squashfs
	needs_squashfuse
	mkdir a
	local image=$REGISTRY/layered options=(-v ./a:/o -v ./a:/gone -v ./a:/to-d -v ./a:/to-d/deeper -v ./a:/bin/sh)

	MLRUN_STORE=$FILE_STORE mlrun exec --explain=json "${options[@]}" "$image" >layers.json
	mlrun exec --explain=json "${options[@]}" squashfs:"$(echo "$BATS_FILE_TMPDIR"/squash/squash/*.sqfs)" true >squashfs.json
	assert_equal "$(jq -r .root.kind layers.json squashfs.json)" overlay$'\n'squashfs
	assert_equal "$(jq .mounts squashfs.json)" "$(jq .mounts layers.json)"
	assert_equal "$(jq '[.files[] | [.path, .there]]' squashfs.json)" "$(jq '[.files[] | [.path, .there]]' layers.json)"
	run -0 jq -c '[.mounts[] | select(.target == "/to-d") | [.there, .entries, .path]]' squashfs.json
	assert_output '[["directory",3,"/d"]]'
}

is_served() {
	local pid

	for pid in $(pgrep -u "$(id -u)" -x mlrun-squashfus); do
		[ "$(readlink "/proc/$pid/fd/4")" != "$1" ] || return 0
	done
	return 1
}

@test "explain: nothing that looked into a squashfs image is left behind" {
	needs_squashfs
	needs_squashfuse
	local file

	file=$(echo "$BATS_FILE_TMPDIR"/squash/squash/*.sqfs)
	mlrun exec --explain squashfs:"$file" true >/dev/null
	wait_while is_served "$file"
}

@test "explain: variables tell whose value they took the place of" {
	FROM=caller run -0 mlrun exec --explain=json -e FROM=user "$REGISTRY/layered"
	assert_equal "$(jq -c '.environment[] | select(.key == "FROM")' <<<"$output")" \
		'{"origin":"user","key":"FROM","value":"user","shadowed":{"origin":"image","value":"image"}}'
	FROM=caller run -0 mlrun exec --explain "$REGISTRY/layered"
	assert_line "  image    FROM=image   (instead of caller's 'caller')"
}

@test "explain: files that know the caller, capabilities, descriptors, all keys" {
	needs_ordinary_user
	run -0 mlrun exec --explain=json "$IMG" true
	assert_equal "$(jq -c '[.files[] | [.path, .there]]' <<<"$output")" '[["/etc/passwd","nothing"],["/etc/group","file"]]'
	assert_equal "$(jq -c '.confinement.capabilities' <<<"$output")" '[]'
	assert_equal "$(jq -c 'keys' <<<"$output")" \
		'["command","confinement","directory","environment","files","identity","image","image_user","left_out","libraries","mounts","notes","platform","remarks","root"]'
	assert_equal "$(jq -c '[.mounts[] | keys] | unique' <<<"$output")" \
		'[["entries","hides","kind","left_out","link","nodev","noexec","nosuid","on","optional","options","origin","path","readonly","size","source","target","there"]]'
	assert_equal "$(jq -c '.confinement | keys' <<<"$output")" \
		'["capabilities","cpus","descriptors","hostname","init","join","limits","memory","namespaces","seccomp","share"]'
	run -0 mlrun exec --explain=json --fakeroot "$IMG" true
	assert_equal "$(jq '.confinement.capabilities | index("CAP_CHOWN") != null' <<<"$output")" true
	PMI_FD=11 run -0 bash -c 'exec 11</etc/passwd; exec mlrun exec --explain=json "$0" true' "$IMG"
	assert_equal "$(jq -c '.confinement.descriptors' <<<"$output")" '[11]'
}

@test "explain: nothing is run, made, or noted in the store" {
	find "$MLRUN_STORE" | sort >before
	run -0 mlrun exec --explain -v "$PWD:/new" "$REGISTRY/layered" touch ran
	[ ! -e ran ]
	find "$MLRUN_STORE" | sort | diff before -
	run -125 mlrun exec --explain=yaml "$IMG" true
	assert_output --partial "--explain is for people, --explain=json for programs, not 'yaml'"
	run -125 mlrun exec --explain=json no/such:image true
	refute_output --partial "{"
	assert_output --partial "hint: mlrun pull no/such:image"
}
