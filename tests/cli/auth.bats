#!/usr/bin/env bats
# Credentials: mlrun login and logout, where they are looked for, whom they are told to.

load common
load fake

base64_of() { printf %s "$1" | base64 -w0; }

# auth_json FILE KEY USER:PASSWORD: a file that podman might have written.
auth_json() {
	mkdir -p "$(dirname "$1")"
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$2" "$(base64_of "$3")" >"$1"
	chmod 600 "$1"
}

# A registry that knows one user, as a site would run it.
start_private_registry() {
	command -v htpasswd >/dev/null || skip "htpasswd is not installed"
	htpasswd -Bbc "$TMPDIR/users" ann 'pa ss:"w$rd' 2>/dev/null
	unset "${!REGISTRY@}"
	REGISTRY_AUTH_HTPASSWD_REALM=test REGISTRY_AUTH_HTPASSWD_PATH=$TMPDIR/users registry_start
}

# helper NAME: a docker-credential-NAME on the PATH that keeps secrets in $TMPDIR/kept and notes its calls.
helper() {
	mkdir -p "$TMPDIR/bin" "$TMPDIR/kept"
	cat >"$TMPDIR/bin/docker-credential-$1" <<-END
		#!/usr/bin/env python3
		import json, os, sys
		kept, action, text = "$TMPDIR/kept/", sys.argv[1], sys.stdin.read()
		fds = os.listdir("/proc/self/fd")
		open("$TMPDIR/calls", "a").write(f"{sys.argv[1:]} {fds}\n")
		server = json.loads(text)["ServerURL"] if action == "store" else text
		path = kept + server.replace("/", "_")
		if action == "store":
		    open(path, "w").write(text)
		elif not os.path.exists(path):
		    print("credentials not found in native keychain")
		    sys.exit(1)
		elif action == "get":
		    print(open(path).read())
		elif action == "erase":
		    os.unlink(path)
	END
	chmod +x "$TMPDIR/bin/docker-credential-$1"
	export PATH="$TMPDIR/bin:$PATH"
}

@test "login: the right password is kept, mode 0600, and used" {
	fake --auth bearer --user 'ann:se cret'
	run -0 mlrun login -u ann --password-stdin "$registry" <<<'se cret'
	assert_output "mlrun: logged in to '$registry' as 'ann'; kept in '$HOME/.config/containers/auth.json'"
	assert_equal "$(stat -c %a "$HOME/.config/containers/auth.json")" 600
	assert_equal "$(jq -r ".auths[\"$registry\"].auth" "$HOME/.config/containers/auth.json")" "$(base64_of 'ann:se cret')"
	pull_whole
	grep -q "^auth GET /token?service=fake&scope=repository%3ax%3apull&account=ann auth=Basic_" "$log"
}

@test "login: a wrong password is refused and not kept" {
	fake --auth bearer --user ann:secret
	run -125 mlrun login -u ann --password-stdin "$registry" <<<wrong
	assert_output "mlrun: login '$registry': '$registry' refuses: ask 'http://$auth/token' for a token: user 'ann' is refused: fake denied
hint: a wrong user name or password? Many registries want an access token in place of the password"
	assert [ ! -e "$HOME/.config/containers/auth.json" ]
	fake --auth basic --user ann:secret
	run -125 mlrun login -u ann --password-stdin "$registry" <<<wrong
	assert_output --partial "hint: a wrong user name or password?"
	assert [ ! -e "$HOME/.config/containers/auth.json" ]
}

@test "login: the token server is asked for no repository that the user did not name" {
	fake --auth bearer --user ann:secret --no-scope
	run -0 mlrun login -u ann --password-stdin "$registry" <<<secret
	grep -q '^auth GET /token?service=fake&account=ann auth=Basic_' "$log"
	run -0 mlrun pull -q "$registry/x"
	grep -q '^auth GET /token?service=fake&scope=repository%3ax%3apull&account=ann auth=Basic_' "$log"
}

@test "login: a host that is no registry is called that" {
	(cd "$TMPDIR" && exec python3 -u -m http.server --bind 127.0.0.1 0) >"$TMPDIR/web" 2>/dev/null 3>&- &
	until [ -s web ]; do sleep 0.1; done
	web=127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' web)
	run -125 mlrun login -u ann --password-stdin "$web" <<<secret
	kill $!
	assert_output "mlrun: login '$web': '$web' is not a registry: it has no /v2/
hint: check the name; a registry's is often not its web site's"
}

