/* SPDX-License-Identifier: MIT */
/*
 * ocaml_probes.h - find, toggle and count the probes of native OCaml programs (Linux, x86-64)
 *
 * A probe is a named point of a program, at which the program can run an OCaml handler. A site is a
 * place in the code where a probe is hit. To switch a probe, the library changes the code at its
 * sites, and adjusts its semaphore, a 16-bit counter: the probe is on while the counter is above 0.
 * The notes of an executable (.note.stapsdt) name the probes and give the addresses of their sites
 * and semaphores.
 *
 * The library has these objects:
 *
 *	ocp_ctx       the context: the last error message and the log callback
 *	ocp_program   the probes of one ELF file; needs no process
 *	ocp_process   the probes of one live process: of its executable and all ELF files it maps
 *	ocp_actions   a list of probes to enable and disable
 *	ocp_meter     a measurement of probes in any number of processes, by the kernel (eBPF)
 *	ocp_sample    the results of a meter at one moment
 *
 * Errors. A function that returns int returns 0 on success and a negative errno value on failure.
 * After a failure, ocp_error() returns a message of one sentence ("OPERAND: REASON"), and
 * ocp_hint() returns advice for the user, or NULL. The codes are:
 *
 *	-EINVAL      an argument is invalid, or actions contradict each other
 *	-ENOENT      the file or the probe does not exist
 *	-ESRCH       the process does not exist or has ended
 *	-EPERM       a privilege is missing (the message names it)
 *	-EBUSY       another program is tracing the process
 *	-EOPNOTSUPP  the kernel (or its configuration) lacks a feature that measuring needs
 *	-ENOEXEC     the file is not an ELF file for this machine
 *	-EBADMSG     the ELF file or its notes are damaged
 *	-EILSEQ      the code of the process differs from its notes; nothing was written
 *	-ERANGE      enabling would overflow a semaphore, or disabling would lower it below 0
 *	-EOVERFLOW   the code is mapped on 1 GiB pages, and writing to these was not allowed
 *	-ETIMEDOUT   a thread of the process did not stop in time; nothing was written
 *	others       the errno of the system call that failed, such as -ENOMEM
 *
 * Ownership. Each type of object has a function that ends in _free; it accepts NULL. Free an object
 * before the ctx that it was made from, and a meter before its processes. Strings that a function
 * returns belong to the object and live as long as it does, unless stated otherwise.
 *
 * Threads. Only one thread at a time may use a ctx and the objects made from it. Different ctx
 * objects are independent. Functions that stop a process resume it before they return, except
 * ocp_process_hold(), ocp_process_spawn() and ocp_trace_held(): these leave the process stopped
 * until the caller calls ocp_process_release().
 */
#ifndef OCAML_PROBES_H
#define OCAML_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OCP_API __attribute__((visibility("default")))
#else
#define OCP_API
#endif

#define OCP_VERSION "0.1.0"

struct ocp_ctx;
struct ocp_program;
struct ocp_process;
struct ocp_actions;
struct ocp_meter;
struct ocp_sample;
struct ocp_undo;
struct ocp_sites;
struct ocp_findings;

/* ---- ctx ---------------------------------------------------------------------------------- */

enum ocp_log_level {
	OCP_LOG_WARN,  /* something in the result is not as requested; show the line to the user */
	OCP_LOG_INFO,  /* progress, one line per step */
	OCP_LOG_DEBUG, /* details for debugging */
};

/*
 * A log callback. LINE does not end with a newline and is valid only during the call. The callback
 * may run in a thread that the library has made. The thread that called the library waits
 * meanwhile.
 */
typedef void (*ocp_log_fn)(void *data, enum ocp_log_level level, const char *line);

/* Create a ctx. A new ctx logs nothing. Returns NULL and sets errno if memory is short. */
OCP_API struct ocp_ctx *ocp_ctx_new(void);
OCP_API void ocp_ctx_free(struct ocp_ctx *ctx);

/*
 * Call FN(DATA, ...) for each message whose level is LEVEL or comes before LEVEL in the enum. If FN
 * is NULL, log nothing.
 */
OCP_API void ocp_ctx_set_log(struct ocp_ctx *ctx, ocp_log_fn fn, void *data,
			     enum ocp_log_level level);

