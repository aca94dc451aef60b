// SPDX-License-Identifier: MIT
/*
 * Learn offsets from machine code.
 *
 * Each function is decoded once, from its start to its end. A word that the code uses is described
 * by the pointer and the offset from this pointer. To recognise a pointer that moves from register
 * to register, each value in a register has a number: a copy keeps the number, every other
 * instruction that changes the register gives it a new one. Where a forward jump leads, a register
 * keeps its number only if it has the same number on all ways to this place. All words of
 * thread-local memory are one value, since these functions read only caml_state and the domain
 * there.
 *
 * The sources of the functions are runtime/gc_ctrl.c, minor_gc.c, domain.c, shared_heap.c,
 * gc_stats.c and callback.c. The code was read in the runtimes of 5.1.0, 5.3.0, 5.4.1 and 5.5.2.
 */
#include "code/runtime_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/code_insn.h"

enum {
	REGISTERS = 16,
	REG_RSP = 4,
	REG_RDI = 7,
	MAX_USES = 256,	    /* words that a function uses */
	MAX_JOINS = 64,	    /* places to which a function jumps */
	MAX_OFFSET = 4096,  /* no offset that is learnt is higher */
	STACK_GUARD = 0x28, /* the word of thread-local memory that -fstack-protector reads */
	/* System V ABI: a call changes all registers but rbx, rbp, rsp and r12 to r15 */
	CALL_CHANGES = 0x0fc7,
};

/* Numbers of values. Other values have higher numbers. */
enum { NO_VALUE, STATE_VALUE, ARGUMENT_VALUE, FIRST_VALUE };

const char *const fact_functions[N_FACT_FUNCTIONS] = {
	[FACTS_OF_MINOR_WORDS] = "caml_gc_minor_words_unboxed",
	[FACTS_OF_COUNTERS] = "caml_gc_counters",
	[FACTS_OF_SMALL_BLOCK] = "caml_alloc_small_dispatch",
	[FACTS_OF_LIMIT] = "caml_reset_young_limit",
	[FACTS_OF_HEAP_SIZE] = "caml_heap_size",
	[FACTS_OF_SAMPLE] = "caml_collect_gc_stats_sample_stw",
	[FACTS_OF_OLD_SAMPLE] = "caml_collect_gc_stats_sample",
	[FACTS_OF_CALLBACK] = "caml_callback_exn",
	[FACTS_OF_DOMAIN_ID] = "caml_ml_domain_id",
	[FACTS_OF_STACK] = "caml_try_realloc_stack",
};

/* For each fact, its name in the runtime and the function that shows the fact. */
static const struct {
	const char *name;
	int function;
} descriptions[N_RUNTIME_FACTS] = {
	[FACT_YOUNG_PTR] = { "young_ptr", FACTS_OF_MINOR_WORDS },
	[FACT_YOUNG_START] = { "young_start", FACTS_OF_SMALL_BLOCK },
	[FACT_YOUNG_END] = { "young_end", FACTS_OF_MINOR_WORDS },
	[FACT_YOUNG_TRIGGER] = { "young_trigger", FACTS_OF_LIMIT },
	[FACT_MINOR_WORDS] = { "stat_minor_words", FACTS_OF_MINOR_WORDS },
	[FACT_PROMOTED_WORDS] = { "stat_promoted_words", FACTS_OF_COUNTERS },
	[FACT_MAJOR_WORDS] = { "stat_major_words", FACTS_OF_COUNTERS },
	[FACT_ALLOCATED_WORDS] = { "allocated_words", FACTS_OF_COUNTERS },
	[FACT_LOCAL_ROOTS] = { "local_roots", FACTS_OF_COUNTERS },
	[FACT_CURRENT_STACK] = { "current_stack", FACTS_OF_CALLBACK },
	[FACT_SHARED_HEAP] = { "shared_heap", FACTS_OF_SAMPLE },
	[FACT_ID] = { "id", FACTS_OF_SAMPLE },
	[FACT_UNIQUE_ID] = { "unique_id", FACTS_OF_SAMPLE },
	[FACT_STACK_HANDLER] = { "handler", FACTS_OF_CALLBACK },
	[FACT_STACK_ID] = { "the id of a stack", FACTS_OF_STACK },
	[FACT_HANDLER_PARENT] = { "parent", FACTS_OF_CALLBACK },
	[FACT_HEAP_OWNER] = { "owner", FACTS_OF_HEAP_SIZE },
	[FACT_SLOT_UNIQUE_ID] = { "interruptor.unique_id", FACTS_OF_DOMAIN_ID },
};

