# Other compilers than the machine's own, and the test programs that they build, in $(O)/compilers.
ocaml_5 := $(shell sed -n 's/^OCAML_5 = "\(.*\)"/\1/p' tests/run)

# What is missing here, tests/run says.
.PHONY: ocaml5 ocaml5-compiler
ocaml5-compiler:
	@[ "$$(id -u)" != 0 ] || tools/matrix/compilers $(ocaml_5) || :
ocaml5: ocaml5-compiler $(linker) $(internal_a) $(O)/ocaml-probes-cc
	+@! [ -e "$$(tools/matrix/compilers --dir)/$(ocaml_5)/recipe" ] || \
		O=$(abspath $(O)) tools/matrix/within $(ocaml_5) $(MAKE) --no-print-directory O=$(O) ocaml ocaml-tests

# The language suite, built and run by several OCaml compilers and in several ways.
.PHONY: check-ocaml-matrix
check-ocaml-matrix: all fixtures ocaml ocaml-tests unit-tests $(O)/tests/frames_dump ## every script on OCaml 4.13 to 5.5 (makes the compilers, outside the tree)
	@tools/matrix/check $(O) $(T)
