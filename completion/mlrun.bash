# Completion of mlrun(1) for bash. Commands and options are asked of mlrun itself, so that they are
# those of the version installed; images are those of the store.
# shellcheck shell=bash

# With a second argument those of a command that has some of its own.
_mlrun_commands() { "$1" ${2+"$2"} --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }

# The options of a command, one a line, with a "=" where a value is wanted and "=?" where one may be given.
_mlrun_options() {
	local mlrun=$1

	shift
	ARGP_HELP_FMT=rmargin=250 "$mlrun" "$@" --help 2>/dev/null | sed -n '
		/^  *-/!d
		s/^  *//
		s/   *.*//
		s/\[=[^ ,]*\]/=?/g
		s/=[^ ,?][^ ,]*/=/g
		s/^\(-[^-]\), \(.*=\)$/\1=, \2/
		s/, */\n/g
		p'
}

# Names of images, as they are typed and in full.
_mlrun_images() {
	"$mlrun" images "${store[@]}" 2>/dev/null | sed -n '
		1d
		s/ .*//
		p
		s/:latest$//p
		s|^localhost/||p
		s|^docker\.io/library/||p
		s|^docker\.io/||p'
}

_mlrun_containers() { "$mlrun" containers "${store[@]}" 2>/dev/null | sed '1d; s/ .*//'; }

# Those that run, or with --all that have ended, too.
_mlrun_services() {
	"$mlrun" ps "$@" "${store[@]}" 2>/dev/null |
		awk 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "NAME") at = i; next } at && $at != "-" { print $at }'
}

_mlrun_runs() { "$mlrun" elastic list "${store[@]}" 2>/dev/null | sed '1d; s/ .*//'; }
_mlrun_workers() { "$mlrun" workers list "$@" "${store[@]}" 2>/dev/null | sed '1d; s/ .*//'; }

# "store", "exec.gpu": as mlrun config takes them.
_mlrun_settings() {
	"$mlrun" config 2>/dev/null | awk '
		/^\[/ { section = $0; gsub(/[][]/, "", section); gsub(/ /, ".", section); section = section "."; next }
		{ sub(/^# /, "") }
		NF { print section $1 }'
}

# What a value of an option may be: words on stdout, and a kind of names as the status: 1 files, 2 directories,
# 0 these words alone.
_mlrun_values() {
	case $1 in
	--pull) echo missing always never ;;
	--net | --network) echo host none ;;
	--ipc) echo host private ;;
	--mode) echo workers requeue ;;
	--mpi) echo auto none host ;;
	--gpu) echo auto all none ;;
	--join) "$mlrun" ps 2>/dev/null | awk 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "PID") at = i; next } { print $at }'
		_mlrun_services ;;
	--write) _mlrun_containers ;;
	--write-if) echo new running ;;
	--format)
		case $command in
		export) echo oci-archive oci docker-archive tar rootfs bundle squashfs sif ;;
		*) echo auto layers dir squashfs ;;
		esac
		;;
	--restart) echo no on-failure always ;;
	--progress) echo plain quiet ;;
	--compression) echo gzip zstd none ;;
	--change) echo {CMD,ENTRYPOINT,ENV,EXPOSE,HEALTHCHECK,LABEL,ONBUILD,SHELL,STOPSIGNAL,USER,VOLUME,WORKDIR} ;;
	--tls-verify) echo true false ;;
	--mount) echo type=bind,src= type=tmpfs,dst= type=overlay,src= ;;
	--ulimit) echo {as,core,cpu,data,fsize,locks,memlock,msgqueue,nice,nofile,nproc,rss,rtprio,rttime,sigpending,stack}= ;;
	--cap-drop) echo ALL CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP SYS_CHROOT SETFCAP ;;
	--partition) sinfo -h -o %R 2>/dev/null ;;
	-e | --env) compgen -v ;;
	--store | -w | --workdir) return 2 ;;
	--device)
		"$mlrun" gpu cdi --list 2>/dev/null
		return 1
		;;
	-f | --file | -o | --output | -v | --volume | --authfile | --digestfile | --env-file | --iidfile | \
		--metadata-file | --seccomp) return 1 ;;
	esac
}

# Completes $cur, of which $before is what stands before the value: "--net=" or nothing.
_mlrun_complete_value() {
	local words before=$2 value=${cur#"$2"}

	words=$(_mlrun_values "$1")
	case $? in
	1)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(
			compgen -P "$before" -f -- "$value"
			compgen -P "$before" -W "$words" -- "$value"
		)
		;;
	2)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -P "$before" -d -- "$value")
		;;
	*) mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$value") ;;
	esac
	[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
}