/* ---- the words that a function uses ---------------------------------------------------------- */

/*
 * An instruction that uses the word at offset OFF from a pointer. BASE is the number of the value
 * that is the pointer: each value of a register has a number.
 */
struct word_use {
	unsigned int base;
	uint16_t off;
	uint8_t n_bytes;
	uint8_t use;		 /* enum insn_memory_use */
	unsigned int value;	 /* INSN_MEMORY_LOAD: the number of the loaded value */
	unsigned int subtracted; /* INSN_MEMORY_SUB: the number of the value before */
};

/* A place to which an earlier instruction jumps, and the values of the registers there. */
struct code_join {
	int64_t off;
	unsigned int values[REGISTERS];
};

struct code_words {
	struct word_use uses[MAX_USES];
	size_t n;
	struct code_join joins[MAX_JOINS];
	size_t n_joins;
	unsigned int values[REGISTERS], n_values;
};

static bool is_state(const struct insn_memory *memory)
{
	return memory->is_thread_local && memory->n_bytes == 8 &&
	       (memory->base != INSN_NO_REG || memory->off != STACK_GUARD);
}

/* Record the use of MEMORY. Return the number of the value that it loads. */
static unsigned int see_memory(struct code_words *words, const struct insn_memory *memory)
{
	struct word_use *use = &words->uses[words->n];

	if (is_state(memory))
		return STATE_VALUE;
	words->n_values++;
	if (memory->is_thread_local || memory->base == INSN_NO_REG || memory->base == REG_RSP ||
	    memory->off < 0 || memory->off > MAX_OFFSET || words->n == MAX_USES)
		return words->n_values;
	*use = (struct word_use){ .base = words->values[memory->base],
				  .off = (uint16_t)memory->off,
				  .n_bytes = memory->n_bytes,
				  .use = memory->use,
				  .value = words->n_values };
	if (memory->use == INSN_MEMORY_SUB)
		use->subtracted = words->values[memory->to];
	words->n++;
	return words->n_values;
}

/* Give the registers in CHANGED, a set of bits, new values. */
static void change_values(struct code_words *words, uint32_t changed)
{
	for (unsigned int reg = 0; reg < REGISTERS; reg++)
		if (changed >> reg & 1)
			words->values[reg] = ++words->n_values;
}

static void see_code(struct code_words *words, const struct insn_decoder *decoder,
		     const struct insn *insn, const uint8_t *bytes, size_t n)
{
	struct insn_memory memory = { .to = INSN_NO_REG };
	unsigned int to = 0, from = 0, value = NO_VALUE;
	bool is_conditional, is_load = false;

	if (insn_memory(decoder, bytes, n, &memory)) {
		value = see_memory(words, &memory);
		is_load = memory.use == INSN_MEMORY_LOAD && memory.n_bytes == 8;
	}
	if (insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT) {
		change_values(words, CALL_CHANGES);
	} else if (is_load) {
		words->values[memory.to] = value;
	} else if (insn_is_copy(decoder, bytes, n, &to, &from, &is_conditional) &&
		   !is_conditional) {
		words->values[to] = words->values[from];
	} else {
		change_values(words, insn_written(decoder, bytes, n));
	}
}

static struct code_join *find_join(struct code_words *words, int64_t off)
{
	for (size_t i = 0; i < words->n_joins; i++)
		if (words->joins[i].off == off)
			return &words->joins[i];
	return NULL;
}