/* The message of the last error in this ctx; "" if there was none. Valid until the next error. */
OCP_API const char *ocp_error(const struct ocp_ctx *ctx);
/* Advice on the last error; NULL: no advice. Valid until the next error. */
OCP_API const char *ocp_hint(const struct ocp_ctx *ctx);

/*
 * Allow or forbid updates of code that is mapped on 1 GiB pages. The first write to a page makes
 * the kernel copy the whole page: 1 GiB. By default, updates of such code are forbidden: they fail
 * with -EOVERFLOW before anything is written.
 */
OCP_API void ocp_ctx_allow_gigatext(struct ocp_ctx *ctx, bool allow);

/* The version of the library, for example "0.1.0". */
OCP_API const char *ocp_version(void);

/* ---- names of functions ------------------------------------------------------------------- */

/*
 * Write to NAME the name that people write for the OCaml function whose symbol is SYMBOL:
 *
 *	camlService__find_531			Service.find (OCaml 4.x and 5.0)
 *	camlMylib__Service.find_531		Mylib.Service.find (OCaml 5.1 and later)
 *	camlStdlib__$40_197			Stdlib.(@)
 *	camlStdlib__List__map_94		List.map
 *	camlDune__exe__Service.find_531		Service.find
 *	camlService__fun_1257			Service.fun_1257: an anonymous function
 *	camlService__entry			Service.entry: it runs the top level of Service
 *	_CamlU3FooM3BarF3bazD1_D6_		Foo.Bar.baz (structured names of OxCaml)
 *	_CamlU3FooF3barL0_D1_D7_		Foo.bar.fun_7: an anonymous function in Foo.bar
 *	_CamlU3FooIU3BarF3quxD1_D8_		Foo.(specialization_of).Bar.qux: a copy in Foo
 *
 * The prefixes "Stdlib." and "Dune__exe." are omitted before another module. The compiler's number,
 * which makes symbols unique, is a part of the name only if the function is anonymous. A flat
 * symbol (caml...) lacks the modules inside of a file: Service.Cache.find is Service.find, too. In
 * OCaml 4.x and OxCaml, a flat symbol does not show where the name of its file ends: the name is
 * taken to end after the last module name that begins with a capital letter.
 *
 * Returns the length of the whole name; 0 if SYMBOL is not the symbol of an OCaml function, if it
 * is damaged, or if its name is longer than 1023 bytes. As with snprintf(3), NAME is cut to fit
 * into NAME_BYTES and always ends with NUL; the name was cut if the result is not less than
 * NAME_BYTES. If NAME_BYTES is 0, NAME may be NULL. For the result 0, NAME is set to "". The name
 * is valid UTF-8 without control characters, whatever SYMBOL contains. The function needs no ctx,
 * allocates no memory, and may be called by several threads at a time.
 */
OCP_API size_t ocp_demangle(const char *symbol, char *name, size_t name_bytes);

/* ---- the probes of a file ----------------------------------------------------------------- */

/*
 * Read the probes of the ELF file PATH from its headers and notes. A file without OCaml probes is
 * valid and has 0 probes. Free *OUT with ocp_program_free().
 */
OCP_API int ocp_program_open(struct ocp_ctx *ctx, const char *path, struct ocp_program **out);
OCP_API void ocp_program_free(struct ocp_program *prog);

/*
 * Return the number of probes, and the name of probe number PROBE. Probes are numbered from 0 in
 * the order of their names (strcmp).
 */
OCP_API size_t ocp_program_probe_count(const struct ocp_program *prog);
OCP_API const char *ocp_program_probe_name(const struct ocp_program *prog, size_t probe);
/* Return the number of sites of a probe: 0 if the compiler optimised all of them away. */
OCP_API size_t ocp_program_probe_sites(const struct ocp_program *prog, size_t probe);

/* ---- the probes of a live process --------------------------------------------------------- */

/*
 * Open process PID: find the ELF files that it maps, read their notes, and locate every site and
 * semaphore in its memory. The process is not stopped. The caller needs the right to ptrace the
 * process (the same user, or CAP_SYS_PTRACE). To see files that the process maps later (plugins),
 * open the process again. Free *OUT with ocp_process_free().
 *
 * PID may be the caller's own. An update then stops no thread: it switches one byte after the
 * other, and other threads may run the sites meanwhile. Each site is on or off at any moment.
 */
