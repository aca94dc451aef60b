# Performance claims: `make bench`, or one of them with B=NAME.
.PHONY: bench
bench: all ocaml ## measure against the peers; B=NAME runs one benchmark
	@tools/bench/run $(O) $(B)