/* Give the registers that differ between VALUES and OTHER new values in VALUES. */
static void merge_values(struct code_words *words, unsigned int values[REGISTERS],
			 const unsigned int other[REGISTERS])
{
	for (unsigned int reg = 0; reg < REGISTERS; reg++)
		if (values[reg] != other[reg])
			values[reg] = ++words->n_values;
}

/* The code jumps to OFF. */
static void see_jump(struct code_words *words, int64_t off)
{
	struct code_join *join = find_join(words, off);

	if (join) {
		merge_values(words, join->values, words->values);
	} else if (words->n_joins < MAX_JOINS) {
		join = &words->joins[words->n_joins++];
		join->off = off;
		memcpy(join->values, words->values, sizeof(join->values));
	}
}

/*
 * The next instruction is at OFF, after one of kind KIND. Code after a jump to which no earlier
 * instruction jumps is the body of a loop: the jump leads to the loop's condition. The body begins
 * with the values at the jump, as far as the loop does not change them.
 */
static void see_place(struct code_words *words, int64_t off, enum insn_kind kind)
{
	const struct code_join *join = find_join(words, off);

	switch (kind) {
	case INSN_RET:
	case INSN_TRAP:
		change_values(words, UINT32_MAX);
		/* fall through */
	case INSN_JMP:
	case INSN_JMP_REG:
	case INSN_JMP_MEM:
	case INSN_JMP_OTHER:
		if (join)
			memcpy(words->values, join->values, sizeof(words->values));
		break;
	default:
		if (join)
			merge_values(words, words->values, join->values);
		break;
	}
}

/* Find the words that CODE uses. The list ends where the code cannot be decoded. */
static void find_words(struct code_words *words, struct insn_decoder *decoder,
		       const struct fact_code *code)
{
	enum insn_kind before = INSN_OTHER;
	struct insn insn;

	words->n = words->n_joins = 0;
	words->n_values = FIRST_VALUE;
	for (unsigned int reg = 0; reg < REGISTERS; reg++)
		words->values[reg] = ++words->n_values;
	words->values[REG_RDI] = ARGUMENT_VALUE;
	for (uint32_t off = 0; code->bytes && off < code->n; off += insn.n_bytes) {
		see_place(words, off, before);
		if (!insn_decode(decoder, code->bytes + off, code->n - off, off, &insn))
			return;
		see_code(words, decoder, &insn, code->bytes + off, code->n - off);
		if (insn.kind == INSN_JCC || insn.kind == INSN_JMP)
			see_jump(words, insn.value);
		/* Nops fill the space behind the end of a piece of code. */
		if (insn.kind != INSN_NOP)
			before = insn.kind;
	}
}

/* ---- facts ----------------------------------------------------------------------------------- */

struct fact_learner {
	struct runtime_facts *facts;
	const struct fact_code *code;
	struct insn_decoder decoder;
	struct code_words words;
};

static bool reads(const struct word_use *use, unsigned int base, uint8_t n_bytes)
{
	return use->base == base && use->n_bytes == n_bytes && use->use != INSN_MEMORY_WRITE;
}

/* Return true if the code reads the 8 bytes at OFF from BASE. */
static bool reads_word(const struct code_words *words, unsigned int base, unsigned int off)
{
	for (size_t i = 0; i < words->n; i++)
		if (reads(&words->uses[i], base, 8) && words->uses[i].off == off)
			return true;
	return false;
}

/* Fact FACT is the offset AT; 0: the code of the fact's function does not show it. */
static void set_fact(struct fact_learner *l, enum runtime_fact fact, unsigned int at)
{
	const bool has_code = l->code[descriptions[fact].function].bytes != NULL;

	l->facts->at[fact] = (uint16_t)at;
	l->facts->faults[fact] = at ? FACT_KNOWN : has_code ? FACT_NOT_FOUND : FACT_NO_FUNCTION;
}

