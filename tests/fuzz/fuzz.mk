# The fuzzers: clang's libFuzzer and sanitizers over whatever reads what somebody else wrote. Each
# tests/fuzz/fuzz_X.c is a program; fuzz_X_srcs is what it is about.
fuzzers := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_program_srcs := $(filter-out src/base/%,$(program_srcs)) src/base/ctx.c src/base/sanitize.c src/base/str_regexp.c src/base/suggest.c \
	src/unwind/unwind_table.c src/unwind/runtime_code.c
fuzz_proc_srcs := $(program_srcs) $(wildcard src/tracee/*.c src/inside/*.c src/process/*.c)
$(addprefix $(O)/tests/fuzz/fuzz_,program proc link): fuzz_libs = -ldw -lelf -lZydis
fuzz_link_srcs := $(filter-out src/link/main.c,$(wildcard src/link/*.c)) $(filter-out src/unwind/%,$(fuzz_program_srcs))
fuzz_args_srcs := $(addprefix src/measure/args/,operand.c filter.c value.c) src/program/arg_names.c src/base/ctx.c src/base/sanitize.c
fuzz_code_srcs := $(addprefix src/code/,x86_function.c code_depth.c code_file.c code_flow.c code_insn.c code_jumps.c) \
	src/elf/elf_file.c src/base/ctx.c src/base/sanitize.c
$(O)/tests/fuzz/fuzz_code: fuzz_libs := -lZydis
fuzz_regexp_srcs := src/base/str_regexp.c src/base/ctx.c src/base/sanitize.c
fuzz_pin_meta_srcs := $(lib_srcs)
fuzz_inside_meta_srcs := $(lib_srcs)
$(addprefix $(O)/tests/fuzz/fuzz_,pin_meta inside_meta): fuzz_libs = $(LIBS)
fuzz_serve_srcs := $(addprefix src/serve/,address.c auth.c buckets.c config.c config_file.c \
	config_keys.c control.c control_http.c control_message.c hosts.c http.c http_headers.c http_quota.c negotiate.c switch_request.c \
	reply.c uri.c) \
	$(addprefix src/base/,ctx.c sanitize.c strbuf.c suggest.c) $(addprefix src/measure/,histogram.c request.c) \
	src/program/item.c
$(O)/tests/fuzz/fuzz_serve: fuzz_libs := -ljson-c -lmicrohttpd -lm
FUZZ_SECONDS ?= 600
have_fuzzer = $(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	$(CLANG) -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo yes)

fuzz_sanitize := -fsanitize=address,undefined -fno-sanitize-recover=undefined

# Several fuzzers share most of their objects.
$(O)/fuzz/%.o: %.c | $(bpf_skels)
	$(say) FUZZ-CC $<
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) -std=gnu11 $(WARN) -O1 -g -fsanitize=fuzzer-no-link $(fuzz_sanitize) \
		-MMD -MP -c -o $@ $<

.SECONDEXPANSION:
$(fuzzers): $(O)/tests/fuzz/%: $(O)/fuzz/tests/fuzz/%.o $$(addprefix $(O)/fuzz/,$$($$*_srcs:.c=.o))
	$(say) FUZZ $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -fsanitize=fuzzer $(fuzz_sanitize) -o $@ $^ $(or $(fuzz_libs),-ldw -lelf)

-include $(wildcard $(O)/fuzz/*/*/*.d $(O)/fuzz/*/*/*/*.d)

.PHONY: fuzz
fuzz: $(fuzzers) fixtures ## fuzz every reader for FUZZ_SECONDS=600; finds go to build/tests/fuzz
	@for fuzzer in $(notdir $(fuzzers)); do tests/fuzz/run $(O) $$fuzzer $(FUZZ_SECONDS) || exit; done
