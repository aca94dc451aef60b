.PHONY: mutants
mutants: ## check that the tests notice 200 one-line faults in the core (takes hours)
	@python3 tools/mutants/mutants.py $(O) $(MUTANTS)
