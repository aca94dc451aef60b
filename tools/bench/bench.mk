# Benchmarks: `make bench`, or one of them with B=NAME. A new benchmark is a new file
# tools/bench/NAME.bench (see lib.sh); its programs are built here.
loops_places := 0 1 2 3
bench_programs := $(addprefix $(O)/bench/,target pair pair_args called small big cost \
	toggle_100 toggle_1k toggle_10k toggle_100k toggle_10k_names dormant_100k lines_100k usdt_links calls gauges tables deep inside_times memprof_with memprof_without \
	$(foreach v,none handler flag probe,$(loops_places:%=loops_$(v)_%)) \
	$(foreach v,with without,$(loops_places:%=names_$(v)_%)))

.PHONY: bench bench-programs run-bench
bench: deps ## measure against the peers; B=NAME runs one benchmark
	+@$(MAKE) --no-print-directory $(jobs) run-bench
bench-programs: all ocaml $(bench_programs) $(ocaml_out)/loop $(ocaml_out)/busy $(unit_tests) $(trace_driver)
run-bench: bench-programs
	@tools/bench/run $(O) $(B)

$(O)/bench/target: tools/bench/target.c tools/bench/probe.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -pthread -o $@ $<

# Each function calls mcount, which uftrace replaces.
$(O)/bench/called: tools/bench/called.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -pg -o $@ $<

$(O)/bench/pair: tools/bench/target.c tools/bench/probe.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -pthread -DPAIR -o $@ $<

$(O)/bench/pair_args: tools/bench/target.c tools/bench/probe.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -pthread -DPAIR -DARGS -o $@ $<

$(O)/bench/usdt_links: tools/bench/usdt_links.c tools/bench/usdt_links.bpf.c
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -D__TARGET_ARCH_x86 -I/usr/include/x86_64-linux-gnu -O2 -g -c \
		-o $@.bpf.o tools/bench/usdt_links.bpf.c
	$(Q)$(BPFTOOL) gen skeleton $@.bpf.o name usdt_links_bpf >$@.skel.h
	$(Q)$(CC) -std=gnu11 $(WARN) -I$(@D) -O2 -o $@ $< -lbpf

$(O)/bench/small: FILLER_MB := 3
$(O)/bench/big: FILLER_MB := 300
$(O)/bench/small $(O)/bench/big: tools/bench/big.c tools/bench/probe.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -DFILLER_MB=$(FILLER_MB) -o $@ $<

$(O)/bench/cost: tools/bench/cost.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -o $@ $<

# bpftrace walks frame pointers.
$(O)/bench/deep: tools/bench/deep.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o $@ $<

$(O)/bench/toggle_100: SITES := 100
$(O)/bench/toggle_1k: SITES := 1000
$(O)/bench/toggle_10k: SITES := 10000
$(O)/bench/toggle_100k: SITES := 100000
$(O)/bench/toggle_10k_names: SITES := 10000
$(O)/bench/toggle_10k_names: NAMES := 10000
$(O)/bench/toggle_%: tools/bench/sites.S tools/bench/toggle_target.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -pthread -fPIE -pie -fvisibility=hidden \
		-DSITES=$(SITES) -DNAMES='$(or $(NAMES),($(SITES) / 10))' -o $@ $^

$(O)/bench/dormant_100k: tools/bench/dormant.S
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -DSITES=100000 -DNAMES=10000 -o $@ $<

# A thousand units with line tables, without the index (.debug_aranges), which some compilers do not
# write. A unit has no global symbols, so one unit is linked a thousand times.
lines_units := 1000
$(O)/bench/lines_100k: tools/bench/sites.S tools/bench/lines_target.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -c -DLINES -DSITES=100 -DNAMES=10 -o $@.o $<
	$(Q)objcopy -R .debug_aranges -R .rela.debug_aranges $@.o
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -fPIE -pie -o $@ tools/bench/lines_target.c \
		$(foreach i,$(shell seq $(lines_units)),$@.o)

