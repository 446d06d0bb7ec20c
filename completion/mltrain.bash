# Completion of mltrain(1) for bash. Commands, options and the networks that come with it are asked of
# mltrain itself, so that they are those of the version installed.
# shellcheck shell=bash

_mltrain_commands() { "$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }

# The options of a command, one a line, with a "=" where a value is wanted.
_mltrain_options() {
	ARGP_HELP_FMT=rmargin=250 "$1" "$2" --help 2>/dev/null | sed -n '
		/^  *-/!d
		s/^  *//
		s/   *.*//
		s/\[=[^ ,]*\]//g
		s/=.*/=/
		s/^\(-[^-]\), \(.*=\)$/\1=, \2/
		s/, */\n/g
		p'
}

# Data sets by the names that --data takes.
_mltrain_sets() {
	local dir set

	for dir in /usr/share/datasets data "${XDG_DATA_HOME:-$HOME/.local/share}/datasets" /usr/local/share/datasets; do
		for set in "$dir"/*/; do
			set=${set%/}
			[ ! -d "$set" ] || echo "${set##*/}"
		done
	done
}

# What a value of an option may be: words on stdout, and a kind of names as the status: 1 files, 2 directories,
# 0 these words alone.
_mltrain_values() {
	case $1 in
	-n | --net)
		"$mltrain" net 2>/dev/null | sed 's/ .*//'
		return 1
		;;
	-d | --data)
		_mltrain_sets
		return 2
		;;
	--backend) echo auto "$("$mltrain" --version 2>/dev/null | sed -n 's/.*backends: \([^)]*\)).*/\1/p' | tr -d ,)" ;;
	--dtype) echo f32 bf16 tf32 ;;
	--normalize) echo fixed dataset ;;
	--lr-scale) echo none linear sqrt ;;
	--schedule) echo constant exponential steps cosine one-cycle ;;
	--augment) echo none shift= flip cutout= ;;
	--on-usr1) echo stop continue ;;
	--log-format) echo text tf json ;;
	--format) echo onnx safetensors ;;
	--only) echo train predict ;;
	--listen | --shared-listen) echo 127.0.0.1:8000 unix: ;;
	--cache) echo memory: redis:// ;;
	--tls-verify) echo true false ;;
	--images)
		_mltrain_sets
		return 2
		;;
	--tensorboard | --to) return 2 ;;
	--checkpoint | --keep-best | --resume | --elastic | --elastic-secret | --map | --log | --cacert | --json | --token-file | -o | --output) return 1 ;;
	esac
}

# Completes $cur, of which $before is what stands before the value: "--net=" or nothing.
_mltrain_complete_value() {
	local words before=$2 value=${cur#"$2"}

	words=$(_mltrain_values "$1")
	case $? in
	1)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$value"; compgen -P "$before" -f -- "$value")
		;;
	2)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$value"; compgen -P "$before" -d -- "$value")
		;;
	*) mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$value") ;;
	esac
	[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
}

# What stands after the options.
_mltrain_complete_argument() {
	case $command in
	net)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(_mltrain_complete_words "$("$mltrain" net 2>/dev/null | sed 's/ .*//')"; compgen -f -- "$cur")
		;;
	fetch) mapfile -t COMPREPLY < <(_mltrain_complete_words "mnist fashion-mnist cifar-10 cifar-100") ;;
	predict | export | import | report)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	esac
}

_mltrain_complete_words() { compgen -W "$1" -- "$cur"; }

_mltrain() {
	local mltrain=$1 cur previous command options line left
	local -a words

	# Words as they were typed: readline would cut them at "=".
	line=${COMP_LINE:0:COMP_POINT}
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=('')
	cur=${words[${#words[@]} - 1]}
	COMPREPLY=()

	if [ ${#words[@]} -le 2 ]; then
		mapfile -t COMPREPLY < <(_mltrain_complete_words "$(_mltrain_commands "$mltrain")")
		return
	fi
	command=${words[1]} previous=${words[${#words[@]} - 2]}
	options=$(_mltrain_options "$mltrain" "$command")
	if [[ $cur == --*=* ]]; then
		_mltrain_complete_value "${cur%%=*}" "${cur%%=*}="
	elif [[ $previous == -* && $'\n'$options$'\n' == *$'\n'"$previous="$'\n'* ]]; then
		_mltrain_complete_value "$previous" ''
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(_mltrain_complete_words "$(sed 's/^\(-[^-]\)=$/\1/; /^-?$/d' <<<"$options")")
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
	else
		_mltrain_complete_argument
	fi

	# Of a word that readline cuts, only what follows the cut is its to replace.
	if [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]]; then
		left=${cur%"${cur##*=}"}
		COMPREPLY=("${COMPREPLY[@]#"$left"}")
	fi
}

complete -F _mltrain mltrain