@test "login: of several at once none is lost, and neither when one of them is a logout" {
	fake --auth basic --user ann:secret
	file=$TMPDIR/auth.json
	run -0 mlrun login -u ann --password-stdin --authfile "$file" "$registry/old" <<<secret
	for i in 1 2 3 4 5 6 7 8; do
		mlrun login -u ann --password-stdin --authfile "$file" "$registry/n$i" <<<secret 3>&- &
		pids+=($!)
	done
	mlrun logout --authfile "$file" "$registry/old"
	wait "${pids[@]}"
	assert_equal "$(jq -c '.auths | keys | map(sub(".*/"; ""))' "$file")" \
		'["n1","n2","n3","n4","n5","n6","n7","n8"]'
	run -0 ls "$TMPDIR"/auth.json*
	assert_output "$file"
}

@test "login: a disk that is full leaves the file as it was" {
	fake --auth basic --user ann:secret
	file=$TMPDIR/auth.json
	run -0 mlrun login -u ann --password-stdin --authfile "$file" "$registry" <<<secret
	cp "$file" before
	echo secret >password
	run -125 bash -c "trap '' XFSZ; ulimit -f 0; mlrun login -u ann --password-stdin --authfile '$file' '$registry/x' <password"
	assert_output --partial "store credentials in '$file': write "
	run -125 bash -c "trap '' XFSZ; ulimit -f 0; mlrun logout --authfile '$file' '$registry'"
	assert_output --partial "remove credentials from '$file': write "
	cmp "$file" before
	run -0 ls "$TMPDIR"/auth.json*
	assert_output "$file"
}

@test "login: what else stands in the file stays there" {
	fake --auth basic --user ann:secret
	file=$TMPDIR/my/auth.json
	mkdir my
	printf '{"auths":{"quay.io":{"auth":"eDp5"}},"credHelpers":{"ghcr.io":"pass"},"x":[1]}' >"$file"
	run -0 mlrun login --authfile "$file" -u ann --password-stdin "$registry" <<<secret
	run -0 mlrun login --authfile "$file" -u ann --password-stdin "https://$registry/" <<<secret
	assert_equal "$(jq -cS . "$file")" \
		"{\"auths\":{\"$registry\":{\"auth\":\"$(base64_of ann:secret)\"},\"quay.io\":{\"auth\":\"eDp5\"}},\"credHelpers\":{\"ghcr.io\":\"pass\"},\"x\":[1]}"
	run -0 mlrun logout --authfile "$file" "$registry"
	assert_output "mlrun: logged out of '$registry'; removed from '$file'"
	assert_equal "$(jq -c '.auths | keys' "$file")" '["quay.io"]'
	run -125 mlrun logout --authfile "$file" "$registry"
	assert_output --partial "not logged in to '$registry'"
}

@test "login: a session's directory is where podman keeps them, and that is told" {
	fake --auth basic --user ann:secret
	export XDG_RUNTIME_DIR=$TMPDIR/run
	mkdir run
	run -0 mlrun login -u ann --password-stdin "$registry" <<<secret
	assert_output --partial "kept in '$XDG_RUNTIME_DIR/containers/auth.json'"
	assert_output --partial "are gone when you log out of this machine"
	run -0 mlrun pull -q "$registry/x"
}

@test "login: asked for on the terminal, the password unseen" {
	command -v script >/dev/null || skip "script(1) is not installed"
	fake --auth basic --user ann:secret
	# Typed as soon as it is asked for, and the echo is off by then.
	(
		until_true grep -qs "user name for $registry: " typed
		echo ann
		until_true grep -q "password for ann at $registry: " typed
		echo secret
		until_true grep -qs "logged in\|refuse" typed
	) | script -qefc "mlrun login $registry" typed >/dev/null 3>&-
	refute grep -q secret typed
	run -0 mlrun pull -q "$registry/x"
}

@test "login: without a terminal says how" {
	run -125 setsid -w mlrun login quay.io </dev/null
	assert_output "mlrun: login 'quay.io': no terminal to ask on
hint: mlrun login -u USER --password-stdin quay.io <FILE"
	run -125 mlrun login --password-stdin quay.io <<<x
	assert_output "mlrun: login 'quay.io': --password-stdin needs -u USER"
	run -125 mlrun login -u a --password-stdin quay.io </dev/null
	assert_output "mlrun: login 'quay.io': standard input holds no password"
	run -125 mlrun login -u a --password-stdin debian <<<x
	assert_output --partial "'debian' is not a registry's name"
}