OCP_API int ocp_process_open(struct ocp_ctx *ctx, pid_t pid, struct ocp_process **out);
OCP_API void ocp_process_free(struct ocp_process *proc);

/*
 * Find the processes that run the file PATH; a file of the same name elsewhere is not PATH. *PIDS
 * is set to an array of *N pids in ascending order; the caller frees it with free(). Processes that
 * the caller may not inspect are left out; a warning is logged if the name of such a process
 * suggests that it runs PATH. Returns -ESRCH if no process is found.
 */
OCP_API int ocp_find_processes(struct ocp_ctx *ctx, const char *path, pid_t **pids, size_t *n);

/* The id with which the process was opened. */
OCP_API pid_t ocp_process_pid(const struct ocp_process *proc);
/*
 * The thread group id: the pid that the kernel and samples use for the process. It differs from
 * ocp_process_pid() if the main thread has exited; such a process is opened by the id of another
 * thread.
 */
OCP_API pid_t ocp_process_tgid(const struct ocp_process *proc);
/*
 * The path of the executable as the process sees it. It ends with " (deleted)" if the kernel
 * reports that the file was deleted.
 */
OCP_API const char *ocp_process_exe(const struct ocp_process *proc);
/*
 * The id of the container of the process, and the id of the pod of this container (the UID in
 * Kubernetes, the id in podman), taken from the names of the process's cgroups. NULL if these names
 * contain no such id.
 */
OCP_API const char *ocp_process_container(const struct ocp_process *proc);
OCP_API const char *ocp_process_pod(const struct ocp_process *proc);
/*
 * The pid of the process in its own pid namespace. Most containers have a separate pid namespace.
 */
OCP_API pid_t ocp_process_ns_pid(const struct ocp_process *proc);

/*
 * Return the number of probes in all files of the process, the name of probe number PROBE, and the
 * number of its sites. Probes are numbered from 0 in the order of their names (strcmp).
 */
OCP_API size_t ocp_process_probe_count(const struct ocp_process *proc);
OCP_API const char *ocp_process_probe_name(const struct ocp_process *proc, size_t probe);
OCP_API size_t ocp_process_probe_sites(const struct ocp_process *proc, size_t probe);

enum ocp_state {
	OCP_DISABLED,
	OCP_ENABLED,
	OCP_MIXED, /* some sites or semaphores of the probe are on, and others are off */
};

/* Flags for reading and updating. They can be or-ed. */
enum {
	/* Read or update everything during one single stop of the process. */
	OCP_ATOMICALLY = 1 << 0,
	/* For updates: set semaphores to 1 (enable) or 0 (disable), whatever their values were. */
	OCP_FORCE = 1 << 1,
	/* For updates: verify everything, but neither stop the process nor write to it. */
	OCP_DRY_RUN = 1 << 2,
};

/*
 * Read the state of each probe from its sites and semaphores. STATES must have room for
 * ocp_process_probe_count() entries. The process is stopped only if FLAGS has OCP_ATOMICALLY.
 */
OCP_API int ocp_process_read_states(struct ocp_process *proc, unsigned int flags,
				    enum ocp_state *states);

/*
 * Stop all threads of PROC until ocp_process_release(). For the process, all reads and updates that
 * the caller makes while the process is held happen at one moment. If the caller dies, the process
 * resumes.
 */
OCP_API int ocp_process_hold(struct ocp_process *proc);

/*
 * Start the program PATH as a child process and hold it before any code of the program or of its
 * shared libraries runs, constructors included. While the child is held, the probes of the program
 * and of its libraries can be switched. ARGV ends with NULL; ARGV[0] is the program's name by
 * convention. If the caller dies before ocp_process_release(), the child is killed. The program
 * need not have probes.
 */
OCP_API int ocp_process_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[],
			      struct ocp_process **out);

/* Resume a held process. */
OCP_API void ocp_process_release(struct ocp_process *proc);

/* Flags of ocp_process_restrict(). */
enum {
	OCP_NO_COPIES = 1 << 4, /* accept only the file that PROG was read from, not copies of it */
};

/*
 * Restrict PROC to the images of PROG, and ignore the probes of all other files. An image belongs
 * to PROG if it maps the file that PROG was read from, under any name and even if the file has been
 * deleted. If there is no such image, images of copies of this file are accepted instead, unless
 * FLAGS has OCP_NO_COPIES; a copy is a file with the same probes at the same addresses. Returns
 * -ESRCH if no image is accepted. But if PROG has no probes, it is enough that PROC runs the file
 * of PROG. Call this function before other objects are made from PROC.
 */