# Functions without probes, and the collector.
$(O)/bench/calls: tools/bench/ocaml/calls.ml tools/bench/ocaml/now.c
	$(say) OCAML $@
	$(Q)mkdir -p $(abspath $@)_obj
	$(Q)cp $^ $@_obj
	$(Q)cd $@_obj && ocamlfind ocamlopt -g -package unix -linkpkg -inline 0 now.c calls.ml \
		-o $(abspath $@)

# With the library that memprof asks for profiles, and without.
$(O)/bench/memprof_with: memprof_library := ,ocaml-probes.memprof
$(O)/bench/memprof_with $(O)/bench/memprof_without: tools/bench/ocaml/memprof.ml tools/bench/ocaml/now.c $(ocaml_stamp)
	$(say) OCAML $@
	$(Q)mkdir -p $(abspath $@)_obj
	$(Q)cp $^ $@_obj
	$(Q)cd $@_obj && $(ocaml_env) ocamlfind ocamlopt -thread -linkpkg -g \
		-package threads.posix$(memprof_library) now.c memprof.ml -o $(abspath $@)

$(O)/bench/gauges $(O)/bench/inside_times $(O)/bench/tables: $(O)/bench/%: tools/bench/%.c $(O)/internal.a
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# One source, four programs, each with its functions in four places: loops_VARIANT_PLACE.
loops_increment_none := ()
loops_call_none := ()
loops_increment_handler := incr counter
loops_call_handler := tell 1
loops_increment_flag := if !flag then incr counter
loops_call_flag := if !flag then tell 1
loops_increment_probe := [%probe "increment" (incr counter)]
loops_call_probe := [%probe "call" (tell 1)]
loops_pads_1 := let[@inline never] pad_1 x = x
loops_pads_2 := $(loops_pads_1) let[@inline never] pad_2 x = x
loops_pads_3 := $(loops_pads_2) let[@inline never] pad_3 x = x
loops_variant = $(word 2,$(subst _, ,$(@F)))
loops_place = $(word 3,$(subst _, ,$(@F)))
$(O)/bench/loops_%: tools/bench/ocaml/loops.ml.in tools/bench/ocaml/now.c $(ocaml_stamp) \
		$(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(abspath $@)_obj
	$(Q)sed -e 's|@INCREMENT@|$(loops_increment_$(loops_variant))|' \
		-e 's|@CALL@|$(loops_call_$(loops_variant))|' \
		-e 's|@PADS@|$(loops_pads_$(loops_place))|' $< >$@_obj/loops.ml
	$(Q)cp tools/bench/ocaml/now.c $@_obj
	$(Q)cd $@_obj && $(ocaml_env) ocamlfind ocamlopt -package ocaml-probes.ppx -linkpkg \
		$(ocaml_converting) -inline 0 -w -32 now.c loops.ml -o $(abspath $@)

# The same with arguments, whose names and types the ppx puts behind the place of a probe, and without those.
names_edit_with := s/^//
names_edit_without := s/\#1([a-z:,]*)//
$(O)/bench/names_%: tools/bench/ocaml/loops.ml.in tools/bench/ocaml/now.c $(ocaml_stamp) \
		$(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(abspath $@)_obj
	$(Q)sed -e 's|@INCREMENT@|[%probe "increment" ~args:((i : int), counter) (incr counter)]|' \
		-e 's|@CALL@|[%probe "call" ~args:(counter, flag) (tell 1)]|' \
		-e 's|@PADS@|$(loops_pads_$(loops_place))|' $< >$@_obj/source.ml
	$(Q)cp tools/bench/ocaml/now.c $@_obj
	$(Q)$(O)/ocaml/lib/ocaml-probes/ppx/ppx.exe $@_obj/source.ml -o $@_obj/loops.ml
	$(Q)sed -i -e '$(names_edit_$(loops_variant))' $@_obj/loops.ml
	$(Q)cd $@_obj && $(ocaml_env) ocamlfind ocamlopt -package ocaml-probes.ppx -linkpkg \
		$(ocaml_converting) -inline 0 -w -32 now.c loops.ml -o $(abspath $@)
