# ocaml-probes. `make help` lists the targets.
#
#   O=DIR     build there instead of build/       V=1      show the commands
#   DEBUG=1   -O0, no NDEBUG                      ASAN=1   clang with its sanitizers, and what fuzzers need
#   CC=clang  another compiler                    DESTDIR= PREFIX=/usr/local   for `make install`
#   WERROR=1  warnings are errors             COVERAGE=1   clang counts what runs (`make coverage`)

O ?= build
PREFIX ?= /usr/local
VERSION := $(shell sed -n 's/^.define OCP_VERSION "\(.*\)"/\1/p' include/ocaml_probes.h)
# The number of the library's interface. It rises by one in each release that a program linked with the
# release before cannot run with: a function or a member is gone, or means something else. It has
# nothing to do with VERSION. tools/debian/libocaml-probesN.symbols lists what N exports.
SOVERSION := 1
SONAME := libocaml_probes.so.$(SOVERSION)
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all
, := ,

ifeq ($(origin CC),default)
CC := gcc
endif
OBJCOPY ?= objcopy
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config

ifeq ($(V),1)
Q :=
say := @:
else
Q := @
say = @printf '  %-7s %s\n'
endif

WARN := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes $(if $(filter 1,$(WERROR)),-Werror)
CPPFLAGS += -Iinclude -Isrc -Ibpf -I$(O)/bpf -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64
# The tool runs with privileges and reads hostile files.
HARDENING := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
CFLAGS ?= $(if $(filter 1,$(ASAN)),-O1 -gline-tables-only,-O2 -g $(HARDENING))
LDFLAGS ?= -Wl,-z$(,)relro$(,)-z$(,)now
ifeq ($(DEBUG),1)
CFLAGS := -O0 -g3
endif
# gcc defines __SANITIZE_ADDRESS__, clang does not.
ifeq ($(ASAN),1)
override CC := $(CLANG)
SANITIZE := -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
	-D__SANITIZE_ADDRESS__
endif
# Counters are mapped from files: what a process did before SIGKILL is there, and what its children do counts too.
ifeq ($(COVERAGE),1)
override CC := $(CLANG)
CFLAGS := -O1 -g
SANITIZE := -fprofile-instr-generate=$(abspath $(O))/profiles/stray/%c%m.profraw -fcoverage-mapping -mllvm -runtime-counter-relocation
endif
ALL_CFLAGS = -std=gnu11 $(WARN) -fPIC -fvisibility=hidden $(CFLAGS) $(SANITIZE)

# libbpf is linked into the tool where its archive is installed: it then runs on machines whose own
# libbpf is too old. The archive is not position-independent: the shared library takes the shared
# one. Everything is looked up when it is used, after install-deps has run.
LIBBPF_A = $(firstword $(wildcard $(shell $(PKG_CONFIG) --variable=libdir libbpf 2>/dev/null)/libbpf.a))
LIBBPF = $(if $(LIBBPF_A),$(LIBBPF_A) -lz,-lbpf)
LIBS = $(LIBBPF) -ldw -lelf -lZydis
TOOL_LIBS = -ljson-c -lprotobuf-c -lz

