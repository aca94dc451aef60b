.PHONY: mutants
mutants: ## 200 one-line mistakes in the code that matters most: do the tests notice them? (hours)
	@python3 tools/mutants/mutants.py $(O) $(MUTANTS)
