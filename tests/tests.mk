# How the tests are built and run.
.PHONY: run-tests
run-tests: all ocaml
	@tests/run $(O)
