# What zsh offers for a line typed on a terminal: zsh -f complete.zsh FUNCTION_DIR LINE. Prints the
# terminal's lines, without its escape sequences.
emulate zsh
zmodload zsh/zpty || exit 77

read_until() {
	local line all=
	while zpty -r shell line; do
		all+=$line
		[[ $all == *$1* ]] && break
	done
	print -r -- $all
}

# The key's own action says when the listing is on the terminal.
zpty shell "zsh -f -i"
zpty -w shell "PS1= PROMPT_EOL_MARK=; unsetopt zle_bracketed_paste; fpath=(${(q)1} \$fpath)
autoload -Uz compinit; compinit -u -D; LISTMAX=0; stty columns 200
list_and_tell() { zle list-choices; zle -R; print LIS''TED }
zle -N list_and_tell; bindkey '^I' list_and_tell
print REA''DY"
read_until READY >/dev/null
zpty -w -n shell "$2"$'\t'
read_until LISTED | sed -e $'s/\e\\[[0-9;?]*[a-zA-Z]//g' -e $'s/\e[=>]//g' -e 's/\r//g'
zpty -d shell
