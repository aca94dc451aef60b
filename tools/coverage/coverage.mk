# The coverage: a build in its own folder, with the counters of clang, shows which lines of src the tests run.
.PHONY: coverage
coverage: deps ## run the tests once with counters; list the files of which fewer than 80 % of the lines ran
	+@$(MAKE) --no-print-directory $(jobs) COVERAGE=1 O=$(O)/coverage all unit-tests $(O)/coverage/tests/frames_dump
	+@$(MAKE) --no-print-directory $(jobs) O=$(O)/coverage fixtures ocaml ocaml-tests $(O)/coverage/faults/inject
	@tools/coverage/coverage $(O)/coverage
