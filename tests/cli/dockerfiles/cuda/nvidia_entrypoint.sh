#!/bin/bash
# shellcheck disable=SC1090
# Gather parts in alpha order
shopt -s nullglob extglob
SCRIPT_DIR="$(dirname "$(readlink -f "$0")")"
declare -a PARTS=("${SCRIPT_DIR}/entrypoint.d"/*@(.txt|.sh))
shopt -u nullglob extglob

# Execute the parts
for file in "${PARTS[@]}"; do
	case "$file" in
	*.txt) cat "$file" ;;
	*.sh) source "$file" ;;
	esac
done

exec "$@"
