# shellcheck shell=bash
# What the scripts about the post-linker share: reading and changing the files it made.

LINK=$O/ocaml-probes-link
P=$O/tests/ocaml # the OCaml test programs
export OCAMLPATH=$O/ocaml/lib PATH=$O:$PATH

# The OCaml notes of FILE, a line each: NAME SITE SEMAPHORE BASE.
notes() { # FILE
	readelf -n "$1" 2>/dev/null | awk '
		/Provider:/ { provider = $2 }
		/Name:/ { name = $2 }
		/Location:/ && provider == "ocaml_1" { gsub(",", ""); print name, $2, $6, $4 }'
}

# The file offset of a link-time address.
offset_of() { # FILE VA
	local va=$(($2)) type off vaddr filesz _
	while read -r type off vaddr _ filesz _; do
		if [[ $type = LOAD ]] && ((va >= vaddr && va < vaddr + filesz)); then
			echo $((va - vaddr + off))
			return
		fi
	done < <(readelf -lW "$1")
	fail "$1: no byte at $2"
}

poke() { # FILE OFFSET HEX...
	local file=$1 off=$2
	shift 2
	printf "$(printf '\\x%s' "$@")" | dd of="$file" bs=1 seek="$off" conv=notrunc status=none
}

peek() { # FILE OFFSET COUNT
	od -An -v -tx1 -j"$2" -N"$3" "$1" | tr -d ' \n'
}

# Switch on the sites of NAME, or all, in FILE.
switch_on() { # FILE [NAME]
	local name site semaphore rest off
	while read -r name site semaphore rest; do
		[[ -z ${2:-} || $name = "$2" ]] || continue
		off=$(offset_of "$1" "$site")
		matches "$(peek "$1" "$off" 2)" '^90(3d|e8)$' "site of $name"
		poke "$1" $((off + 1)) e8
		poke "$1" $(($(offset_of "$1" "$semaphore") + 2)) 01 00
	done < <(notes "$1")
}

# Run a command that must fail with STATUS; its output goes to $TMP/stdout and $TMP/stderr.
fails() { # STATUS COMMAND...
	local expected=$1 status=0
	shift
	"$@" >"$TMP/stdout" 2>"$TMP/stderr" || status=$?
	eq "$status" "$expected" "status of $*"
}

compile() { # FILE.ml [FLAG...]
	local source=$1
	shift
	(cd "$(dirname "$source")" && ocamlfind ocamlopt -thread -g \
		-package threads.posix,ocaml-probes.ppx -linkpkg "$@" "$(basename "$source")" \
		-o "${source%.ml}")
}

# What the program prints with all handlers on.
with_handlers() { # PROGRAM [ARG...]
	local program=$1
	shift
	"$O/ocaml-probes" trace -prog "$program" -enable-all --wait -- "$@"
}

args_of() { # FILE
	readelf -n "$1" | sed -n 's/^ *Arguments: //p'
}
