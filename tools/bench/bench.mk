# Performance claims: `make bench`, or one of them with B=NAME. A new benchmark is a new file
# tools/bench/NAME.bench (see lib.sh); what it measures is built here.
bench_programs := $(addprefix $(O)/bench/,target pair small big cost \
	toggle_100 toggle_1k toggle_10k toggle_100k dormant_100k usdt_links \
	loops_none loops_handler loops_flag loops_probe)

.PHONY: bench
bench: all ocaml $(bench_programs) ## measure against the peers; B=NAME runs one benchmark
	@tools/bench/run $(O) $(B)

$(O)/bench/target: tools/bench/target.c tools/bench/probe.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -o $@ $<

$(O)/bench/pair: tools/bench/target.c tools/bench/probe.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -DPAIR -o $@ $<

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

$(O)/bench/toggle_100: SITES := 100
$(O)/bench/toggle_1k: SITES := 1000
$(O)/bench/toggle_10k: SITES := 10000
$(O)/bench/toggle_100k: SITES := 100000
$(O)/bench/toggle_%: tools/bench/sites.S tools/bench/toggle_target.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -pthread -fPIE -pie -fvisibility=hidden \
		-DSITES=$(SITES) -DNAMES='($(SITES) / 10)' -o $@ $^

$(O)/bench/dormant_100k: tools/bench/dormant.S
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -DSITES=100000 -DNAMES=10000 -o $@ $<

# One source, four programs.
$(O)/bench/loops_none: loops_increment := ()
$(O)/bench/loops_none: loops_call := ()
$(O)/bench/loops_handler: loops_increment := incr counter
$(O)/bench/loops_handler: loops_call := tell 1
$(O)/bench/loops_flag: loops_increment := if !flag then incr counter
$(O)/bench/loops_flag: loops_call := if !flag then tell 1
$(O)/bench/loops_probe: loops_increment := [%probe "increment" (incr counter)]
$(O)/bench/loops_probe: loops_call := [%probe "call" (tell 1)]
$(O)/bench/loops_%: tools/bench/ocaml/loops.ml.in tools/bench/ocaml/now.c $(ocaml_stamp) \
		$(O)/ocaml-probes-cc $(linker)
	$(say) OCAML $@
	$(Q)mkdir -p $(abspath $@)_obj
	$(Q)sed -e 's|@INCREMENT@|$(loops_increment)|;s|@CALL@|$(loops_call)|' $< >$@_obj/loops.ml
	$(Q)cp tools/bench/ocaml/now.c $@_obj
	$(Q)cd $@_obj && $(ocaml_env) ocamlfind ocamlopt -package ocaml-probes.ppx -linkpkg \
		$(ocaml_converting) -inline 0 now.c loops.ml -o $(abspath $@)
