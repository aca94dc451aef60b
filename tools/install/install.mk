# `make install` and `make uninstall`: what goes where is in tools/install/files.
#
#   DESTDIR=DIR   install into the tree DIR, for packages
#   PREFIX=DIR    default /usr/local
#
# These say where each kind of file goes. Packages set some of them.
LIBDIR ?= $(PREFIX)/lib
OCAMLDIR ?= $(LIBDIR)/ocaml
UNITDIR ?= $(PREFIX)/lib/systemd/system
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
DOCDIR ?= $(PREFIX)/share/doc/ocaml-probes

# The manual pages (tools/man/man.mk) and the completions: _NAME for zsh, NAME.bash for bash.
MAN_PAGES ?= $(man_pages)
COMPLETIONS ?= $(wildcard tools/completion/_* tools/completion/*.bash)

install_variables := O DESTDIR PREFIX LIBDIR OCAMLDIR UNITDIR ZSHDIR DOCDIR VERSION SONAME MAN_PAGES COMPLETIONS
run_install = $(foreach v,$(install_variables),$(v)='$($(v))') tools/install/files

.PHONY: install uninstall
install: all ocaml $(MAN_PAGES) $(COMPLETIONS) ## install below $(DESTDIR)$(PREFIX)
	$(Q)$(run_install) install

uninstall: ## remove what `make install` with the same DESTDIR and PREFIX has installed
	$(Q)$(run_install) uninstall
