# The writers of formats that need another library or a page. They are a part of the programs ($(parts_a)), not
# of our library, so that programs of others that link our library need neither.
formats := src/profile/formats
format_srcs := $(wildcard $(formats)/*.c)
format_objs := $(format_srcs:%.c=$(O)/%.o) $(O)/pprof/pprof.pb-c.o $(O)/$(formats)/page.o
c_sources += $(format_srcs)
CPPFLAGS += -I$(O)/pprof

$(O)/pprof/%.pb-c.c $(O)/pprof/%.pb-c.h: $(formats)/%.proto
	$(say) PROTO $<
	$(Q)mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(formats) --c_out=$(@D) $<

$(O)/pprof/%.o: $(O)/pprof/%.c
	$(say) CC $<
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

$(O)/$(formats)/pprof_writer.o: | $(O)/pprof/pprof.pb-c.h

$(O)/$(formats)/%.html: $(formats)/page/%.html $(formats)/page/assemble \
		$(wildcard $(formats)/page/* $(formats)/vendor/*/*) src/serve/web/format.js
	$(say) PAGE $@
	$(Q)mkdir -p $(@D)
	$(Q)$(formats)/page/assemble $< >$@

$(O)/$(formats)/page.o: $(formats)/page.S $(O)/$(formats)/page.html $(O)/$(formats)/report.html
	$(say) AS $<
	$(Q)$(CC) -DFLAME_PAGE='"$(O)/$(formats)/page.html"' -DREPORT_PAGE='"$(O)/$(formats)/report.html"' -c -o $@ $<