/* Set FACT to the offset AT if the code reads the word at this offset from BASE. */
static void confirm_fact(struct fact_learner *l, enum runtime_fact fact, unsigned int base,
			 unsigned int at)
{
	set_fact(l, fact, reads_word(&l->words, base, at) ? at : 0);
}

static void look_at(struct fact_learner *l, int function)
{
	find_words(&l->words, &l->decoder, &l->code[function]);
}

/*
 * Return the use that subtracts young_ptr from young_end, the first subtraction of two words of one
 * structure; set *END to the use that loads young_end. Return NULL if no use does so.
 */
static const struct word_use *find_young(const struct code_words *words,
					 const struct word_use **end)
{
	for (size_t i = 0; i < words->n; i++)
		for (size_t j = 0; j < i && words->uses[i].use == INSN_MEMORY_SUB; j++) {
			*end = &words->uses[j];
			if ((*end)->use == INSN_MEMORY_LOAD &&
			    (*end)->value == words->uses[i].subtracted &&
			    (*end)->base == words->uses[i].base)
				return &words->uses[i];
		}
	return NULL;
}

/*
 * Return the offset of the only word of N_BYTES bytes at BASE that the code reads and that is not
 * one of the N offsets KNOWN. Return 0 if there is no such word, or more than one.
 */
static unsigned int only_other(const struct code_words *words, unsigned int base, uint8_t n_bytes,
			       const unsigned int *known, size_t n)
{
	unsigned int found = 0;

	for (size_t i = 0; i < words->n; i++) {
		const struct word_use *use = &words->uses[i];
		bool is_known = use->off == found;

		for (size_t j = 0; j < n; j++)
			is_known |= use->off == known[j];
		if (!reads(use, base, n_bytes) || is_known)
			continue;
		if (found)
			return 0;
		found = use->off;
	}
	return found;
}

/* Gc.minor_words () is stat_minor_words + (young_end - young_ptr) / 8. */
static void learn_minor_words(struct fact_learner *l)
{
	const struct word_use *end, *ptr;
	unsigned int known[2];

	look_at(l, FACTS_OF_MINOR_WORDS);
	ptr = find_young(&l->words, &end);
	set_fact(l, FACT_YOUNG_PTR, ptr ? ptr->off : 0);
	set_fact(l, FACT_YOUNG_END, ptr ? end->off : 0);
	set_fact(l, FACT_MINOR_WORDS, 0);
	if (!ptr)
		return;
	known[0] = ptr->off;
	known[1] = end->off;
	set_fact(l, FACT_MINOR_WORDS, only_other(&l->words, ptr->base, 8, known, 2));
}

/* Return true if the code uses the word at OFF from BASE as an address. */
static bool is_address(const struct code_words *words, unsigned int base, unsigned int off)
{
	for (size_t i = 0; i < words->n; i++) {
		const struct word_use *load = &words->uses[i];

		for (size_t j = 0; j < words->n && load->use == INSN_MEMORY_LOAD &&
				   load->base == base && load->off == off;
		     j++)
			if (words->uses[j].base == load->value)
				return true;
	}
	return false;
}

/* Return the offset of a word at BASE that the code both reads and writes, or 0. */
static unsigned int changed_word(const struct code_words *words, unsigned int base)
{
	for (size_t i = 0; i < words->n; i++)
		if (words->uses[i].base == base && words->uses[i].use == INSN_MEMORY_WRITE &&
		    reads_word(words, base, words->uses[i].off))
			return words->uses[i].off;
	return 0;
}

/*
 * caml_gc_counters replaces state->local_roots, and later restores it. It also reads young_end,
 * young_ptr, the three sums of words, which are next to each other, and allocated_words.
 */