OCP_API int ocp_process_restrict(struct ocp_process *proc, const struct ocp_program *prog,
				 unsigned int flags);

/* ---- the processes of the machine ---------------------------------------------------------- */

/*
 * The numbers of processes that a scan could not read. Later versions may add members at the end.
 */
struct ocp_scan_summary {
	size_t denied; /* processes that the caller may not inspect */
	/* processes that could not be read for another reason; the log has the reason */
	size_t failed;
};

/*
 * A scan callback. PROC is valid only during the call. If the callback returns a value other than
 * 0, ocp_scan() ends and returns this value.
 */
typedef int (*ocp_scan_fn)(void *data, struct ocp_process *proc);

/*
 * Call FN(DATA, ...) for each process that has OCaml probes and that the caller may inspect, in the
 * order of pids. The calling process, kernel threads, zombies, and processes that end meanwhile are
 * skipped. No process is stopped.
 */
OCP_API int ocp_scan(struct ocp_ctx *ctx, ocp_scan_fn fn, void *data,
		     struct ocp_scan_summary *summary);

/* ---- the sites of a live process ---------------------------------------------------------- */

/*
 * The type of an argument, as far as literals and annotations in the source of the program show it.
 */
enum ocp_arg_type {
	OCP_ARG_ANY, /* unknown */
	OCP_ARG_BOOL,
	OCP_ARG_CHAR,
	OCP_ARG_INT,
	OCP_ARG_FLOAT,
	OCP_ARG_STRING,
};

/*
 * Copy the name of argument number ARG to NAME, or "" if this argument has no name, and return its
 * type. ARG_NAMES has the names and types of the arguments of a probe, for example
 * "id,customer:string,price:float"; it is a member of struct ocp_site and struct ocp_hit.
 */
enum { OCP_ARG_NAME_BYTES = 64 };
OCP_API enum ocp_arg_type ocp_arg_name(const char *arg_names, size_t arg,
				       char name[OCP_ARG_NAME_BYTES]);
/* Return the name of TYPE: "int", "string" and so on; "" for OCP_ARG_ANY. */
OCP_API const char *ocp_arg_type_name(enum ocp_arg_type type);

enum ocp_site_state {
	OCP_SITE_OFF,
	OCP_SITE_ON,
	/* the compiler removed the site: the program tests the semaphore instead */
	OCP_SITE_ABSENT,
	OCP_SITE_DAMAGED, /* the bytes of the site are neither on nor off: see `fault` */
};

/*
 * A site. Each site is described by a note. An exception is a program that was built with probes
 * but not post-linked: it has no notes, and its sites are found in its code. These sites are
 * "dormant", which is also the value of `abi`. A dormant site is a load, a comparison and a
 * conditional jump; switching changes the jump. Later versions may add members at the end.
 */
struct ocp_site {
	size_t probe;	   /* the number, in the process, of the probe that the site belongs to */
	const char *image; /* the path of the ELF file as the process sees it */
	/* a number for each image; differs even for images with the same path */
	size_t image_index;
	const char *abi; /* "v0", "transitional", "v1", "v2" or "dormant" */
	/*
	 * The locations of the probe's arguments as SystemTap operands, or "". The notes of the
	 * forked compilers have wrong locations for arguments on the stack; `args` has the
	 * corrected locations. The operand is "8@?" if the location is unknown. Unlike in
	 * SystemTap, an operand can read memory several times: 8@24(16(%rsp)).
	 */
	const char *args;
	bool has_code; /* false: the site has no code; addr, va, code and symbol have no meaning */
	uint64_t addr; /* the address of the first byte of the site in the process */
	uint64_t va;   /* the link-time address of the first byte of the site in the ELF file */
	/* the function that contains the site; NULL if unknown or not requested */
	const char *symbol;
	uint64_t symbol_off; /* the offset of the first byte of the site in that function */
	/*
	 * The n_code bytes of the site. Switching changes code[opcode_at]. A site that is not
	 * dormant has 6 bytes: nop (0x90, or 0xcc), opcode (0x3d off, 0xe8 on), displacement.
	 */
	const uint8_t *code;
	uint8_t n_code, opcode_at;
	enum ocp_site_state state;
	const char *fault; /* why the site is damaged; NULL if it is not damaged */
	bool has_int3;	   /* the first byte of the site is a uprobe or breakpoint of a tracer */
	/* the address of the 16-bit counter that OCaml reads; 0: no counter */
	uint64_t semaphore_addr;
	int semaphore; /* the value of that counter; -1 if the linker has dropped the counter */
	/* the address of the counter that tracers raise; 0: no counter */
	uint64_t tracer_semaphore_addr;
	int tracer_semaphore; /* the value of that counter; -1 if the ABI lacks this counter */
	/*
	 * The position of the probe in the source, even if the function around it was inlined
	 * elsewhere: the file as it was given to the compiler, the line, from 1, and the column in
	 * bytes, from 0. NULL, 0 and 0 if the position is uncertain or not requested.
	 */
	const char *source;
	int line, column;
	/* why the locations of some arguments are unknown; NULL: all are known */
	const char *args_fault;
	const char *arg_names; /* the names and types of the arguments: see ocp_arg_name() */
	/*
	 * The site calls a trampoline, which counts the hits inside the process, and runs the
	 * handler if STATE is on. If code[opcode_at] is the opcode for off, another tool has
	 * written this opcode: the trampoline is not called, and hits are not counted.
	 */
	bool has_trampoline;
};

