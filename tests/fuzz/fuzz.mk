# The fuzzers: clang's libFuzzer over whatever reads what somebody else wrote. Each tests/fuzz/fuzz_X.c is a
# program. They are made of the objects with sanitizers: all rules but `fuzz` are for ASAN=1.
fuzzers := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 600

.PHONY: fuzzers fuzz
fuzzers: $(fuzzers)

$(O)/tests/fuzz/fuzz_link: $(link_part_objs)
$(fuzzers): %: %.o $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(parts_a) $(internal_a) \
		$(LIBS) $(TOOL_LIBS) -lmicrohttpd -lm

fuzz: fixtures ## fuzz every reader for FUZZ_SECONDS=600; finds go to build/tests/fuzz
	+@$(MAKE) --no-print-directory ASAN=1 O=$(O)/asan fuzzers
	@for fuzzer in $(notdir $(fuzzers)); do tests/fuzz/run $(O) $$fuzzer $(FUZZ_SECONDS) || exit; done
