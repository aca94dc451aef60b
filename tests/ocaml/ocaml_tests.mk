# The OCaml test programs, each built by plain ocamlfind in several ways:
#
#   NAME         position-independent, probes converted	  NAME_nopie   the same, not PIE
#   NAME_plain   not converted: all probes dormant	  NAME_byte    bytecode
#   NAME_bare    compiled without any probe
#   busy, compared, counted_plain_nopie, floats, floats_plain, reborn, reported, steady
#
# and the example service, built by dune.
ocaml_tests := args counted forking loop queries places requests
ocaml_variants := nopie plain byte bare
ocaml_out := $(abspath $(O))/tests/ocaml
ocaml_names := $(foreach t,$(ocaml_tests),$(t) $(ocaml_variants:%=$(t)_%))
ocaml_env = OCAMLPATH=$(ocaml_dir)/lib:$$OCAMLPATH PATH=$(abspath $(O)):$$PATH
ocaml_with_probes := -package threads.posix,ocaml-probes.ppx
ocaml_converting := -cc ocaml-probes-cc

.PHONY: ocaml-tests
ocaml-tests: $(ocaml_names:%=$(ocaml_out)/%) $(ocaml_out)/service $(ocaml_out)/leaking
build-tests: ocaml-tests

.PHONY: demo-service
demo-service: $(ocaml_out)/service $(ocaml_out)/leaking

# ocaml_program NAME, SUFFIX, COMPILER, FLAGS. Every variant has a folder of its own for what the
# compiler leaves beside the source; the source is named relative to it, as messages show it.
define ocaml_program
$(ocaml_out)/$(1)$(2): tests/ocaml/$(1).ml $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker) \
		$(if $(filter _bare,$(2)),$(ocaml_out)/no_probes_ppx)
	$$(say) OCAML $$@
	$$(Q)mkdir -p $(ocaml_out)/obj/$(1)$(2)
	$$(Q)cp $$< $(ocaml_out)/obj/$(1)$(2)/$(1).ml
	$$(Q)cd $(ocaml_out)/obj/$(1)$(2) && $$(ocaml_env) ocamlfind $(3) -thread -linkpkg -g $(4) \
		$(1).ml -o $$@
endef
$(foreach t,$(ocaml_tests),\
	$(eval $(call ocaml_program,$(t),,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))\
	$(eval $(call ocaml_program,$(t),_nopie,ocamlopt,$(ocaml_with_probes) $(ocaml_converting) -ccopt -no-pie))\
	$(eval $(call ocaml_program,$(t),_plain,ocamlopt,$(ocaml_with_probes)))\
	$(eval $(call ocaml_program,$(t),_byte,ocamlc,$(ocaml_with_probes)))\
	$(eval $(call ocaml_program,$(t),_bare,ocamlopt,-package threads.posix -ppx '$(ocaml_out)/no_probes_ppx --as-ppx')))

ocaml-tests: $(ocaml_out)/counted_plain_nopie
$(eval $(call ocaml_program,counted,_plain_nopie,ocamlopt,$(ocaml_with_probes) -ccopt -no-pie))

ocaml-tests: $(ocaml_out)/busy
$(eval $(call ocaml_program,busy,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))

ocaml-tests: $(ocaml_out)/compared
$(eval $(call ocaml_program,compared,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))

ocaml-tests: $(ocaml_out)/floats $(ocaml_out)/floats_plain
$(eval $(call ocaml_program,floats,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))
$(eval $(call ocaml_program,floats,_plain,ocamlopt,$(ocaml_with_probes)))

ocaml-tests: $(ocaml_out)/steady
$(eval $(call ocaml_program,steady,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))