/* Flags of ocp_sites_read(). They can be or-ed with OCP_ATOMICALLY. */
enum {
	OCP_SITES_SYMBOLS = 1 << 8, /* read the symbol tables of the files, for `symbol` */
	/* find the positions of the probes in the source, for `source` */
	OCP_SITES_SOURCE = 1 << 9,
};

/*
 * Read every site of PROC. Sites are sorted by probe, image and address; sites without code come
 * last. The process is stopped only if FLAGS has OCP_ATOMICALLY. Free *OUT with ocp_sites_free()
 * before PROC. If a symbol table or the table of source positions is damaged, a warning is logged
 * and the sites have no symbol or no position.
 */
OCP_API int ocp_sites_read(struct ocp_process *proc, unsigned int flags, struct ocp_sites **out);
OCP_API void ocp_sites_free(struct ocp_sites *sites);
OCP_API size_t ocp_sites_count(const struct ocp_sites *sites);
OCP_API const struct ocp_site *ocp_sites_get(const struct ocp_sites *sites, size_t site);

/*
 * Find the process that traces PROC with ptrace(2). *TRACER is set to the pid of this tracer, or to
 * 0 if there is none. NAME is set to the tracer's name, cut to NAME_BYTES; it is "" if there is no
 * tracer or if the tracer has just ended.
 */
OCP_API int ocp_process_read_tracer(struct ocp_process *proc, pid_t *tracer, char *name,
				    size_t name_bytes);

/* ---- switching handlers ------------------------------------------------------------------- */

/*
 * A list of probes to enable and of probes to disable. ocp_actions_new() returns NULL if memory is
 * short. The actions are carried out in the order in which they were added. Strings are copied.
 *
 * The names are looked up when the actions are applied to a process. The update then fails with
 * -ENOENT if a name does not exist or an expression matches nothing, and with -EINVAL if a probe is
 * both enabled and disabled.
 */
OCP_API struct ocp_actions *ocp_actions_new(struct ocp_ctx *ctx);
OCP_API void ocp_actions_free(struct ocp_actions *actions);

/*
 * Enable or disable the probe NAME. Returns -EINVAL if NAME was already added to ACTIONS, alone or
 * in a pair.
 */
OCP_API int ocp_actions_enable(struct ocp_actions *actions, const char *name);
OCP_API int ocp_actions_disable(struct ocp_actions *actions, const char *name);

/*
 * Enable or disable a pair of probes. START marks the beginning and STOP the end of an operation;
 * their names differ. STOP is on whenever START is on: it is enabled before START and disabled
 * after START, or both are switched in the same stop of the process. So for an operation that
 * begins and ends while the pair is on, both probes are hit. For an operation that is under way
 * when the pair is disabled, only START is hit. For an operation that is under way when the pair is
 * enabled, only STOP is hit. To see the last operations end, disable START alone first, and disable
 * STOP when these operations have ended.
 */
OCP_API int ocp_actions_enable_pair(struct ocp_actions *actions, const char *start,
				    const char *stop);
