# SPDX-License-Identifier: MIT
#
# bash: complete the words of ocaml-probes. The tool itself knows what they may be: `ocaml-probes
# complete`, see src/tool/complete.c. Installed as share/bash-completion/completions/ocaml-probes.

_ocaml_probes()
{
	local tool=$1 word line i prefix typed=${COMP_WORDS[COMP_CWORD]} quote=
	local -a words=() answers
	COMPREPLY=()

	# The tool needs the words without quotes.
	if [[ $typed = [\'\"]* ]]; then
		quote=${typed:0:1}
		typed=${typed:1}
	else
		typed=${typed//\\/}
	fi
	# Readline has split "--count=fn:NAME" at "=" and ":"; the tool needs the whole word.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		[[ $i -ne $COMP_CWORD ]] || word=$typed
		if [[ $i -gt 1 && ($word = '='* || ${COMP_WORDS[i - 1]} = *=) && ${words[-1]} = -* ]] ||
			[[ $i -gt 1 && ($word = ':'* || ${COMP_WORDS[i - 1]} = *:) ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
	done
	# Readline completes only what follows the last of them.
	word=${words[-1]}
	[[ $typed != [=:] ]] || typed=
	prefix=${word%"$typed"}

	mapfile -t answers < <("$tool" complete "${words[@]}" 2>/dev/null)
	for line in "${answers[@]}"; do
		if [[ $line = :files ]]; then
			compopt -o filenames
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${word#"$prefix"}")
		else
			line=${line%%$'\t'*}
			line=${line#"$prefix"}
			# Names of functions can have parentheses and other characters of the shell.
			[[ -n $quote || $line != *[!A-Za-z0-9_.,:=/+@%-]* ]] || printf -v line %q "$line"
			COMPREPLY+=("$line")
		fi
	done
	# After "--count=" a value follows, and no space.
	[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}

complete -F _ocaml_probes ocaml-probes
