.PHONY: mutants
mutants: ## check that the tests notice faults in single lines (hours): N=400 SEED=0 CHANGED=COMMIT; survivors are listed
	+@[ -e $${COVERAGE:-$(O)/coverage/coverage.json} ] || $(MAKE) --no-print-directory coverage
	@python3 tools/mutants/mutants.py $(O) $(N:%=--count %) $(SEED:%=--seed %) $(CHANGED:%=--changed %) $(MUTANTS)