OCP_API int ocp_actions_disable_pair(struct ocp_actions *actions, const char *start,
				     const char *stop);

/*
 * Enable or disable each probe whose name matches RE, a regular expression in the syntax of OCaml's
 * Str. As with Str.string_match, the match begins at the start of the name and may end anywhere in
 * the name. Returns -EINVAL if RE is invalid. A probe that several actions enable is enabled once,
 * and a probe that several actions disable is disabled once. Probes that are off already are not
 * disabled.
 */
OCP_API int ocp_actions_enable_regexp(struct ocp_actions *actions, const char *re);
OCP_API int ocp_actions_disable_regexp(struct ocp_actions *actions, const char *re);

/*
 * A predicate: returns true if the probe NAME is to be switched. DATA is the pointer that was given
 * to ocp_actions_enable_if() or ocp_actions_disable_if().
 */
typedef bool (*ocp_predicate_fn)(void *data, const char *name);

/*
 * Enable or disable each probe for which FN(DATA, name) is true. It is not an error if FN is true
 * for no probe. FN is called when the actions are applied to a process. It may be called several
 * times for a probe and must return the same value each time. Probes that are off already are not
 * disabled.
 */
OCP_API int ocp_actions_enable_if(struct ocp_actions *actions, ocp_predicate_fn fn, void *data);
OCP_API int ocp_actions_disable_if(struct ocp_actions *actions, ocp_predicate_fn fn, void *data);

/*
 * Enable or disable all probes. Returns -EINVAL if ACTIONS has other actions. Probes that are off
 * already are not disabled.
 */
OCP_API int ocp_actions_enable_all(struct ocp_actions *actions);
OCP_API int ocp_actions_disable_all(struct ocp_actions *actions);

/*
 * Switch the probes of PROC. Semaphores are counters: enable adds 1, disable subtracts 1. A probe
 * is on while its semaphore is above 0. If the linker has dropped the semaphore of a probe, nothing
 * counts how often the probe was enabled: one disable switches the probe off. FLAGS is 0 or any of
 * OCP_ATOMICALLY, OCP_FORCE and OCP_DRY_RUN.
 *
 * The update is done completely or not at all. It is verified before the first byte is written, and
 * a failure undoes what was written. All threads of the process are stopped while bytes are
 * written. A large update needs several stops of a few milliseconds; each probe is switched within
 * one of these stops. With OCP_ATOMICALLY there is only one stop.
 *
 * A journal file records the update and its progress, so that ocp_process_diagnose() and
 * ocp_process_repair() can deal with it if the caller is killed. If the journal file cannot be
 * written, the update is done without a journal, and a message is logged (OCP_LOG_INFO). An update
 * of a single probe, or of the caller's own process, has no journal.
 */
OCP_API int ocp_process_update(struct ocp_process *proc, const struct ocp_actions *actions,
			       unsigned int flags);

/*
 * Start the program PATH as a child process and enable the probes of ACTIONS before its first
 * instruction runs. ARGV ends with NULL; ARGV[0] is the program's name by convention. Actions that
 * disable are ignored: the other probes start as they were compiled. ACTIONS may be NULL. The child
 * inherits the environment and the open files. On success the child is running and *PID is its pid;
 * the caller must wait(2) for it. On failure no child is left.
 */
OCP_API int ocp_trace(struct ocp_ctx *ctx, const char *path, char *const argv[],
		      const struct ocp_actions *actions, pid_t *pid);

/*
 * Like ocp_trace(), but the program is held, as by ocp_process_spawn(). A meter that is attached
 * before ocp_process_release() measures from the first instruction on.
 */
OCP_API int ocp_trace_held(struct ocp_ctx *ctx, const char *path, char *const argv[],
			   const struct ocp_actions *actions, struct ocp_process **out);

/* ---- finding and repairing inconsistencies -------------------------------------------------- */

