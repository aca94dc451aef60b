# `make deb`: Debian packages, in $(O)/deb.
#
#   DEB_STAGED=1   package what is built in $(O), instead of compiling again with dpkg's flags
deb_dir := $(abspath $(O))/deb
deb_source := $(deb_dir)/ocaml-probes-$(VERSION)
deb_staged := $(deb_dir)/staged
deb_places = $(shell $(MAKE) -s -f tools/debian/rules print-places)
deb_command = $(if $(DEB_STAGED),OCP_STAGED=$(deb_staged) debian/rules binary,\
	dpkg-buildpackage --no-sign --build=binary $(jobs))
deb_files := Makefile README.md LICENSE .github bpf include src tests tools vmlinux

.PHONY: deb deb-deps check-deb
deb-deps:
	@tools/install-deps build deb

deb: $(if $(DEB_STAGED),all ocaml $(MAN_PAGES) $(COMPLETIONS),deb-deps) ## build Debian packages into build/deb, and check them with lintian
	$(Q)rm -rf $(deb_dir)
	$(Q)mkdir -p $(deb_source)
	$(Q)tar -c --exclude=_build --exclude=./$(O) $(deb_files) | tar -xC $(deb_source)
	$(Q)cp -rT tools/debian $(deb_source)/debian && rm $(deb_source)/debian/*.mk
	$(if $(DEB_STAGED),$(Q)$(MAKE) --no-print-directory install DESTDIR=$(deb_staged) $(deb_places))
	$(say) DEB $(deb_dir)
	$(Q)cd $(deb_source) && env -u MAKEFLAGS -u MAKELEVEL $(deb_command) >$(deb_dir)/log 2>&1 || \
		{ tail -n 30 $(deb_dir)/log >&2; exit 1; }
	$(say) LINTIAN $(deb_dir)
	$(Q)lintian --allow-root --fail-on error $(deb_dir)/*.$(if $(DEB_STAGED),deb,changes)
	@ls $(deb_dir)/*.deb

check-deb: deb ## install the packages into a minimal Debian made by debootstrap, and run the demo there (root)
	@root=$$(tools/debian/root $(deb_dir)) && tools/debian/try $(deb_dir) $$root

# The tests run there without any file of this machine or of an earlier run.
.PHONY: check-fresh
check-fresh: ## `make demo` and `make check`, or T=NAME..., of HEAD in a Debian that debootstrap has just made (root)
	@tools/debian/fresh sh -c 'make demo && CI=true make check'
