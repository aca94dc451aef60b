# The language suite, built and run by several OCaml compilers and in several ways.
.PHONY: check-ocaml-matrix
check-ocaml-matrix: all ocaml $(ocaml_out)/no_probes_ppx ## the language suite on OCaml 4.13 to 5.3 (builds the compilers, outside the tree)
	@tools/matrix/check $(O) $(T)