static void learn_counters(struct fact_learner *l)
{
	const unsigned int minor = l->facts->at[FACT_MINOR_WORDS];
	const struct word_use *end, *ptr;
	unsigned int allocated, roots;

	look_at(l, FACTS_OF_COUNTERS);
	ptr = find_young(&l->words, &end);
	if (!ptr || !minor || !reads_word(&l->words, ptr->base, minor)) {
		set_fact(l, FACT_PROMOTED_WORDS, 0);
		set_fact(l, FACT_MAJOR_WORDS, 0);
		set_fact(l, FACT_ALLOCATED_WORDS, 0);
		set_fact(l, FACT_LOCAL_ROOTS, 0);
		return;
	}
	confirm_fact(l, FACT_PROMOTED_WORDS, ptr->base, minor + 8);
	confirm_fact(l, FACT_MAJOR_WORDS, ptr->base, minor + 16);
	roots = changed_word(&l->words, ptr->base);
	set_fact(l, FACT_LOCAL_ROOTS, roots);
	allocated = only_other(
		&l->words, ptr->base, 8,
		(unsigned int[]){ ptr->off, end->off, minor, minor + 8, minor + 16, roots }, 6);
	set_fact(l, FACT_ALLOCATED_WORDS, allocated);
	if (allocated && is_address(&l->words, ptr->base, allocated)) {
		l->facts->at[FACT_ALLOCATED_WORDS] = 0;
		l->facts->faults[FACT_ALLOCATED_WORDS] = FACT_IS_ADDRESS;
	}
}

/*
 * The member after young_ptr is young_start, with which caml_alloc_small_dispatch compares
 * young_ptr. The member after young_end is young_trigger, from which caml_reset_young_limit makes
 * the new limit.
 */
static void learn_minor_heap(struct fact_learner *l)
{
	look_at(l, FACTS_OF_SMALL_BLOCK);
	confirm_fact(l, FACT_YOUNG_START, ARGUMENT_VALUE, l->facts->at[FACT_YOUNG_PTR] + 8U);
	look_at(l, FACTS_OF_LIMIT);
	confirm_fact(l, FACT_YOUNG_TRIGGER, ARGUMENT_VALUE, l->facts->at[FACT_YOUNG_END] + 8U);
}

/*
 * caml_heap_size (heap) is pool_words + large_words: the members 0 and 5 of the heap's statistics,
 * which follow the owner.
 */
static void learn_heap(struct fact_learner *l)
{
	enum { LARGE_WORDS = 5 * 8 };
	const struct code_words *words = &l->words;
	unsigned int owner = 0;

	look_at(l, FACTS_OF_HEAP_SIZE);
	for (size_t i = 0; i < words->n; i++)
		if (reads(&words->uses[i], ARGUMENT_VALUE, 8) && words->uses[i].off >= 8 &&
		    reads_word(words, ARGUMENT_VALUE, words->uses[i].off + LARGE_WORDS))
			owner = words->uses[i].off - 8U;
	set_fact(l, FACT_HEAP_OWNER, owner);
}

/*
 * caml_collect_gc_stats_sample_stw (domain) copies the statistics of a domain. It reads `id`, an
 * int, the sums of words, the number of forced major collections, which follows them, and
 * shared_heap. In the list of members, unique_id follows id; readers of a process compare it with
 * FACT_SLOT_UNIQUE_ID.
 */
static void learn_domain(struct fact_learner *l)
{
	const unsigned int minor = l->facts->at[FACT_MINOR_WORDS];
	const unsigned int words[] = { minor, minor + 8, minor + 16, minor + 24 };
	const bool is_old = !l->code[FACTS_OF_SAMPLE].bytes;
	unsigned int id;

	look_at(l, is_old ? FACTS_OF_OLD_SAMPLE : FACTS_OF_SAMPLE);
	id = only_other(&l->words, ARGUMENT_VALUE, 4, NULL, 0);
	set_fact(l, FACT_ID, id);
	set_fact(l, FACT_UNIQUE_ID, id ? id + 8 : 0);
	set_fact(l, FACT_SHARED_HEAP,
		 minor ? only_other(&l->words, ARGUMENT_VALUE, 8, words, 4) : 0);
	look_at(l, FACTS_OF_DOMAIN_ID);
	set_fact(l, FACT_SLOT_UNIQUE_ID, only_other(&l->words, STATE_VALUE, 8, NULL, 0));
}

