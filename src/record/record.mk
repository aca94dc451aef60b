# Traces are written by a library: see src/profile/formats/formats.mk.
record_srcs := $(wildcard src/record/*.c)
record_objs := $(record_srcs:%.c=$(O)/%.o) $(O)/record/perfetto.pb-c.o
c_sources += $(record_srcs)
CPPFLAGS += -I$(O)/record

$(O)/record/%.pb-c.c $(O)/record/%.pb-c.h: src/record/%.proto
	$(say) PROTO $<
	$(Q)mkdir -p $(@D)
	$(Q)protoc-c --proto_path=src/record --c_out=$(@D) $<

$(O)/record/%.o: $(O)/record/%.c
	$(say) CC $<
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

$(O)/src/record/perfetto_writer.o: | $(O)/record/perfetto.pb-c.h

# The page with the timeline, assembled as that of profiles.
record_objs += $(O)/src/record/page.o

$(O)/src/record/page.html: src/record/page/page.html src/profile/formats/page/assemble $(wildcard src/record/page/* src/record/vendor/*/*) \
		$(wildcard src/profile/formats/vendor/d3-selection/*) src/profile/formats/page/page.css src/serve/web/format.js
	$(say) PAGE $@
	$(Q)mkdir -p $(@D)
	$(Q)src/profile/formats/page/assemble $< >$@

$(O)/src/record/page.o: src/record/page.S $(O)/src/record/page.html
	$(say) AS $<
	$(Q)$(CC) -DTIMELINE_PAGE='"$(O)/src/record/page.html"' -c -o $@ $<