@test "login: Debian's docker-registry with htpasswd, and skopeo reads what mlrun keeps" {
	start_private_registry
	export REGISTRY_AUTH_FILE=$TMPDIR/auth.json
	run -125 mlrun login -u ann --password-stdin "$REGISTRY" <<<wrong
	assert_output --partial "hint: a wrong user name or password?"
	run -0 mlrun login -u ann --password-stdin "$REGISTRY" <<<'pa ss:"w$rd'
	skopeo --insecure-policy copy -q --dest-tls-verify=false "oci:$BATS_FILE_TMPDIR/layout:latest" \
		"docker://$REGISTRY/x:latest"
	run -0 mlrun pull "$REGISTRY/x"
	assert_pulled
	run -0 mlrun tags "$REGISTRY/x"
	assert_output latest
	run -0 mlrun logout "$REGISTRY"
	run -125 mlrun pull "$REGISTRY/x:other"
	assert_output --partial "log in: mlrun login $REGISTRY"
}

@test "login: mlrun reads what skopeo keeps, and each logs out of the other's" {
	start_private_registry
	export REGISTRY_AUTH_FILE=$TMPDIR/auth.json
	skopeo login --tls-verify=false -u ann --password-stdin "$REGISTRY" <<<'pa ss:"w$rd'
	skopeo --insecure-policy copy -q --dest-tls-verify=false "oci:$BATS_FILE_TMPDIR/layout:latest" \
		"docker://$REGISTRY/x:latest"
	run -0 mlrun pull "$REGISTRY/x"
	assert_pulled
	mlrun logout "$REGISTRY"
	run ! skopeo --insecure-policy inspect --tls-verify=false "docker://$REGISTRY/x:latest"
	mlrun login -u ann --password-stdin "$REGISTRY" <<<'pa ss:"w$rd'
	skopeo logout "$REGISTRY"
	run -125 mlrun logout "$REGISTRY"
}

@test "credentials: looked for where podman and Docker do, the nearest first" {
	fake --auth basic --user ann:secret
	export XDG_RUNTIME_DIR=$TMPDIR/run
	places=("$HOME/.docker/config.json" "$HOME/.config/containers/auth.json" "$XDG_RUNTIME_DIR/containers/auth.json")
	for place in "${places[@]}"; do
		auth_json "$place" "$registry" ann:secret
		rm -rf "$MLRUN_STORE"
		run -0 mlrun pull --verbose "$registry/x"
		assert_output --partial "credentials for '$registry' are those of 'ann' in '$place'"
		auth_json "$place" "$registry" ann:wrong
	done
	rm -rf "$MLRUN_STORE"
	run -125 mlrun pull "$registry/x"
	auth_json mine "$registry" ann:secret
	REGISTRY_AUTH_FILE=mine run -0 mlrun pull -q "$registry/x"
	rm -rf "$MLRUN_STORE"
	REGISTRY_AUTH_FILE=/no/such run -0 mlrun pull -q --authfile mine "$registry/x"
	rm -rf "$MLRUN_STORE"
	run -125 mlrun pull -q --authfile /no/such "$registry/x"
	assert_output --partial "credentials '/no/such': No such file or directory"
	rm "${places[@]:1}"
	DOCKER_CONFIG=$TMPDIR/docker run -125 mlrun pull -q "$registry/x"
	auth_json "$TMPDIR/docker/config.json" "http://$registry/v1/" ann:secret
	DOCKER_CONFIG=$TMPDIR/docker run -0 mlrun pull -q "$registry/x"
}

@test "credentials: the longest namespace wins" {
	fake --auth basic --user ann:secret
	printf '{"auths":{"%s":{"auth":"%s"},"%s/x":{"auth":"%s"},"%s/y":{"auth":"%s"}}}' \
		"$registry" "$(base64_of a:no)" "$registry" "$(base64_of ann:secret)" "$registry" "$(base64_of c:no)" >f
	chmod 600 f
	run -0 mlrun pull -q --authfile f "$registry/x"
	run -125 mlrun pull -q --authfile f "$registry/y/z"
	assert_output --partial "or one that 'c' may not pull"
	run -125 mlrun pull -q --authfile f "$registry/z"
	assert_output --partial "or one that 'a' may not pull"
}

