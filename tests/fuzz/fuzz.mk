# The fuzzer: clang's libFuzzer and sanitizers over the ELF reader.
fuzzer := $(O)/tests/fuzz/fuzz_program
fuzz_srcs := tests/fuzz/fuzz_program.c src/base/ctx.c $(wildcard src/elf/*.c)
FUZZ_SECONDS ?= 600
have_fuzzer = $(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	$(CLANG) -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo yes)

$(fuzzer): $(fuzz_srcs) $(wildcard src/base/*.h src/elf/*.h)
	$(say) FUZZ $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) -std=gnu11 $(WARN) -O1 -g -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -o $@ $(fuzz_srcs) -lelf

.PHONY: fuzz
fuzz: $(fuzzer) fixtures ## fuzz the ELF reader for FUZZ_SECONDS=600; finds go to build/tests/fuzz
	@tests/fuzz/run $(O) $(FUZZ_SECONDS)
