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
	asserted
	notes "$1" >"$TMP/notes"
	python3 - "$TMP/notes" "$@" <<-'END' || fail "not switched on: $*"
		import struct, sys
		notes, path, *names = sys.argv[1:]
		elf = bytearray(open(path, "rb").read())
		table, n = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<H", elf, 56)[0]
		segments = [struct.unpack_from("<IIQQQQ", elf, at) for at in range(table, table + 56 * n, 56)]
		def offset_of(address):
		    for kind, _, offset, start, _, size in segments:
		        if kind == 1 and start <= address < start + size:
		            return address - start + offset
		    sys.exit(f"{path}: no byte at {address:#x}")
		for line in open(notes):
		    name, site, semaphore, _ = line.split()
		    if names and name not in names:
		        continue
		    at = offset_of(int(site, 16))
		    if elf[at:at + 2] not in (b"\x90\x3d", b"\x90\xe8"):
		        sys.exit(f"site of {name}: {elf[at:at + 2].hex()}")
		    elf[at + 1] = 0xe8
		    at = offset_of(int(semaphore, 16)) + 2
		    elf[at:at + 2] = b"\1\0"
		open(path, "r+b").write(elf)
	END
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