@test "credentials: a name and a password in clear, as Kubernetes' secrets have them, are taken" {
	fake --auth basic --user ann:secret
	printf '{"auths":{"%s":{"username":"ann","password":"secret"}}}' "$registry" >f
	chmod 644 f
	run -125 mlrun pull -q --authfile f "$registry/x"
	assert_output --partial "others than their owner may read them"
	chmod 600 f
	run -0 mlrun pull -q --authfile f "$registry/x"
	printf '{"auths":{"%s":{"username":"ann"}}}' "$registry" >f
	run -125 mlrun pull -q --authfile f "$registry/y"
	assert_output --partial "wants a user name and a password"
}

@test "credentials: a file that others may read is refused" {
	fake --auth basic --user ann:secret
	auth_json f "$registry" ann:secret
	for mode in 640 604; do
		chmod $mode f
		run -125 mlrun pull "$registry/x" --authfile "$PWD/f"
		assert_output --partial "credentials '$PWD/f': others than their owner may read them"
		assert_output --partial "hint: chmod 600 '$PWD/f'"
	done
	refute grep -q Basic "$log"
	assert_nothing_stored
}

@test "credentials: a file without a secret for the registry is nobody's business" {
	fake --auth bearer
	printf '{"auths":{"%s":{},"quay.io":{"auth":"eDp5"}}}' "$registry" >f
	chmod 644 f
	run -0 mlrun pull -q --authfile f "$registry/x"
	refute grep -q Basic "$log"
}

@test "credentials: a malformed file is told with its name" {
	fake --auth basic --user ann:secret
	for text in '{' '{"auths":[]}' "{\"auths\":{\"$registry\":{\"auth\":\"###\"}}}" "{\"auths\":{\"$registry\":{\"auth\":7}}}"; do
		echo "$text" >f
		chmod 600 f
		run -125 mlrun pull -q --authfile f "$registry/x"
		assert_output --partial "credentials 'f': "
	done
}

@test "credentials: an identity token goes to the token server by POST" {
	fake --auth bearer --user ann:secret --refresh-token 'r&t=1'
	printf '{"auths":{"%s":{"auth":"%s","identitytoken":"r&t=1"}}}' "$registry" "$(base64_of 'ann:')" >f
	chmod 600 f
	pull_whole -q --authfile f
	grep -q "^auth POST /token auth=- " "$log"
	sed -i 's/r&t=1/old/' f
	run -125 mlrun pull --authfile f "$registry/y"
	assert_output --partial "user 'ann' is refused: fake refresh token"
}

@test "helper: credHelpers and credsStore are asked, and no secret is an argument" {
	fake --auth basic --user ann:secret
	helper fake
	printf '{"ServerURL":"x","Username":"ann","Secret":"secret"}' >"kept/$registry"
	for config in "{\"credHelpers\":{\"$registry\":\"fake\"}}" '{"credsStore":"fake"}'; do
		rm -rf "$MLRUN_STORE"
		echo "$config" >f
		run -0 mlrun pull -q --authfile f "$registry/x"
	done
	# Its three standard descriptors and the one that lists them.
	assert_equal "$(sort -u calls)" "['get'] ['0', '1', '2', '3']"
}

@test "helper: login and logout go through it" {
	fake --auth basic --user ann:secret
	helper fake
	echo '{"credsStore":"fake"}' >f
	run -0 mlrun login --authfile f -u ann --password-stdin "$registry" <<<secret
	assert_output "mlrun: logged in to '$registry' as 'ann'; kept in 'docker-credential-fake'"
	assert_equal "$(jq -r .Secret "kept/$registry")" secret
	assert_equal "$(cat f)" '{"credsStore":"fake"}'
	run -0 mlrun pull -q --authfile f "$registry/x"
	run -0 mlrun logout --authfile f "$registry"
	assert [ ! -e "kept/$registry" ]
}

@test "helper: one that knows nothing gives way to the file, one that fails is told" {
	fake --auth basic --user ann:secret
	helper fake
	printf '{"credsStore":"fake","auths":{"%s":{"auth":"%s"}}}' "$registry" "$(base64_of ann:secret)" >f
	chmod 600 f
	run -0 mlrun pull -q --authfile f "$registry/x"
	printf '#!/bin/sh\necho "the keychain is locked"; exit 1\n' >bin/docker-credential-fake
	run -125 mlrun pull -q --authfile f "$registry/y"
	assert_output --partial "credential helper 'docker-credential-fake get': exit status 1: the keychain is locked"
}

