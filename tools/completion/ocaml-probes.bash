# SPDX-License-Identifier: MIT
#
# bash: complete the words of ocaml-probes. The tool itself knows what they may be: `ocaml-probes
# complete`, see src/tool/complete.c. Installed as share/bash-completion/completions/ocaml-probes.

_ocaml_probes()
{
	local tool=$1 word line i prefix
	local -a words=() answers
	COMPREPLY=()

	# Readline has split "--count=NAME" at "="; the tool needs the whole word. If the typed word
	# contains "=", readline completes only the part after it.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $i -gt 1 && ($word = '='* || ${COMP_WORDS[i - 1]} = *=) && ${words[-1]} = -* ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
	done
	word=${words[-1]}
	prefix=
	[[ $word != -*=* || $COMP_WORDBREAKS != *=* ]] || prefix=${word%%=*}=

	mapfile -t answers < <("$tool" complete "${words[@]}" 2>/dev/null)
	for line in "${answers[@]}"; do
		if [[ $line = :files ]]; then
			compopt -o filenames
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${word#"$prefix"}")
		else
			line=${line%%$'\t'*}
			COMPREPLY+=("${line#"$prefix"}")
		fi
	done
	# After "--count=" a value follows, and no space.
	[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}

complete -F _ocaml_probes ocaml-probes