enum ocp_finding_kind {
	OCP_SITES_ON,	  /* sites are on, but every semaphore of the probe is 0 */
	OCP_SITES_OFF,	  /* sites are off, but a semaphore of the probe is not 0 */
	OCP_OUT_OF_STEP,  /* the semaphores of the probe have different values */
	OCP_DAMAGED_SITE, /* the bytes of a site are neither those for on nor those for off */
	/* the semaphore for tracers is raised, but no tracer is on the sites */
	OCP_TRACER_SEMAPHORE,
	OCP_LEFT_SWITCHED, /* a tool was killed after an update that it should have undone later */
	OCP_HELD_SITES, /* a tracer has uprobes or breakpoints on sites; this is no inconsistency */
	OCP_NO_SEMAPHORE,   /* the linker has dropped the semaphore; this is no inconsistency */
	OCP_INTERRUPTED,    /* a tool was killed in the middle of an update */
	OCP_COUNTED_INSIDE, /* sites call trampolines; this is no inconsistency */
	/* another tool has changed sites so that they no longer call their trampolines */
	OCP_UNCOUNTED,
};

/* A finding of ocp_process_diagnose(). Later versions may add members at the end. */
struct ocp_finding {
	enum ocp_finding_kind kind;
	const char *name; /* the name of the kind for use by programs, for example "sites-on" */
	/* the name of the probe; NULL if the finding is about the whole process */
	const char *probe;
	char *what;	      /* a description with numbers and addresses */
	const char *cause;    /* the likely cause, and the remedy if repairing does not help */
	bool is_disagreement; /* true: an inconsistency; false: only information */
	bool is_repairable;   /* ocp_process_repair() can correct the inconsistency */
};

/*
 * Find the inconsistencies between the sites, semaphores and journals of PROC, sorted by probe. The
 * process is not stopped. If there are inconsistencies, the function reads again until nothing
 * changes, for up to a second, so that an update in progress is not reported. Free *OUT with
 * ocp_findings_free().
 */
OCP_API int ocp_process_diagnose(struct ocp_process *proc, struct ocp_findings **out);
OCP_API void ocp_findings_free(struct ocp_findings *findings);
OCP_API size_t ocp_findings_count(const struct ocp_findings *findings);
OCP_API const struct ocp_finding *ocp_findings_get(const struct ocp_findings *findings,
						   size_t finding);

/* The result of a repair. */
struct ocp_repaired {
	size_t probes;		    /* probes that were changed */
	size_t sites_on, sites_off; /* sites that were switched on, and off */
	size_t semaphores;	    /* semaphores that were set */
	size_t undone;		    /* actions of killed tools that were undone */
	size_t completed;	    /* actions of killed tools that were completed */
};

/* Flags of ocp_process_repair(). */
enum {
	OCP_COMPLETE = 1 << 5, /* complete interrupted updates instead of undoing them */
};

/*
 * Repair all repairable inconsistencies during one stop of the process, completely or not at all.
 * First set the semaphores: if a tool was killed before it undid its update, undo this update; if a
 * tool was killed during its update, undo the update, or complete it if FLAGS has OCP_COMPLETE.
 * Then switch the sites of each probe according to the semaphores that OCaml reads:
 *
 *	a semaphore is not 0     all sites on, all semaphores of the probe set to the highest value
 *	all semaphores are 0     all sites off
 *	no semaphore             all sites off if some are on and others are off
 *
 * Probes with a damaged site are not changed. The semaphores of tracers are never written, because
 * the kernel relies on them while a uprobe may be attached.
 */
OCP_API int ocp_process_repair(struct ocp_process *proc, unsigned int flags,
			       struct ocp_repaired *repaired);

/*
 * Like ocp_process_update(), but also set *UNDO to an object that can undo the update. The journal
 * file keeps its record of the update until the update is undone, so that `ocaml-probes doctor
 * --fix` can undo the update if the caller is killed. Free *UNDO with ocp_undo_free() before PROC.
 */
OCP_API int ocp_process_update_undoable(struct ocp_process *proc, const struct ocp_actions *actions,
					unsigned int flags, struct ocp_undo **undo);

/*
 * Undo the update that made UNDO. Probes get back the state they had before the update. There is an
 * exception if another tool has since switched a probe of the update: for this probe, and for the
 * probes that were switched in the same stop, this function disables what the update enabled, and
 * enables what the update disabled, and the changes of the other tool stay in effect. Does nothing
 * if the process has ended or has executed another program. Call this function at most once.
 */
OCP_API int ocp_undo_run(struct ocp_undo *undo);

/* Free UNDO. If ocp_undo_run() was not called, the update stays in effect. Accepts NULL. */
OCP_API void ocp_undo_free(struct ocp_undo *undo);

#ifdef __cplusplus
}
#endif

#include "ocaml_probes_measure.h"

#endif /* OCAML_PROBES_H */