# The directories in their order: a file includes no file of a later directory (tests/folders checks this).
program_srcs := $(wildcard src/base/*.c src/elf/*.c src/code/*.c src/program/dormant/*.c src/program/*.c)
lib_srcs := $(program_srcs) $(wildcard src/kernel/*.c src/look/*.c src/change/*/*.c src/process/*.c src/unwind/*.c src/measure/*/*.c src/measure/*.c src/profile/*.c src/memprof/*.c src/bpftrace/*.c)
cli_srcs := $(wildcard src/cli/*.c)
watch_srcs := $(wildcard src/watch/*.c)
serve_srcs := $(wildcard src/serve/*.c)
top_srcs := $(wildcard src/top/*.c)
tool_srcs := $(wildcard src/tool/*.c)
link_srcs := $(wildcard src/link/*.c)
c_sources := $(lib_srcs) $(cli_srcs) $(watch_srcs) $(serve_srcs) $(top_srcs) $(tool_srcs) $(link_srcs)

include src/profile/formats/formats.mk
include src/record/record.mk
include src/serve/web/web.mk
include tools/man/man.mk

lib_objs := $(lib_srcs:%.c=$(O)/%.o)
# What the programs are made of, but for their main functions: each takes what it needs.
parts_a := $(O)/parts.a
parts_objs := $(patsubst %.c,$(O)/%.o,$(filter-out %/main.c,$(cli_srcs) $(watch_srcs) $(serve_srcs) $(top_srcs)))
tool_objs := $(tool_srcs:%.c=$(O)/%.o)
link_objs := $(link_srcs:%.c=$(O)/%.o)
link_part_objs := $(filter-out %/main.o,$(link_objs))
# What is made of bpf/measure.bpf.c: see there.
bpf_objects := measure_multi measure_full measure_slower measure_stacks measure_by measure_perf profile memprof mapped
bpf_skels := $(bpf_objects:%=$(O)/bpf/%.skel.h) $(O)/bpf/waiting.skel.h

tool := $(O)/ocaml-probes
server := $(O)/ocaml-probes-serve
viewer := $(O)/ocaml-probes-top
linker := $(O)/ocaml-probes-link
lib_a := $(O)/libocaml_probes.a
internal_a := $(O)/internal.a
lib_so := $(O)/$(SONAME).$(VERSION)

.PHONY: all
all: $(man_pages) $(tool) $(if $(wildcard src/serve/main.c),$(server)) $(if $(wildcard src/top/main.c),$(viewer)) $(linker) $(lib_a) $(lib_so) ## build the tool, the post-linker and the library
	@:

# ---- C --------------------------------------------------------------------------------------

$(O)/%.o: %.c | $(bpf_skels)
	$(say) CC $<
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Their assembly outside of functions defines symbols, which the link-time optimizer of gcc does not see.
$(O)/src/change/inside/templates_code.o $(O)/src/measure/calibrate.o: override CFLAGS += -fno-lto

# The library for our own programs and unit tests: each takes the objects that it needs.
$(internal_a): $(lib_objs)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# The static library is one object, in which all names but the public ones are local.
$(lib_a): $(lib_objs)
	$(say) AR $@
	$(Q)$(LD) -r -o $(O)/ocaml_probes.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(O)/ocaml_probes.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(O)/ocaml_probes.o

$(lib_so): $(lib_objs)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) \
		$(if $(SANITIZE),,-Wl,-z$(,)defs) -o $@ $^ -lbpf -ldw -lelf -lZydis
	$(Q)ln -sf $(@F) $(O)/$(SONAME)
	$(Q)ln -sf $(SONAME) $(O)/libocaml_probes.so

$(parts_a): $(parts_objs) $(format_objs) $(record_objs) $(web_objs) $(help_objs)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(tool): $(tool_objs) $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(TOOL_LIBS)

$(server): $(O)/src/serve/main.o $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(TOOL_LIBS) -lmicrohttpd -lm

$(viewer): $(O)/src/top/main.o $(parts_a) $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $$($(PKG_CONFIG) --libs ncursesw) -lm

$(linker): $(link_objs) $(O)/man/ocaml-probes-link.help.o $(internal_a)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^

# ---- BPF ------------------------------------------------------------------------------------

$(O)/bpf/measure_multi.bpf.o: bpf_flags :=
$(O)/bpf/measure_full.bpf.o: bpf_flags := -DMEASURE_FULL
$(O)/bpf/measure_slower.bpf.o: bpf_flags := -DMEASURE_FULL -DMEASURE_SLOWER
$(O)/bpf/measure_stacks.bpf.o: bpf_flags := -DMEASURE_FULL -DMEASURE_STACKS
$(O)/bpf/measure_by.bpf.o: bpf_flags := -DMEASURE_FULL -DMEASURE_BY
$(O)/bpf/measure_perf.bpf.o: bpf_flags := -DMEASURE_PERF

# -mcpu=v3: compare-and-swap (Linux 5.12).
compile_bpf = $(CLANG) -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -O2 -g -Wall -Wextra $(filter -Werror,$(WARN)) $(bpf_flags) \
	-Ivmlinux -Ibpf -MMD -MP -c -o $@ $<

$(O)/bpf/measure_%.bpf.o: bpf/measure.bpf.c
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(compile_bpf)

$(O)/bpf/profile.bpf.o $(O)/bpf/memprof.bpf.o $(O)/bpf/mapped.bpf.o $(O)/bpf/waiting.bpf.o: $(O)/bpf/%.bpf.o: bpf/%.bpf.c
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(compile_bpf)

# Its maps are those of profile.bpf.c: the loader of the other skeletons cannot be given maps.
$(O)/bpf/waiting.skel.h: $(O)/bpf/waiting.bpf.o
	$(say) SKEL $@
	$(Q){ echo '/* NOLINTBEGIN: bpftool writes this file */'; \
		$(BPFTOOL) gen skeleton $< name waiting_bpf && echo '/* NOLINTEND */'; } >$@

$(O)/bpf/%.skel.h: $(O)/bpf/%.bpf.o
	$(say) SKEL $@
	$(Q)n=$$(readelf -sW $< | grep -c ' FUNC '); [ "$$n" -le 32 ] || \
		{ echo "$<: $$n functions; a light skeleton loads 32" >&2; exit 1; }
	$(Q)$(BPFTOOL) gen skeleton -L $< name $*_bpf >$@

.PHONY: vmlinux-dump
vmlinux-dump: ## write this machine's full vmlinux.h to build/ (vmlinux/ holds the small one that is used)
	$(Q)mkdir -p $(O)
	$(Q)$(BPFTOOL) btf dump file /sys/kernel/btf/vmlinux format c >$(O)/vmlinux.h
	@wc -l $(O)/vmlinux.h

# ---- everything else ------------------------------------------------------------------------

include tools/ocaml/ocaml.mk
include tools/faults/faults.mk
include tests/tests.mk
include tools/bench/bench.mk
include tools/matrix/matrix.mk
include tools/coverage/coverage.mk
include tools/mutants/mutants.mk
include tools/install/install.mk
include tools/debian/debian.mk

.PHONY: deps
deps: ## install what building and testing need (Debian's packages)
	@tools/install-deps

# These do their own set-up, as `bench` does. What deps installs is looked up by a make that starts afterwards, one
# job a processor unless somebody said how many.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$$(nproc))
.PHONY: demo check
demo: deps ## the main job end to end: build, start an OCaml service, report on it, toggle and count its probes
	+@$(MAKE) --no-print-directory $(jobs) all ocaml demo-service
	@tools/demo $(O)
check: deps ## build everything and run all tests
	+@$(MAKE) --no-print-directory $(jobs) WERROR=1 run-tests

.PHONY: format lint clean help
format: ## reformat all C
	clang-format -i $$(git ls-files '*.c' '*.h')

# The analyzer of clang-tidy takes ten minutes of processor time for all files. `make check` lets it
# look less deep: make lint TIDY=shallow.
lint: $(bpf_skels) $(O)/pprof/pprof.pb-c.h $(man_pages) ## clang-format, clang-tidy, cppcheck, shellcheck and mandoc, no complaint allowed
	@mandoc -Tlint -W warning $(man_pages)
	@TIDY=$(TIDY) tools/lint $(abspath $(O)) $(c_sources) $(ocaml_stubs) -- $(CPPFLAGS)

clean: ## remove the build directory
	rm -rf $(O)

help: ## this list
	@sed -n '/^#   /s/^#//p' Makefile
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s'|'

-include $(wildcard $(O)/src/*/*.d $(O)/src/*/*/*.d $(O)/bpf/*.d)
