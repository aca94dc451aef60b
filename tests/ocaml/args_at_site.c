// SPDX-License-Identifier: MIT
/*
 * LD_PRELOADed into tests/ocaml/args: traps at every site and prints the probe's name and what its
 * note's operands say, evaluated with the registers of that very moment, to the file $AT_SITE. The
 * types are the letters after the name's last underscore.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

enum { MAX_SITES = 1000, INT3 = 0xcc, TRAP_STACK = 1 << 16 };

static struct site {
	uint64_t pc;
	const char *name, *args;
} sites[MAX_SITES];
static size_t n_sites;
static FILE *out;

static const struct {
	const char *name;
	int index;
} registers[] = {
	{ "%rax", REG_RAX }, { "%rbx", REG_RBX }, { "%rcx", REG_RCX }, { "%rdx", REG_RDX },
	{ "%rsi", REG_RSI }, { "%rdi", REG_RDI }, { "%rbp", REG_RBP }, { "%rsp", REG_RSP },
	{ "%r8", REG_R8 },   { "%r9", REG_R9 },	  { "%r10", REG_R10 }, { "%r11", REG_R11 },
	{ "%r12", REG_R12 }, { "%r13", REG_R13 }, { "%r14", REG_R14 }, { "%r15", REG_R15 },
};

static uint64_t register_value(const ucontext_t *context, uint64_t pc, const char *name)
{
	if (strcmp(name, "%rip") == 0)
		return pc;
	for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
		if (strcmp(registers[i].name, name) == 0)
			return (uint64_t)context->uc_mcontext.gregs[registers[i].index];
	abort();
}

/* The 64 bits that an operand's part behind the @ means. */
static uint64_t evaluate(const ucontext_t *context, uint64_t pc, char *place)
{
	char *open = strchr(place, '(');
	uint64_t word;

	if (*place == '$')
		return (uint64_t)strtoll(place + 1, NULL, 10);
	if (strncmp(place, "%xmm", 4) == 0) {
		memcpy(&word, &context->uc_mcontext.fpregs->_xmm[atoi(place + 4)], sizeof(word));
		return word;
	}
	if (!open)
		return register_value(context, pc, place);
	open[strlen(open) - 1] = '\0';
	word = register_value(context, pc, open + 1) + (uint64_t)strtoll(place, NULL, 10);
	memcpy(&word, (const void *)word, sizeof(word));
	return word;
}

static void print_value(char type, const char *size, uint64_t word)
{
	int is_boxed = strcmp(size, "8") == 0;
	double number;

	switch (type) {
	case 'i':
		fprintf(out, " %lld", (long long)word >> 1);
		break;
	case 'r':
		fprintf(out, " %lld", (long long)*(uint64_t *)word >> 1);
		break;
	case 's':
		fprintf(out, " %s", (const char *)word);
		break;
	case 'f':
		if (is_boxed)
			word = *(uint64_t *)word;
		memcpy(&number, &word, sizeof(number));
		fprintf(out, " %.17g", number);
		break;
	default:
		if (is_boxed)
			word = ((uint64_t *)word)[1];
		fprintf(out, " %lld", (long long)word);
	}
}

static void on_trap(int signal, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP] - 1;
	char args[1000], *save = NULL;
	const char *types;
	size_t i;

	(void)signal;
	(void)info;
	for (i = 0; i < n_sites && sites[i].pc != pc; i++)
		;
	if (i == n_sites)
		abort();
	types = strrchr(sites[i].name, '_') + 1;
	fprintf(out, "%s", sites[i].name);
	snprintf(args, sizeof(args), "%s", sites[i].args);
	for (char *arg = strtok_r(args, " ", &save); arg; arg = strtok_r(NULL, " ", &save)) {
		char *at = strchr(arg, '@');

		*at = '\0';
		print_value(*types++, arg, evaluate(context, pc, at + 1));
	}
	fputs(*types ? " and too few\n" : "\n", out);
}

static void read_notes(const char *note, const char *end, uint64_t bias)
{
	while (note < end) {
		const Elf64_Nhdr *head = (const void *)note;
		const char *desc = note + sizeof(*head) + ((head->n_namesz + 3) & ~3U);
		const char *provider = desc + 3 * sizeof(uint64_t);
		struct site *site = &sites[n_sites];

		note = desc + ((head->n_descsz + 3) & ~3U);
		if (strcmp(provider, "ocaml_1") != 0)
			continue;
		memcpy(&site->pc, desc, sizeof(site->pc));
		site->pc += bias;
		site->name = provider + strlen(provider) + 1;
		site->args = site->name + strlen(site->name) + 1;
		n_sites++;
	}
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
	(void)size;
	*(uint64_t *)bias = info->dlpi_addr;
	return 1; /* the program is the first */
}

__attribute__((constructor)) static void plant_traps(void)
{
	const stack_t stack = { .ss_sp = malloc(TRAP_STACK), .ss_size = TRAP_STACK };
	const struct sigaction action = { .sa_sigaction = on_trap,
					  .sa_flags = SA_SIGINFO | SA_ONSTACK };
	int fd = open("/proc/self/exe", O_RDONLY);
	const Elf64_Shdr *sections;
	const Elf64_Ehdr *header;
	struct stat stat;
	const char *file;
	uint64_t bias;

	out = fopen(getenv("AT_SITE"), "w");
	fstat(fd, &stat);
	file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	dl_iterate_phdr(take_bias, &bias);
	header = (const void *)file;
	sections = (const void *)(file + header->e_shoff);
	for (int i = 0; i < header->e_shnum; i++)
		if (strcmp(file + sections[header->e_shstrndx].sh_offset + sections[i].sh_name,
			   ".note.stapsdt") == 0)
			read_notes(file + sections[i].sh_offset,
				   file + sections[i].sh_offset + sections[i].sh_size, bias);
	sigaltstack(&stack, NULL);
	sigaction(SIGTRAP, &action, NULL);
	for (size_t i = 0; i < n_sites; i++) {
		mprotect((void *)(sites[i].pc & ~4095UL), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
		*(uint8_t *)sites[i].pc = INT3;
	}
}

__attribute__((destructor)) static void finish(void)
{
	fclose(out);
}
