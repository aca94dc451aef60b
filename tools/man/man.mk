# The manual pages, and what the programs take from them: --help and the options of each command. The
# pages are the only source of both: see page.awk, help.awk, functions.awk.
man := tools/man
man_srcs := $(wildcard $(man)/*.[1-9])
man_pages := $(man_srcs:$(man)/%=$(O)/man/%)
# Programs that --help is made for, and those of them that are commands of the tool.
help_srcs := $(filter-out $(man)/ocaml-probes-cc.1,$(wildcard $(man)/*.1))
command_srcs := $(filter-out %-link.1,$(filter $(man)/ocaml-probes-%,$(help_srcs)))
help_objs := $(help_srcs:$(man)/%.1=$(O)/man/%.help.o)
man_headers := include/ocaml_probes.h include/ocaml_probes_measure.h

$(O)/man/%: $(man)/% $(wildcard $(man)/shared/*) $(man)/page.awk $(man)/functions.awk $(man_headers)
	$(say) MAN $@
	$(Q)mkdir -p $(@D)
	$(Q)awk -v version=$(VERSION) -v commands="$(command_srcs)" -v headers="$(man_headers)" \
		-f $(man)/page.awk $< >$@
# It lists the others.
$(O)/man/ocaml-probes.1: $(command_srcs)

$(O)/man/%.help.c: $(O)/man/%.1 $(man)/help.awk
	$(say) HELP $@
	$(Q)awk -f $(man)/help.awk $< >$@

$(O)/man/%.help.o: $(O)/man/%.help.c src/base/help.h
	$(say) CC $<
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