_mlrun_complete_option() {
	local name before options

	if [[ $cur == --*=* ]]; then
		name=${cur%%=*}
		_mlrun_complete_value "$name" "$name="
		return
	fi
	options=$(_mlrun_options "$mlrun" "${commands[@]}")
	options=$(sed 's/^\(-[^-]\)=$/\1/; s/=?$//; /^-?$/d' <<<"$options")
	mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
	[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
}

# What stands after the options: how many words there were before, in $n.
_mlrun_complete_argument() {
	case $command:$n in
	exec:0 | run:0 | shell:0 | export:0 | push:0 | tag:0 | inspect:* | rm:* | pull:*)
		mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_images)
			rootfs: squashfs:" -- "$cur")
		case ${COMPREPLY[*]-} in *fs:) compopt -o nospace 2>/dev/null ;; esac
		case $cur in
		rootfs:*) mapfile -t COMPREPLY < <(compgen -P rootfs: -d -- "${cur#*:}") ;;
		squashfs:*) mapfile -t COMPREPLY < <(compgen -P squashfs: -f -- "${cur#*:}") ;;
		*) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -X '!*.@(sif|simg)' -- "$cur") ;;
		esac
		;;
	logs:* | restart:* | stop:* | wait:*) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_services --all)" -- "$cur") ;;
	up:* | down:*) compopt -o default 2>/dev/null ;;
	compose:0) mapfile -t COMPREPLY < <(compgen -W "up down start stop restart kill ps top ls logs exec config build pull create images" -- "$cur") ;;
	commit:0) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_containers)" -- "$cur") ;;
	containers:0) mapfile -t COMPREPLY < <(compgen -W "list rm unlock" -- "$cur") ;;
	containers:*) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_containers)" -- "$cur") ;;
	build:0)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		;;
	elastic:0 | gpu:0 | oci:0 | workers:0) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_commands "$mlrun" "$command")" -- "$cur") ;;
	elastic:*)
		case ${words[2]}:$n in
		run:1) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_images)" -- "$cur") ;;
		run:*) compopt -o default 2>/dev/null ;;
		stop:*) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_runs)" -- "$cur") ;;
		esac
		;;
	workers:*)
		case ${words[2]}:$n in
		start:1) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_images)" -- "$cur") ;;
		start:*) compopt -o default 2>/dev/null ;;
		logs:*) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_workers --all)" -- "$cur") ;;
		*) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_workers)" -- "$cur") ;;
		esac
		;;
	config:0) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_settings)" -- "$cur") ;;
	help:0) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_commands "$mlrun")" -- "$cur") ;;
	manifest:0) mapfile -t COMPREPLY < <(compgen -W "push inspect" -- "$cur") ;;
	manifest:*) mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_images)" -- "$cur") ;;
	store:0) mapfile -t COMPREPLY < <(compgen -W "verify" -- "$cur") ;;
	exec:* | run:* | shell:* | export:* | import:*) compopt -o default 2>/dev/null ;;
	esac
}

# Finds where the cursor stands: sets command, commands (that, and one of its own), n, store (that of --store),
# and option when it is a value's turn.
_mlrun_locate() {
	local i word options ended=

	command=${words[1]}
	commands=("$command")
	case $command in
	elastic | gpu | manifest | oci | workers) [ ${#words[@]} -le 3 ] || commands+=("${words[2]}") ;;
	esac
	options=$'\n'$(_mlrun_options "$mlrun" "${commands[@]}")$'\n'
	for ((i = 2; i < ${#words[@]} - 1; i++)); do
		word=${words[i]}
		if [ -n "$option" ]; then
			[ "$option" != --store ] || store=("--store=$word")
			option=
		elif [ -n "$ended" ]; then
			n=$((n + 1))
		elif [ "$word" = -- ]; then
			ended=yes
		elif [[ $word == --store=* ]]; then
			store=("$word")
		elif [[ $word == -?* ]]; then
			[[ $word == --* ]] || word=-${word: -1}
			[[ $options != *$'\n'"$word="$'\n'* ]] || option=$word
		else
			n=$((n + 1))
			case $command in exec | run | shell) ended=yes ;; esac
			case $command:${words[2]}:$n in workers:start:2 | elastic:run:2) ended=yes ;; esac
		fi
	done
	[ -z "$ended" ] || [ -n "$option" ] || after=yes
}

_mlrun() {
	local mlrun=$1 cur command n=0 option='' after='' line left char
	local -a words store=() commands

	# Words as they were typed: readline would cut them at ":" and "=".
	line=${COMP_LINE:0:COMP_POINT}
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=('')
	cur=${words[${#words[@]} - 1]}
	COMPREPLY=()

	if [ ${#words[@]} -le 2 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_commands "$mlrun")" -- "$cur")
		return
	fi
	_mlrun_locate
	if [ -n "$option" ]; then
		_mlrun_complete_value "$option" ''
	elif [[ $cur == -* && -z $after ]]; then
		_mlrun_complete_option
	else
		_mlrun_complete_argument
	fi

	# Of a word that readline cuts, only what follows the last cut is its to replace.
	for char in : =; do
		[[ $COMP_WORDBREAKS == *"$char"* && $cur == *"$char"* ]] || continue
		left=${cur%"${cur##*"$char"}"}
		COMPREPLY=("${COMPREPLY[@]#"$left"}")
		cur=${cur#"$left"}
	done
}

complete -F _mlrun mlrun

# mlrun-rsh WORKER; its options are ssh's.
_mlrun_rsh() {
	local mlrun=mlrun store=()

	[ "$COMP_CWORD" != 1 ] || mapfile -t COMPREPLY < <(compgen -W "$(_mlrun_workers)" -- "${COMP_WORDS[1]}")
}

complete -F _mlrun_rsh -o default mlrun-rsh