/* caml_callback_exn reads state->current_stack->handler->parent. */
static void learn_callback(struct fact_learner *l)
{
	const struct code_words *words = &l->words;
	const struct word_use *stack = NULL, *handler = NULL;
	unsigned int parent = 0;

	look_at(l, FACTS_OF_CALLBACK);
	for (size_t i = 0; i < words->n && !handler; i++) {
		stack = &words->uses[i];
		for (size_t j = i + 1; j < words->n && !handler; j++)
			if (stack->use == INSN_MEMORY_LOAD && words->uses[j].base == stack->value &&
			    words->uses[j].use == INSN_MEMORY_LOAD)
				handler = &words->uses[j];
	}
	set_fact(l, FACT_CURRENT_STACK, handler ? stack->off : 0);
	set_fact(l, FACT_STACK_HANDLER, handler ? handler->off : 0);
	for (size_t i = 0; i < words->n && handler && !parent; i++)
		if (reads(&words->uses[i], handler->value, 8))
			parent = words->uses[i].off;
	set_fact(l, FACT_HANDLER_PARENT, parent);
}

/*
 * caml_try_realloc_stack copies the current stack to a larger one with the same id. Of the stack it
 * reads the stack pointer, which is the first member, the handler, and the id.
 */
static void learn_stack(struct fact_learner *l)
{
	const unsigned int current = l->facts->at[FACT_CURRENT_STACK];
	const unsigned int handler = l->facts->at[FACT_STACK_HANDLER];
	const struct code_words *words = &l->words;
	unsigned int id = 0;

	look_at(l, FACTS_OF_STACK);
	for (size_t i = 0; i < words->n && current && !id; i++)
		if (words->uses[i].base == STATE_VALUE && words->uses[i].off == current &&
		    words->uses[i].use == INSN_MEMORY_LOAD &&
		    reads_word(words, words->uses[i].value, handler))
			id = only_other(words, words->uses[i].value, 8, &handler, 1);
	set_fact(l, FACT_STACK_ID, id);
}

int runtime_facts_learn(struct ocp_ctx *ctx, const struct fact_code code[N_FACT_FUNCTIONS],
			struct runtime_facts *facts)
{
	struct fact_learner *l = calloc(1, sizeof(*l));

	*facts = (struct runtime_facts){ 0 };
	if (!l || !insn_decoder_init(&l->decoder)) {
		free(l);
		return ctx_no_memory(ctx);
	}
	l->facts = facts;
	l->code = code;
	learn_minor_words(l);
	learn_counters(l);
	learn_minor_heap(l);
	learn_heap(l);
	learn_domain(l);
	learn_callback(l);
	learn_stack(l);
	insn_decoder_free(&l->decoder);
	free(l);
	return 0;
}

int runtime_facts_need(struct ocp_ctx *ctx, const struct runtime_facts *facts, const char *file,
		       const enum runtime_fact *needed, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		const char *name = descriptions[needed[i]].name;
		const char *function = fact_functions[descriptions[needed[i]].function];

		switch (facts->faults[needed[i]]) {
		case FACT_NO_FUNCTION:
			return ctx_error(ctx, -EPROTONOSUPPORT,
					 "%s: has no symbol %s, whose code shows where %s is: %s",
					 file, function, name, what);
		case FACT_NOT_FOUND:
			return ctx_error(ctx, -EPROTONOSUPPORT, "%s: %s was not found in %s: %s",
					 file, name, function, what);
		case FACT_IS_ADDRESS:
			return ctx_error(ctx, -EPROTONOSUPPORT,
					 "%s: %s is an address, not a number, in %s: %s", file,
					 name, function, what);
		default:
			break;
		}
	}
	return 0;
}
