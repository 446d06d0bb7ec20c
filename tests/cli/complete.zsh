# What zsh offers for a line typed on a terminal: zsh -f complete.zsh FUNCTION_DIR LINE, where the working
# directory can be written to. Prints the terminal's lines, without its escape sequences.
emulate zsh
zmodload zsh/zpty || exit 77

# The key's own action says when the listing is on the terminal.
export ZDOTDIR=$PWD
cat >.zshrc <<END
PS1= PROMPT_EOL_MARK= LISTMAX=0
fpath=(${(q)1} \$fpath)
autoload -Uz compinit
compinit -u -D
list_and_tell() { zle list-choices; zle -R; print LISTED }
zle -N list_and_tell
bindkey '^I' list_and_tell
stty columns 200
END
zpty -b shell "zsh -d -i"

# Type it again and again, as a terminal loses what is typed before it is listened to.
shown=
while [[ $shown != *LISTED* ]]; do
	zpty -w -n shell $'\C-u'"$2"$'\t'
	for (( i = 0; i < 40; i++ )); do
		while zpty -r -t shell line; do shown+=$line; done
		[[ $shown != *LISTED* ]] || break
		sleep 0.05
	done
done
print -r -- $shown | sed -e $'s/\e\\[[0-9;?]*[a-zA-Z]//g' -e $'s/\e[=>]//g' -e 's/\r//g'
zpty -d shell
