# The files of the web page, as a part of each program that links $(web_objs). PATH=FILE: FILE is served as /PATH.
# The page that `profile --html` writes contains the same flame graph.
web := src/serve/web
web_modules := charts collector format heap model page pairs probes profile programs quantile rates recordings rows spans switcher
web_flame := src/profile/formats
web_assets := =$(web)/page.html page.css=$(web)/page.css $(foreach m,$(web_modules),$(m).js=$(web)/$(m).js) \
	uplot.js=$(web)/vendor/uplot/uPlot.iife.min.js uplot.css=$(web)/vendor/uplot/uPlot.min.css \
	uplot-license.txt=$(web)/vendor/uplot/LICENSE \
	flame.js=$(O)/$(web)/flame.js tree.js=$(web_flame)/page/tree.js flame.css=$(web_flame)/page/flame.css \
	d3-flamegraph.js=$(web_flame)/vendor/d3-flame-graph/d3-flamegraph.min.js \
	d3-flamegraph.css=$(web_flame)/vendor/d3-flame-graph/d3-flamegraph.css \
	d3-selection.js=$(web_flame)/vendor/d3-selection/d3-selection.min.js \
	d3-flame-graph-license.txt=$(web_flame)/vendor/d3-flame-graph/LICENSE \
	d3-ease-license.txt=$(web_flame)/vendor/d3-flame-graph/LICENSE.d3-ease \
	d3-selection-license.txt=$(web_flame)/vendor/d3-selection/LICENSE
web_files := $(foreach a,$(web_assets),$(lastword $(subst =, ,$(a))))
web_objs := $(O)/$(web)/assets.o $(O)/$(web)/assets_table.o
c_sources += $(web)/assets.c

# The server serves all modules from one folder, so leave out the folders in the imports.
$(O)/$(web)/flame.js: $(web_flame)/page/flame.js
	$(Q)mkdir -p $(@D)
	$(Q)sed -E 's|^(import .* from ")[^"]*/|\1./|' $< >$@

$(O)/$(web)/assets_table.c: $(web)/embed $(web)/web.mk $(web_files)
	$(say) EMBED $@
	$(Q)mkdir -p $(@D)
	$(Q)$(web)/embed $(web_assets) >$@

$(O)/$(web)/assets_table.o: $(O)/$(web)/assets_table.c
	$(say) CC $<
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

-include $(wildcard $(O)/$(web)/*.d)