ocaml-tests: $(ocaml_out)/reborn
$(eval $(call ocaml_program,reborn,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))
# They know their page faults.
faults_stubs := $(abspath tests/ocaml/faults_stubs.c)
$(ocaml_out)/reported $(ocaml_out)/profiled: $(faults_stubs)
ocaml-tests: $(ocaml_out)/reported
$(eval $(call ocaml_program,reported,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting) $(faults_stubs)))
ocaml-tests: $(ocaml_out)/hundred
$(eval $(call ocaml_program,hundred,,ocamlopt,$(ocaml_with_probes) $(ocaml_converting)))

# Without probes and without this project, at two sets of addresses.
ocaml-tests: $(ocaml_out)/unprobed $(ocaml_out)/unprobed_nopie
$(eval $(call ocaml_program,unprobed,,ocamlopt,-package threads.posix))
$(eval $(call ocaml_program,unprobed,_nopie,ocamlopt,-package threads.posix -ccopt -no-pie))

$(ocaml_out)/no_probes_ppx: tests/ocaml/no_probes_ppx.ml
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/no_probes_ppx
	$(Q)cp $< $(ocaml_out)/obj/no_probes_ppx
	$(Q)cd $(ocaml_out)/obj/no_probes_ppx && OCAMLFIND_IGNORE_DUPS_IN="$$(ocamlfind ocamlc -where)/compiler-libs" \
		ocamlfind ocamlopt -linkpkg -package ppxlib,ppxlib.metaquot no_probes_ppx.ml -o $@

# With the ppx of probes inside. The syntax trees of ppxlib have changed in 0.36.
recorded_sources := tests/ocaml/recorded/recorded_ppx.ml $(wildcard tests/ocaml/recorded/functions_*.ml)
ocaml-tests: $(ocaml_out)/recorded_ppx
$(ocaml_out)/recorded_ppx: $(recorded_sources) $(ocaml_stamp)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/recorded_ppx
	$(Q)cp $(recorded_sources) $(ocaml_out)/obj/recorded_ppx
	$(Q)cd $(ocaml_out)/obj/recorded_ppx && \
		case $$({ ocamlfind query -format %v ppxlib && echo 0.36; } | sort -V | head -n 1) in \
		0.36) cp functions_0.36.ml functions.ml ;; *) cp functions_0.27.ml functions.ml ;; esac
	$(Q)cd $(ocaml_out)/obj/recorded_ppx && OCAMLFIND_IGNORE_DUPS_IN="$$(ocamlfind ocamlc -where)/compiler-libs" \
		$(ocaml_env) ocamlfind ocamlopt -c -package ppxlib,ppxlib.metaquot functions.ml recorded_ppx.ml
	$(Q)cd $(ocaml_out)/obj/recorded_ppx && OCAMLFIND_IGNORE_DUPS_IN="$$(ocamlfind ocamlc -where)/compiler-libs" \
		$(ocaml_env) ocamlfind ocamlopt -predicates ppx_driver -linkpkg -linkall \
		-package ppxlib,ocaml-probes.ppx functions.cmx recorded_ppx.cmx -o $@

