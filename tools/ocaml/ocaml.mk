# What OCaml users need: the ppx, its run-time module, the compiler-driver wrapper.
.PHONY: ocaml
ocaml: ## build the ppx and its run-time library into build/ocaml