@test "helper: one that is missing is an error for its registry, and passed over as the default" {
	fake --auth bearer
	echo "{\"credHelpers\":{\"$registry\":\"nosuch\"}}" >f
	run -125 mlrun pull -q --authfile f "$registry/x"
	assert_output --partial "credential helper 'docker-credential-nosuch get': no such program on the PATH"
	assert_output --partial "hint: install it"
	echo '{"credsStore":"desktop"}' >f
	run -0 mlrun pull --authfile f "$registry/x"
	assert_output --partial "warning: 'f' names the credential helper 'docker-credential-desktop', which is not here; ignoring it"
	echo '{"credsStore":"../../bin/sh"}' >f
	run -125 mlrun pull --authfile f "$registry/y"
	assert_output --partial "'../../bin/sh' is not a credential helper's name"
}

@test "trust: the password is for the registry's own site" {
	fake --auth bearer --user ann:secret --realm "http://127.0.0.2:1/token"
	auth_json f "$registry" ann:secret
	run -125 mlrun pull --authfile f "$registry/x"
	assert_output --partial "refused to tell the credentials of '$registry' to the token server 'http://127.0.0.2:1/token', which is of another site"
	assert_output --partial "hint: if that is right: token_server = 127.0.0.2 under [registry $registry] in mlrun.conf"
	printf '[registry %s]\ntoken_server = 127.0.0.2\n' "$registry" >conf
	chmod 600 conf
	MLRUN_CONFIG=$PWD/conf run -125 mlrun pull --authfile f "$registry/x"
	assert_output --partial "cannot connect to '127.0.0.2:1'"
}

@test "trust: nothing of it follows a redirect, and nothing is logged" {
	fake --auth basic --user 'ann:geheim' --redirect-blobs
	auth_json f "$registry" ann:geheim
	MLRUN_LOG=debug run -0 mlrun pull --authfile f "$registry/x"
	refute_output --partial geheim
	refute_output --partial "$(base64_of ann:geheim)"
	assert_equal "$(grep -c '^storage GET .* auth=- ' "$log")" 2
	refute grep -q '^storage .*Basic' "$log"
}

@test "trust: tokens and passwords are no arguments of any process" {
	fake --auth bearer --user ann:geheim --delay 0.2
	auth_json f "$registry" ann:geheim
	mlrun pull -q --authfile f "$registry/x" 3>&- &
	seen=
	until is_gone $!; do
		seen+=$(tr '\0' ' ' <"/proc/$!/cmdline" 2>/dev/null || true)
		sleep 0.05
	done
	wait $!
	[[ $seen = *"mlrun pull"* ]]
	[[ $seen != *geheim* && $seen != *token-1* && $seen != *$(base64_of ann:geheim)* ]]
}

@test "token: replaced before it runs out, without a refusal" {
	fake --auth bearer --token-life 6 --delay 0.7
	pull_whole
	mlrun rm "$registry/x"
	# The blob above took longer than the token lives; the connection breaks and the next one is asked with a new one.
	fake --auth bearer --token-life 6 --delay 0.7 --cut 2000000 --cuts 1
	pull_whole
	grep -q '^registry GET .* auth=Bearer_token-[2-9] range=bytes=2000000-' "$log"
	refute grep -q '^registry GET .* auth=Bearer_token-1 range=bytes=2000000-' "$log"
}

@test "token: one refusal in the middle of several layers is one new token" {
	cd "$BATS_FILE_TMPDIR"
	if [ ! -d layout4 ]; then
		for i in 1 2 3; do
			mkdir -p "part$i"
			head -c 2000000 /dev/urandom >"part$i/part$i"
			layer_tar "part$i.tar" "part$i"
		done
		image_layout layout4 part1.tar part2.tar part3.tar
	fi
	cd "$TMPDIR"
	mkdir -p one
	ln -s "$BATS_FILE_TMPDIR/layout4" one/layout
	BATS_FILE_TMPDIR=$PWD/one fake --auth bearer --token-uses 4 --short-tokens 1 --cut 900000 --cuts 3 --delay 0.2
	run -0 mlrun pull --jobs 3 "$registry/x"
	assert_equal "$(ls "$MLRUN_STORE"/layers/*/tree/ | grep -c '^part')" 3
	# 4 requests with the first token, then all three layers are refused together.
	assert_equal "$(grep -c '^auth ' "$log")" 2
}
