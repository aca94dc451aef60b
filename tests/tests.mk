# How the tests are built and run: `make check`, or some of them with T=NAME.

# One program has all unit tests (tests/unit/unit.h), but for those that have probes themselves, and count them.
unit_tests := $(addprefix $(O)/tests/unit/,unit-tests unit-update unit-trampolines)
unit_update_objs := $(addprefix $(O)/tests/unit/,test_update.o test_update_stores.o updated_process.o)
unit_trampolines_objs := $(O)/tests/unit/test_trampolines.o
unit_objs := $(filter-out $(unit_update_objs) $(unit_trampolines_objs),$(patsubst %.c,$(O)/%.o,$(wildcard tests/unit/*.c)))
have_cmocka = $(shell $(PKG_CONFIG) --exists cmocka 2>/dev/null && echo yes)

include tests/fixtures/fixtures.mk
include tests/fuzz/fuzz.mk

profile_driver := $(O)/tests/profile/write_profile
stopped_walker := $(O)/tests/profile/walk_stopped
trace_driver := $(O)/tests/record/write_trace

# Benchmarks that use functions of src: `make bench` must find them as they are.
bench_internals := $(addprefix $(O)/bench/,gauges inside_times tables)

# Without T=NAME, the unit tests run with sanitizers only.
.PHONY: build-tests run-tests unit-tests test-drivers
build-tests: all ocaml fixtures $(if $(T),,$(bench_internals)) $(if $(T),unit-tests,test-drivers) ocaml5 $(injector)
	+@$(MAKE) --no-print-directory ASAN=1 O=$(O)/asan unit-tests fuzzers $(O)/asan/ocaml-probes \
		$(O)/asan/ocaml-probes-link $(O)/asan/ocaml-probes-serve $(O)/asan/ocaml-probes-top
run-tests: build-tests
	@tests/run $(O) $(T)

.PHONY: check-long
check-long: deps ## the long tests, in parts that a release needs: P=PART runs what is left of one; without P, their table
	+@$(if $(P),$(MAKE) --no-print-directory $(jobs) $(if $(filter mutants,$(P)),,build-tests) &&) tests/long $(O) $(P)

.PHONY: soak
soak: ## ten minutes of programs that come and go under `serve`; what it held is in build/soak.tsv
	+@SOAK_SECONDS=600 $(MAKE) --no-print-directory check T=soak

unit-tests: $(if $(have_cmocka),$(unit_tests)) test-drivers
	@:
test-drivers: $(if $(have_cmocka),$(profile_driver)) $(stopped_walker) $(trace_driver)
	@:

# It gives made-up profiles to the writers of formats.
$(profile_driver): $(O)/tests/profile/write_profile.o $(O)/tests/unit/support.a $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(TOOL_LIBS)

# It gives made-up traces to the writers of formats.
$(trace_driver): $(O)/tests/record/write_trace.o $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(TOOL_LIBS)

# It walks stacks that tests/e2e/gdb_stacks.sh compares with those of gdb.
$(stopped_walker): $(O)/tests/profile/walk_stopped.o $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# An archive: of it each program takes what it needs.
$(O)/tests/unit/support.a: $(filter-out $(O)/tests/unit/test_%,$(unit_objs))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# A function __wrap_NAME (WRAP in tests/unit/unit.h) takes the calls of NAME. The post-linker is no part of the library.
$(O)/tests/unit/unit-tests: $(filter $(O)/tests/unit/test_%,$(unit_objs)) $(link_part_objs)
$(O)/tests/unit/unit-update: $(unit_update_objs)
$(O)/tests/unit/unit-trampolines: $(unit_trampolines_objs)
$(unit_tests): $(O)/tests/unit/support.a $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $$(nm $(filter %.o,$^) | sed -n 's/.* [TW] __wrap_/-Wl,--wrap=/p' | sort -u) \
		-o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS) $(TOOL_LIBS) $$($(PKG_CONFIG) --libs ncursesw) -lm -lcmocka

# What tests/e2e/frametable.sh compares with others.
$(O)/tests/frames_dump: tests/ocaml/frames/dump.c $(internal_a)
	$(say) LINK $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
build-tests: $(O)/tests/frames_dump

# BPF programs that run bpf/args.bpf.h for the unit tests.
$(O)/tests/bpf/%.bpf.o: tests/bpf/%.bpf.c
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -O2 -g -Wall -Wextra $(filter -Werror,$(WARN)) -Ivmlinux -Ibpf \
		-MMD -MP -c -o $@ $<

$(O)/tests/bpf/%.skel.h: $(O)/tests/bpf/%.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton -L $< name $*_bpf >$@

$(O)/tests/unit/test_profile_formats.o: | $(O)/pprof/pprof.pb-c.h

$(O)/tests/unit/args_hit.o: CPPFLAGS += -I$(O)/tests/bpf
$(O)/tests/unit/args_hit.o: | $(O)/tests/bpf/args_test.skel.h

-include $(wildcard $(O)/tests/*/*.d $(O)/tests/*/*/*.d)

# ---- a part of the tests --------------------------------------------------------------------------

# What a script can name in its line `# needs:`. The tool is always built.
.PHONY: $(addprefix need-,tool serve top link fixtures inject unit-tests ocaml ocaml5 asan)
need-tool: $(tool)
need-serve: $(server)
need-top: $(viewer)
need-link: $(linker)
need-fixtures: fixtures
need-inject: $(injector)
need-unit-tests: unit-tests
need-ocaml: ocaml ocaml-tests
need-ocaml5: ocaml5
need-ocaml/%: $(ocaml_out)/%
	@:
need-asan:
	+@$(MAKE) --no-print-directory ASAN=1 O=$(O)/asan $(O)/asan/ocaml-probes $(O)/asan/ocaml-probes-link \
		$(O)/asan/ocaml-probes-serve

# $(call run-some,NAME...): build what these need, and run them.
run-some = needs=$$(tests/run --needs $(1)) || exit; case " $$needs " in \
	*" everything "*) $(MAKE) --no-print-directory $(jobs) run-tests T='$(1)' ;; \
	*) $(MAKE) --no-print-directory $(jobs) need-tool $$(printf 'need-%s ' $$needs) && tests/run $(O) $(1) ;; \
	esac

.PHONY: try quick
try: ## T=NAME...: build what these tests need, and run them: `make try T=count`, `make try T=count/test_totals`
	+@$(call run-some,$(T))
quick: ## the unit tests, and some of the cases of the scripts
	+@$(MAKE) --no-print-directory $(jobs) $(addprefix need-,tool serve link fixtures unit-tests ocaml)
	@tests/run $(O) $$(tests/run --smoke)