# dune does not know that the post-linker is an input of the link: start over, without its cache.
$(ocaml_out)/service: $(wildcard tests/ocaml/service/*) $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker)
	$(say) DUNE $@
	$(Q)rm -rf $(ocaml_out)/service_build
	$(Q)mkdir -p $(ocaml_out)
	$(Q)$(ocaml_env) DUNE_CACHE=disabled dune build --root tests/ocaml/service --no-print-directory \
		--build-dir $(ocaml_out)/service_build $(dune_quiet) ./service.exe
	$(Q)install -m755 $(ocaml_out)/service_build/default/service.exe $@

# The same service, with the library that memprof asks for profiles.
$(ocaml_out)/leaking: tests/ocaml/service/service.ml $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/leaking
	$(Q)cp $< $(ocaml_out)/obj/leaking
	$(Q)cd $(ocaml_out)/obj/leaking && $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g \
		$(ocaml_with_probes),ocaml-probes.memprof $(ocaml_converting) service.ml -o $@

# The programs that measure themselves have C beside their OCaml: pairs, pairs_nopie, pairs_bare, skipping, slow,
# story, moved and unended.
pairs_programs := $(addprefix $(ocaml_out)/,pairs pairs_nopie pairs_bare skipping slow story moved unended)
ocaml-tests: $(pairs_programs)
$(ocaml_out)/pairs $(ocaml_out)/skipping $(ocaml_out)/slow $(ocaml_out)/story $(ocaml_out)/moved $(ocaml_out)/unended: pairs_flags := $(ocaml_with_probes) $(ocaml_converting)
$(pairs_programs): pairs_modules := pairs.ml
$(ocaml_out)/skipping: pairs_modules := fibres.ml skipping.ml
$(ocaml_out)/moved: pairs_modules := fibres.ml moved.ml
$(ocaml_out)/slow: pairs_modules := slow.ml
$(ocaml_out)/story: pairs_modules := story.ml
$(ocaml_out)/unended: pairs_modules := fibres.ml unended.ml
$(ocaml_out)/pairs_nopie: pairs_flags := $(ocaml_with_probes) $(ocaml_converting) -ccopt -no-pie
$(ocaml_out)/pairs_bare: pairs_flags = -package threads.posix -ppx '$(ocaml_out)/no_probes_ppx --as-ppx'
$(ocaml_out)/pairs_bare: $(ocaml_out)/no_probes_ppx
$(pairs_programs): $(wildcard tests/ocaml/pairs/*) $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/$(@F)
	$(Q)cp tests/ocaml/pairs/* $(ocaml_out)/obj/$(@F)
	$(Q)cd $(ocaml_out)/obj/$(@F) && cp fibres_$$(ocamlfind ocamlopt -version | cut -d. -f1).ml fibres.ml
	$(Q)cd $(ocaml_out)/obj/$(@F) && $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g \
		-ccopt -D_GNU_SOURCE $(pairs_flags) pairs_stubs.c $(pairs_modules) -o $@

# Threads with names, which OCaml 5.4 and later can give itself.
ocaml-tests: $(ocaml_out)/crew
$(ocaml_out)/crew: $(wildcard tests/ocaml/crew/*) $(faults_stubs) $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/crew
	$(Q)cp tests/ocaml/crew/* $(ocaml_out)/obj/crew
	$(Q)cd $(ocaml_out)/obj/crew && case $$(ocamlfind ocamlopt -version) in \
		4.*|5.[0-3].*) cp naming_c.ml naming.ml;; *) cp naming_ocaml.ml naming.ml;; esac
	$(Q)cd $(ocaml_out)/obj/crew && $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g -ccopt -D_GNU_SOURCE \
		$(ocaml_with_probes) $(ocaml_converting) crew_stubs.c $(faults_stubs) naming.ml crew.ml -o $@

# Programs that load a plugin, one of them without probes; the wrapper links and converts them and the
# plugin, and a set that it does not.
define ocaml_plugin
ocaml-tests: $(ocaml_out)/plugin_host$(1) $(ocaml_out)/bare_host$(1) $(ocaml_out)/plugin$(1).cmxs

$(ocaml_out)/plugin_host$(1) $(ocaml_out)/bare_host$(1) $(ocaml_out)/plugin$(1).cmxs &: $$(wildcard tests/ocaml/plugin/*) \
		$$(ocaml_stamp) $$(O)/ocaml-probes-cc $$(linker)
	$$(say) OCAML $(ocaml_out)/plugin_host$(1)
	$$(Q)rm -rf $(ocaml_out)/obj/plugin$(1) && mkdir -p $(ocaml_out)/obj/plugin$(1)
	$$(Q)cp tests/ocaml/plugin/* $(ocaml_out)/obj/plugin$(1)
	$$(Q)cd $(ocaml_out)/obj/plugin$(1) && $$(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g \
		-package dynlink,ocaml-probes.ppx $(2) plugin_api.ml plugin_host.ml \
		-o $(ocaml_out)/plugin_host$(1)
	$$(Q)cd $(ocaml_out)/obj/plugin$(1) && $$(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g \
		-package dynlink $(2) plugin_api.cmx bare_host.ml -o $(ocaml_out)/bare_host$(1)
	$$(Q)cd $(ocaml_out)/obj/plugin$(1) && $$(ocaml_env) ocamlfind ocamlopt -shared -g \
		-package ocaml-probes.ppx $(2) plugin.ml -o $(ocaml_out)/plugin$(1).cmxs
endef
$(eval $(call ocaml_plugin,,$(ocaml_converting)))
$(eval $(call ocaml_plugin,_plain,))

include tests/ocaml/probes_lib/probes_lib.mk

# For the tests of stacks: without this project. One has no shared libraries, so that fewer steps lead to it.
ocaml-tests: $(ocaml_out)/profiled $(ocaml_out)/stepped $(ocaml_out)/deep $(ocaml_out)/waits_for
$(eval $(call ocaml_program,profiled,,ocamlopt,-package unix $(faults_stubs)))
$(eval $(call ocaml_program,waits_for,,ocamlopt,-package threads.posix))
$(eval $(call ocaml_program,deep,,ocamlopt,))

$(ocaml_out)/stepped: $(wildcard tests/ocaml/stepped/*) $(ocaml_stamp)
	$(say) OCAML $@
	$(Q)rm -rf $(ocaml_out)/obj/stepped && mkdir -p $(ocaml_out)/obj/stepped
	$(Q)cp tests/ocaml/stepped/* $(ocaml_out)/obj/stepped
	$(Q)cd $(ocaml_out)/obj/stepped && cp fibres_$$(ocamlfind ocamlopt -version | cut -d. -f1).ml fibres.ml
	$(Q)cd $(ocaml_out)/obj/stepped && ocamlfind ocamlopt -g -ccopt -static stepped_stubs.c tools.ml \
		fibres.ml stepped.ml -o $@ 2>/dev/null

# Threads that hold locks for known times.
ocaml-tests: $(ocaml_out)/locks
$(ocaml_out)/locks: $(wildcard tests/ocaml/locks/*) $(ocaml_stamp)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/locks
	$(Q)cp tests/ocaml/locks/* $(ocaml_out)/obj/locks
	$(Q)cd $(ocaml_out)/obj/locks && ocamlfind ocamlopt -thread -linkpkg -g -package threads.posix \
		locks_stubs.c locks.ml -o $@

# The test of stacks of hits: stacked, and stacked_plain, whose probes are dormant.
stacked_programs := $(ocaml_out)/stacked $(ocaml_out)/stacked_plain
ocaml-tests: $(stacked_programs)
$(ocaml_out)/stacked: stacked_flags := $(ocaml_converting)
$(stacked_programs): $(wildcard tests/ocaml/stacked/*) $(ocaml_stamp) $(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/$(@F)
	$(Q)cp tests/ocaml/stacked/* $(ocaml_out)/obj/$(@F)
	$(Q)cd $(ocaml_out)/obj/$(@F) && $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g -package unix \
		$(ocaml_with_probes) $(stacked_flags) stacked_stubs.c stacked.ml -o $@

# It is linked with ocaml-probes.memprof, and has no probes but those of the library.
ocaml-tests: $(ocaml_out)/memprof_subject
$(ocaml_out)/memprof_subject: tests/ocaml/memprof/subject.ml $(ocaml_stamp)
	$(say) OCAML $@
	$(Q)mkdir -p $(ocaml_out)/obj/$(@F)
	$(Q)cp $< $(ocaml_out)/obj/$(@F)
	$(Q)cd $(ocaml_out)/obj/$(@F) && $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g \
		-package threads.posix,ocaml-probes.memprof subject.ml -o $@
