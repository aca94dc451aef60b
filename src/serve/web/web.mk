# The files of the web page become a part of what links $(web_objs). PATH=FILE: FILE is served as /PATH.
web := src/serve/web
web_modules := charts collector format model page pairs probes programs rows switcher
web_assets := =$(web)/page.html page.css=$(web)/page.css $(foreach m,$(web_modules),$(m).js=$(web)/$(m).js) \
	uplot.js=$(web)/vendor/uplot/uPlot.iife.min.js uplot.css=$(web)/vendor/uplot/uPlot.min.css \
	uplot-license.txt=$(web)/vendor/uplot/LICENSE
web_files := $(foreach a,$(web_assets),$(lastword $(subst =, ,$(a))))
web_objs := $(O)/$(web)/assets.o $(O)/$(web)/assets_table.o
c_sources += $(web)/assets.c

$(O)/$(web)/assets_table.c: $(web)/embed $(web)/web.mk $(web_files)
	$(say) EMBED $@
	$(Q)mkdir -p $(@D)
	$(Q)$(web)/embed $(web_assets) >$@

$(O)/$(web)/assets_table.o: $(O)/$(web)/assets_table.c
	$(say) CC $<
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

-include $(wildcard $(O)/$(web)/*.d)
