# Completion of mlrun(1), and by its other name of mltrain(1), for fish: what bash's offers, whose file lies beside it in
# the source tree, or where both are installed.
set -g __mlrun_here (path resolve (status dirname))

# Print what bash's completion of PROGRAM offers for the line up to the cursor; files where it leaves that to the shell.
function __mlrun_offers -a program
    set -l files
    for file in $__mlrun_here/../../bash-completion/completions/$program.bash $__mlrun_here/$program.bash
        test -e $file; and set -a files $file
    end
    set -q files[1]; or return
    set -l line (commandline --cut-at-cursor --current-process | string trim --left)
    set -l offers (bash -c '
        . "$1"
        compopt() { [[ $* != *default* ]] || files=yes; }
        COMP_LINE=$3 COMP_POINT=${#3} COMP_WORDBREAKS= files=no
        read -ra COMP_WORDS <<<"$3"
        "_$2" "$2"
        echo "$files"
        [ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' bash $files[1] $program "$line" 2>/dev/null)
    printf '%s\n' $offers[2..]
    if test "$offers[1]" = yes; and test (count $offers) -eq 1
        __fish_complete_path (commandline --current-token)
    end
end

set -l program (path change-extension '' (path basename (status filename)))
complete -c $program -f -a "(__mlrun_offers $program)"
