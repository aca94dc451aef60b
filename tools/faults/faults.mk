# Every system call of the tools fails once: `make faults`, or some of the scenarios with S='NAME...'
# (tools/faults/scenarios.py). `make check` runs a selection, tests/e2e/faults.sh.
injector := $(O)/faults/inject

.PHONY: faults
faults: all fixtures $(injector) ## every system call of the tools fails once (some minutes); S=NAME: one scenario
	@tools/faults/run $(O) $(S)

$(injector): tools/faults/inject.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -O2 -o $@ $<
