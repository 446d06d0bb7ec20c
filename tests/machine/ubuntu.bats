#!/usr/bin/env bats
# Ubuntu 24.04 as it is installed: AppArmor gives user namespaces to programs with a profile only. The tests follow each other.
# shellcheck disable=SC2088 # the machine's shell expands

load ../cli/common
load machine

setup_file() { machines_start noble 1; }
teardown_file() { machines_stop; }

# starts PROGRAM: a container, an image's RUN and a service of ada's do.
starts() {
	run -0 on 1 ada "export MLRUN_STORE=~/store
		printf 'FROM tiny\nRUN echo made >/made\n' >Dockerfile
		$1 import -q /srv/tiny.tar tiny
		$1 exec tiny id -u
		$1 build -q -t mine .
		$1 exec mine cat /made
		$1 run -d --name service tiny sleep 600
		$1 exec --join service echo joined
		$1 stop --rm service
		$1 rm mine tiny"
	assert_line 1000
	assert_line made
	assert_line joined
	refute_output --partial hint:
}

@test "Ubuntu: without a profile every start is refused, and the message and doctor name the way out" {
	run -0 on 1 ada 'mlrun import -q /srv/tiny.tar tiny'
	run -125 on 1 ada 'mlrun exec tiny true'
	assert_line --partial 'AppArmor restricts user namespaces'
	assert_line --partial 'hint:'
	run -1 on 1 ada 'mlrun doctor'
	assert_line --partial 'kernel.apparmor_restrict_unprivileged_userns is 1'
}

@test "Ubuntu: the commands that doctor prints for the administrator are the whole way out" {
	local way

	way=$(on 1 ada 'mlrun doctor || true' | sed -n "/cat >\/etc\/apparmor.d\/mlrun/,/apparmor_parser/p" | sed 's/^ *//; s/^for the administrator: //')
	run -0 on 1 root "$way"
	starts mlrun
	run -0 on 1 ada 'mlrun doctor'
	run -0 on 1 root 'apparmor_parser -R /etc/apparmor.d/mlrun; rm /etc/apparmor.d/mlrun'
	run -125 on 1 ada 'mlrun exec tiny true'
}

@test "Ubuntu: the packages' profile lets mlrun start containers" {
	run -0 on 1 root "cat >/etc/apparmor.d/mlrun <<'END'
$(sed 's|/usr/{|/usr/local/{|' "$top_srcdir/packaging/apparmor")
END
		apparmor_parser -r /etc/apparmor.d/mlrun"
	starts mlrun
	run -0 on 1 root 'apparmor_parser -R /etc/apparmor.d/mlrun; rm /etc/apparmor.d/mlrun'
}

@test "Ubuntu: quickstart gives its own build a profile, and takes it away again" {
	on 1 root "mkdir /home/ada/clone; cat >/home/ada/clone/quickstart <<'END OF THE SCRIPT'
$(cat "$top_srcdir/quickstart")
END OF THE SCRIPT
		chmod 755 /home/ada/clone/quickstart
		mkdir /home/ada/clone/build-demo
		cp -r /usr/local/bin /usr/local/lib /usr/local/libexec /home/ada/clone/build-demo
		chown -R ada: /home/ada/clone"
	run on 1 root '/home/ada/clone/quickstart --no-deps demo' # it cannot be built there
	assert_line --partial 'AppArmor lets the programs below /home/ada/clone/build-demo make user namespaces'
	starts '~/clone/build-demo/bin/mlrun'
	run -0 on 1 root '/home/ada/clone/quickstart clean; ls /home/ada/clone /etc/apparmor.d | grep -E "build-demo|mlrun-" || true'
	assert_output ''
}
