# How the tests are built and run: `make check`, or some of them with T=NAME.

unit_tests := $(patsubst %.c,$(O)/%,$(wildcard tests/unit/test_*.c))
unit_support := $(patsubst %.c,$(O)/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c)))
have_cmocka = $(shell $(PKG_CONFIG) --exists cmocka 2>/dev/null && echo yes)

include tests/fixtures/fixtures.mk
include tests/fuzz/fuzz.mk

profile_driver := $(O)/tests/profile/write_profile
stopped_walker := $(O)/tests/profile/walk_stopped

.PHONY: run-tests unit-tests
run-tests: all ocaml fixtures unit-tests $(injector) $(if $(have_fuzzer),$(fuzzers))
	+@$(MAKE) --no-print-directory ASAN=1 O=$(O)/asan unit-tests $(O)/asan/ocaml-probes \
		$(O)/asan/ocaml-probes-link $(O)/asan/ocaml-probes-serve
	@tests/run $(O) $(T)

.PHONY: soak
soak: ## ten minutes of programs that come and go under `serve`; what it held is in build/soak.tsv
	+@SOAK_SECONDS=600 $(MAKE) --no-print-directory check T=soak

unit-tests: $(if $(have_cmocka),$(unit_tests) $(profile_driver)) $(stopped_walker)
	@:

# It gives made-up profiles to the writers of formats.
$(profile_driver): $(O)/tests/profile/write_profile.o $(O)/tests/unit/support.a $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(TOOL_LIBS)

# It walks stacks that tests/e2e/gdb_stacks.sh compares with those of gdb.
$(stopped_walker): $(O)/tests/profile/walk_stopped.o $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# An archive: of it each test takes what it needs.
$(O)/tests/unit/support.a: $(unit_support)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(unit_tests): %: %.o $(O)/tests/unit/support.a $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(TOOL_LIBS) -lm -lcmocka

$(O)/tests/unit/test_top_view: TOOL_LIBS += $$($(PKG_CONFIG) --libs ncursesw)

# It counts what is asked of libdw.
$(O)/tests/unit/test_places: LDFLAGS += $(foreach f,getsrclines getsrc_die addrdie get_units,\
	-Wl,--wrap=dwarf_$(f))

# The post-linker is no part of the library.
$(O)/tests/unit/test_layout: $(O)/src/link/layout.o $(O)/src/link/image.o
$(O)/tests/unit/test_layout: TOOL_LIBS += $(internal_a)

# They act in the middle of what is tested, and let it fail.
wrap = $(foreach f,$(1),-Wl,--wrap=$(f))
$(O)/tests/unit/test_update $(O)/tests/unit/test_update_stores: LDFLAGS += $(call wrap,gigatext_check snapshot_refresh_code \
	snapshot_refresh_semaphores trampolines_read tracee_run_stopped patcher_apply journal_commit journal_progress calloc nanosleep)
$(O)/tests/unit/test_journal_faults: LDFLAGS += $(call wrap,read pwrite64 strdup)
$(O)/tests/unit/test_trampolines: LDFLAGS += $(call wrap,memory_read_in_order)
$(O)/tests/unit/test_remote_refusals: LDFLAGS += $(call wrap,proc_file_read)
$(O)/tests/unit/test_inside: LDFLAGS += $(call wrap,proc_file_read memory_read_in_order remote_syscall)
$(O)/tests/unit/test_patch: LDFLAGS += $(call wrap,pwrite64)
$(O)/tests/unit/test_sample: LDFLAGS += $(call wrap,calloc malloc)
$(O)/tests/unit/test_profile_formats: LDFLAGS += $(call wrap,malloc reallocarray strdup)
$(O)/tests/unit/test_calibrate: LDFLAGS += $(call wrap,nanosleep)
$(O)/tests/unit/test_spawn: LDFLAGS += $(call wrap,execv write)

# What tests/e2e/frametable.sh compares with others.
$(O)/tests/frames_dump: tests/ocaml/frames/dump.c $(internal_a)
	$(say) LINK $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
run-tests: $(O)/tests/frames_dump

# BPF programs that run bpf/args.bpf.h for the unit tests.
$(O)/tests/bpf/%.bpf.o: tests/bpf/%.bpf.c
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -O2 -g -Wall -Wextra -Ivmlinux -Ibpf \
		-MMD -MP -c -o $@ $<

$(O)/tests/bpf/%.skel.h: $(O)/tests/bpf/%.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton -L $< name $*_bpf >$@

$(O)/tests/unit/test_profile_formats.o: | $(O)/pprof/pprof.pb-c.h

$(O)/tests/unit/args_hit.o: CPPFLAGS += -I$(O)/tests/bpf
$(O)/tests/unit/args_hit.o: | $(O)/tests/bpf/args_test.skel.h

-include $(wildcard $(O)/tests/*/*.d)
