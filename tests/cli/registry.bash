# shellcheck shell=bash
# A registry of one's own: Debian's docker-registry, plain HTTP, on a loopback port that the kernel
# chooses. It dies with the shell that started it, so start it from no subshell.
#
#   registry_start [DIR]  keeps everything in DIR (else in a directory of the bats test or file); sets and exports $REGISTRY (127.0.0.1:PORT),
#                         $REGISTRY_LOG (the access log) and $REGISTRY_PID
#   registry_stop

registry_start() {
	local dir=${1:-} port='' i

	[ -n "$dir" ] || dir=$(mktemp -d "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/registry.XXXXXX")
	cat >"$dir/config.yml" <<-END
		version: 0.1
		log: {level: info, accesslog: {disabled: false}}
		storage:
		  filesystem: {rootdirectory: $dir/data}
		  delete: {enabled: true}
		http: {addr: 127.0.0.1:0}
	END
	: >"$dir/server.log"
	setpriv --pdeathsig KILL docker-registry serve "$dir/config.yml" \
		>"$dir/access.log" 2>>"$dir/server.log" </dev/null 3>&- 4>&- &
	REGISTRY_PID=$!
	for ((i = 0; i < 1200; i++)); do
		port=$(sed -n 's/.*listening on 127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/server.log")
		[ -z "$port" ] || break
		kill -0 "$REGISTRY_PID" 2>/dev/null || break
		sleep 0.1
	done
	if [ -z "$port" ]; then
		echo "docker-registry did not start:" >&2
		cat "$dir/server.log" >&2
		registry_stop
		return 1
	fi
	REGISTRY=127.0.0.1:$port
	REGISTRY_LOG=$dir/access.log
	export REGISTRY REGISTRY_LOG REGISTRY_PID
}

registry_stop() {
	[ -n "${REGISTRY_PID:-}" ] || return 0
	kill "$REGISTRY_PID" 2>/dev/null || true
	wait "$REGISTRY_PID" 2>/dev/null || true
	unset REGISTRY_PID
}
