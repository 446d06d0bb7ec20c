#!/usr/bin/env bats
# mlrun build --check: the Dockerfile language, without a build.
load common

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

@test "recipe: --check prints an object an instruction with --json" {
	cat >Dockerfile <<-'X'
		# syntax=docker/dockerfile:1
		ARG V=12
		FROM debian:$V AS base
		RUN --mount=type=cache,target=/c \
		    make # all
		COPY --from=base --chown=1:2 <<"A" <<B /d/
		$x
		A
		$y
		B
		CMD ["a b", "c"]
	X
	run -0 mlrun build --check --json .
	assert_equal "$(jq -sc 'map([.instruction, .line, .flags, .args, .json, .heredocs])[]' <<<"$output")" \
'["ARG",2,[],["V=12"],false,[]]
["FROM",3,[],["debian:$V","AS","base"],false,[]]
["RUN",4,["--mount=type=cache,target=/c"],["make # all"],false,[]]
["COPY",6,["--from=base","--chown=1:2"],["<<\"A\"","<<B","/d/"],false,[{"name":"A","content":"$x\n","expand":false},{"name":"B","content":"$y\n","expand":true}]]
["CMD",11,[],["a b","c"],true,[]]'
}

@test "recipe: --check says nothing of a good recipe, and warns of what is unwise" {
	printf 'FROM x\nRUN true\n' >Dockerfile
	run -0 mlrun build --check .
	assert_output ""
	printf 'FROM x AS Up\nCMD true\n' >Dockerfile
	run -1 mlrun build --check .
	assert_line "mlrun: warning: Dockerfile:1: the stage name 'Up' should be in small letters (StageNameCasing)"
	assert_line --partial "Dockerfile:2: a shell runs 'true' and receives its signals"
	printf '# check=skip=all\nFROM x AS Up\nCMD true\n' >Dockerfile
	run -0 mlrun build --check .
	assert_output ""
}

@test "recipe: an error names the file, the line and the word that was perhaps meant" {
	printf 'FROM x\nRUN a \\\n  b\nCOPPY a b\n' >Containerfile
	run -125 mlrun build --check .
	assert_line "mlrun: Containerfile:4: unknown instruction 'COPPY'"
	assert_line "hint: is COPY meant?"
	run -125 mlrun build --check -f - . <<<'FROM x AS 9'
	assert_output --partial "standard input:1: invalid stage name '9'"
	run -125 mlrun build --check -f none .
	assert_output "mlrun: open 'none': No such file or directory"
	mkdir empty
	run -125 mlrun build --check empty
	assert_line "mlrun: there is no Dockerfile in 'empty'"
	assert_line "hint: -f FILE names the recipe, if it is elsewhere"
}

@test "recipe: --build-arg sets what the recipe declares" {
	printf 'ARG IMAGE\nFROM $IMAGE\n' >Dockerfile
	run -125 mlrun build --check .
	assert_output --partial "Dockerfile:2: 'FROM \$IMAGE': the image's name is empty"
	run -1 mlrun build --check --build-arg IMAGE=x .
	assert_output --partial "without --build-arg, '\$IMAGE' becomes ''"
	IMAGE=x run -1 mlrun build --check --build-arg IMAGE .
	assert_output --partial "(InvalidDefaultArgInFrom)"
	run -125 mlrun build --check --build-arg =1 .
	assert_output --partial "use NAME=VALUE or NAME"
}
