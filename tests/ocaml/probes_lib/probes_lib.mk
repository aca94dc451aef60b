# Programs that use Probes_lib: one built by dune, as its users' are, the others by ocamlfind.
probes_lib_out := $(ocaml_out)/probes_lib
probes_lib_programs := tracer self self_nopie dynlink_host
probes_lib_needs := $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker)
probes_lib_opt = $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g -w +a-4-9-40-41-42-44-45-70 \
	-package threads.posix,dynlink,ocaml-probes.ppx,ocaml-probes.probes_lib $(ocaml_converting)

ocaml-tests: $(probes_lib_programs:%=$(probes_lib_out)/%) $(probes_lib_out)/control \
	$(probes_lib_out)/tracer_byte

$(probes_lib_out)/%_nopie: FLAGS := -ccopt -no-pie

$(probes_lib_out)/tracer $(probes_lib_out)/self $(probes_lib_out)/self_nopie: $(probes_lib_out)/%: \
		tests/ocaml/probes_lib/*.ml $(probes_lib_needs)
	$(say) OCAML $@
	$(Q)rm -rf $@.obj && mkdir -p $@.obj
	$(Q)cp tests/ocaml/probes_lib/$(*:_nopie=).ml $@.obj
	$(Q)cd $@.obj && $(probes_lib_opt) $(FLAGS) $(*:_nopie=).ml -o $@

# -custom: the C parts are in the program, and need not be found when it starts.
$(probes_lib_out)/tracer_byte: tests/ocaml/probes_lib/tracer.ml $(probes_lib_needs)
	$(say) OCAML $@
	$(Q)rm -rf $@.obj && mkdir -p $@.obj
	$(Q)cp $< $@.obj
	$(Q)cd $@.obj && $(ocaml_env) ocamlfind ocamlc -custom -thread -linkpkg -g \
		-package threads.posix,ocaml-probes.probes_lib tracer.ml -o $@

$(probes_lib_out)/dynlink_host: tests/ocaml/probes_lib/*.ml $(probes_lib_needs)
	$(say) OCAML $@
	$(Q)rm -rf $@.obj && mkdir -p $@.obj
	$(Q)cp tests/ocaml/probes_lib/dynlink_*.ml $@.obj
	$(Q)cd $@.obj && $(probes_lib_opt) dynlink_api.ml dynlink_host.ml -o $@
	$(Q)cd $@.obj && $(ocaml_env) ocamlfind ocamlopt -shared -g -package ocaml-probes.ppx \
		$(ocaml_converting) dynlink_plugin.ml -o $(probes_lib_out)/plugin.cmxs

$(probes_lib_out)/control: $(wildcard tests/ocaml/probes_lib/control/*) $(probes_lib_needs)
	$(say) DUNE $@
	$(Q)rm -rf $@.obj
	$(Q)mkdir -p $(@D)
	$(Q)$(ocaml_env) DUNE_CACHE=disabled dune build --root tests/ocaml/probes_lib/control \
		--no-print-directory --build-dir $@.obj $(dune_quiet) ./control.exe
	$(Q)install -m755 $@.obj/default/control.exe $@
