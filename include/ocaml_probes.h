/* SPDX-License-Identifier: MIT */
/*
 * ocaml_probes.h - find, toggle and count the probes of native OCaml programs (Linux, x86-64)
 *
 * An executable's notes (.note.stapsdt) name its probes and say where their sites and semaphores
 * are. The objects follow the way from there to a running process:
 *
 *	ocp_ctx       what all objects share: the last error's sentence, the log callback
 *	ocp_program   the probes of one ELF file, no process needed
 *	ocp_process   the probes of one live process: its executable and every ELF file it maps
 *	ocp_actions   what is to be switched
 *	ocp_meter     what is measured of probes in any number of processes, by the kernel (eBPF)
 *	ocp_sample    what a meter had measured at one moment
 *
 * Errors. Functions return 0, or a negative errno value; ocp_error() then holds one full sentence
 * ("OPERAND: WHY") and ocp_hint() what to do about it, if that is known. The codes mean:
 *
 *	-EINVAL      an argument or a combination of actions makes no sense
 *	-ENOENT      no such file, or no probe of that name
 *	-ESRCH       no such process, or it ended meanwhile
 *	-EPERM       a privilege is missing (the sentence names it)
 *	-EBUSY       the process is being traced by somebody else
 *	-EOPNOTSUPP  the kernel (or its configuration) lacks something that counting needs
 *	-ENOEXEC     not an ELF file of this machine
 *	-EBADMSG     a damaged ELF file, or notes that lie
 *	-EILSEQ      the process's code is not what its notes say; nothing was written
 *	-ERANGE      a semaphore would overflow, or is zero already
 *	-EOVERFLOW   the process's code lies on 1 GiB pages and that was not allowed
 *	-ETIMEDOUT   a thread of the process did not stop in time; nothing was written
 *	-ENOMEM ...  any other errno of a failing system call
 *
 * Ownership. Every object is freed by its own _free (which takes NULL). An object must not outlive
 * the ctx it was made from, a meter not its processes. Returned strings belong to the object.
 *
 * Threads. A ctx and the objects made from it belong to one thread at a time; different ctx objects
 * are independent. ptrace ties a stopped process to the thread that stopped it; every function here
 * that stops a process lets it go before it returns.
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
	OCP_LOG_WARN,  /* the user should know: something was done differently than asked */
	OCP_LOG_INFO,  /* what is being done, a line a step */
	OCP_LOG_DEBUG, /* details for whoever hunts a fault */
};

/*
 * LINE has no newline at its end and is valid during the call only. The call may come from a thread
 * of the library's own, while the caller's waits for it.
 */
typedef void (*ocp_log_fn)(void *data, enum ocp_log_level level, const char *line);

/* A new ctx that logs nothing; NULL when memory is short (errno is set). */
OCP_API struct ocp_ctx *ocp_ctx_new(void);
OCP_API void ocp_ctx_free(struct ocp_ctx *ctx);

/* Call FN(DATA, ...) for every message up to and including LEVEL. FN NULL turns logging off. */
OCP_API void ocp_ctx_set_log(struct ocp_ctx *ctx, ocp_log_fn fn, void *data,
			     enum ocp_log_level level);

/* The sentence of the last error in this ctx ("" before the first one). */
OCP_API const char *ocp_error(const struct ocp_ctx *ctx);
/* What the user can do about that error, or NULL. */
OCP_API const char *ocp_hint(const struct ocp_ctx *ctx);

/*
 * Allow writing to code that is mapped on 1 GiB pages: the kernel copies the whole page for the
 * first byte. Not allowed by default: such an update fails with -EOVERFLOW before anything is
 * written.
 */
OCP_API void ocp_ctx_allow_gigatext(struct ocp_ctx *ctx, bool allow);

/* The library's version, e.g. "0.1.0". */
OCP_API const char *ocp_version(void);

/* ---- the probes of a file ----------------------------------------------------------------- */

/*
 * Read the probes of the ELF file PATH. Only its headers and its notes are read. A file without
 * OCaml probes is no error: it has 0 of them.
 */
OCP_API int ocp_program_open(struct ocp_ctx *ctx, const char *path, struct ocp_program **out);
OCP_API void ocp_program_free(struct ocp_program *prog);

/* Probes are numbered from 0 in the order of their names (strcmp). */
OCP_API size_t ocp_program_probe_count(const struct ocp_program *prog);
OCP_API const char *ocp_program_probe_name(const struct ocp_program *prog, size_t probe);
/* Sites of one probe; 0 when the compiler optimised them all away (a semaphore-only probe). */
OCP_API size_t ocp_program_probe_sites(const struct ocp_program *prog, size_t probe);

/* ---- the probes of a live process --------------------------------------------------------- */

/*
 * Look at process PID: find the ELF files it has mapped, read their notes, and locate every site
 * and semaphore in its memory. The process is not stopped. Needs the right to ptrace PID (same
 * user, or CAP_SYS_PTRACE). What it maps later (plugins) is seen by opening it again.
 *
 * PID may be the caller's own: then nothing is stopped by an update; bytes are switched one by one
 * while other threads may run through the sites, each of which is on or off at any moment.
 */
OCP_API int ocp_process_open(struct ocp_ctx *ctx, pid_t pid, struct ocp_process **out);
OCP_API void ocp_process_free(struct ocp_process *proc);

/*
 * The processes that run the file PATH, which is that file and not another one of its name. *PIDS,
 * N of them in ascending order, is freed by the caller with free(). Processes that may not be
 * inspected are left out, with a warning if their name suggests that they run it. -ESRCH if there
 * are none.
 */
OCP_API int ocp_find_processes(struct ocp_ctx *ctx, const char *path, pid_t **pids, size_t *n);

OCP_API pid_t ocp_process_pid(const struct ocp_process *proc);
/*
 * A process whose first thread has ended is opened by the id of another of its threads. This is its
 * own id then, by which the kernel knows it (pidfd_open(2), a sample's pid); else the same.
 */
OCP_API pid_t ocp_process_tgid(const struct ocp_process *proc);
/* The executable's path as the process sees it (" (deleted)" is kept if the kernel says so). */
OCP_API const char *ocp_process_exe(const struct ocp_process *proc);
/*
 * The ids of the container that it is in and of that container's pod (Kubernetes' UID of it, or
 * podman's id), by the names of its cgroups; NULL: they name none.
 */
OCP_API const char *ocp_process_container(const struct ocp_process *proc);
OCP_API const char *ocp_process_pod(const struct ocp_process *proc);
/* Its id in its own pid namespace, which a container mostly has. */
OCP_API pid_t ocp_process_ns_pid(const struct ocp_process *proc);

/* The probes of all its files, numbered as those of a program. */
OCP_API size_t ocp_process_probe_count(const struct ocp_process *proc);
OCP_API const char *ocp_process_probe_name(const struct ocp_process *proc, size_t probe);
OCP_API size_t ocp_process_probe_sites(const struct ocp_process *proc, size_t probe);

enum ocp_state {
	OCP_DISABLED,
	OCP_ENABLED,
	OCP_MIXED, /* sites and semaphores of the probe disagree */
};

/* What reading and updating do differently when asked to; may be or-ed. */
enum {
	/* Under one stop of the process, so that it sees all of it at once or none. */
	OCP_ATOMICALLY = 1 << 0,
	/* Update: set state and counter outright, to 1 or to 0, whatever they were. */
	OCP_FORCE = 1 << 1,
	/* Update: verify everything and stop short of stopping the process and writing. */
	OCP_DRY_RUN = 1 << 2,
};

/*
 * Read the state of every probe, from the bytes of its sites and its semaphores together. The
 * process is not stopped unless FLAGS has OCP_ATOMICALLY. STATES has room for
 * ocp_process_probe_count() entries.
 */
OCP_API int ocp_process_read_states(struct ocp_process *proc, unsigned int flags,
				    enum ocp_state *states);

/*
 * Stop all threads of PROC and keep them stopped until ocp_process_release: what is read and
 * updated meanwhile happens at one moment for the process. If the caller dies, the process runs on.
 */
OCP_API int ocp_process_hold(struct ocp_process *proc);

/*
 * Start the program PATH with ARGV (NULL-terminated, ARGV[0] by custom its name) as a child that is
 * held before any of its code runs, constructors of its shared libraries included; the probes of
 * both can be switched. If the caller dies before the release, it is killed. A program without
 * probes may be started so as well.
 */
OCP_API int ocp_process_spawn(struct ocp_ctx *ctx, const char *path, char *const argv[],
			      struct ocp_process **out);

/* Let a held process go on. */
OCP_API void ocp_process_release(struct ocp_process *proc);

/* What ocp_process_restrict does differently when asked to. */
enum {
	OCP_NO_COPIES = 1 << 4, /* only the very file PROG was read from will do */
};

/*
 * Leave of PROC's images those of PROG alone: the probes of other files, and what they have of the
 * same names, are as if they did not exist. An image is PROG's if it is of that file, under
 * whatever name and even when it was deleted since; if none is, also one of a copy, which is a file
 * with the same probes at the same addresses. -ESRCH if there is none of either. To be called
 * before anything is made from PROC.
 */
OCP_API int ocp_process_restrict(struct ocp_process *proc, const struct ocp_program *prog,
				 unsigned int flags);

/* ---- the processes of the machine ---------------------------------------------------------- */

/* What a scan could not look into. Later versions may add members at the end. */
struct ocp_scan_summary {
	size_t denied; /* processes that we may not look at */
	size_t failed; /* that could not be read for other reasons, each said in the log */
};

/* PROC is valid during the call only. Another value than 0 ends the scan, which returns it. */
typedef int (*ocp_scan_fn)(void *data, struct ocp_process *proc);

/*
 * Call FN(DATA, ...) for every process that has OCaml probes and that we may look at, except this
 * one, by pid. None is stopped. Kernel threads, zombies, and what ends meanwhile, are passed by.
 */
OCP_API int ocp_scan(struct ocp_ctx *ctx, ocp_scan_fn fn, void *data,
		     struct ocp_scan_summary *summary);

/* ---- the sites of a live process ---------------------------------------------------------- */

enum ocp_site_state {
	OCP_SITE_OFF,
	OCP_SITE_ON,
	OCP_SITE_ABSENT,  /* optimised away: the program asks the semaphore instead */
	OCP_SITE_DAMAGED, /* its bytes are neither form: see fault */
};

/*
 * One note's site. A program that was built with probes but not post-linked has no notes: its
 * sites, of abi "dormant", are found in its code, and are a load, a comparison and the conditional
 * jump that is switched. Later versions may add members at the end.
 */
struct ocp_site {
	size_t probe;	    /* its number in the process */
	const char *image;  /* path of the ELF file, as the process sees it */
	size_t image_index; /* tells images of one path apart */
	const char *abi;    /* "v0", "transitional", "v1", "v2", or "dormant": see below */
	/*
	 * Where the probe's arguments are: SystemTap operands, or "". The notes of the forked
	 * compilers place arguments on the stack wrongly; these are corrected here, and the operand
	 * is "8@?" where the place is not known.
	 */
	const char *args;
	bool has_code;	     /* false: addr, va, code and symbol mean nothing */
	uint64_t addr;	     /* of its first byte in the process */
	uint64_t va;	     /* the same, as linked */
	const char *symbol;  /* the function it is in; NULL if unknown, or not asked for */
	uint64_t symbol_off; /* of the first byte in that function */
	/*
	 * n_code bytes, of which code[opcode_at] is the one that is switched. A site of the ABI has
	 * 6: nop (0x90, or 0xcc), opcode (0x3d off, 0xe8 on), displacement.
	 */
	const uint8_t *code;
	uint8_t n_code, opcode_at;
	enum ocp_site_state state;
	const char *fault;		/* of a damaged site, else NULL */
	bool has_int3;			/* somebody's uprobe or breakpoint is on its first byte */
	uint64_t semaphore_addr;	/* of the 16-bit counter that OCaml reads; 0: see below */
	int semaphore;			/* -1: the linker has dropped it */
	uint64_t tracer_semaphore_addr; /* of the one that tracers raise; 0: this ABI has none */
	int tracer_semaphore;		/* -1: this ABI has none */
	/*
	 * Where the probe stands in the source, also if it was inlined: its file, as the compiler
	 * was given it, its line, from 1, and column, from 0, in bytes. NULL, 0 and 0 if that is
	 * not known for certain, or not asked for.
	 */
	const char *source;
	int line, column;
	const char *args_fault; /* why places of arguments are not known; NULL: all are */
};

/* What reading the sites does beside; may be or-ed with OCP_ATOMICALLY. */
enum {
	OCP_SITES_SYMBOLS = 1 << 8, /* also read the files' symbol tables */
	OCP_SITES_SOURCE = 1 << 9,  /* also find out where the probes stand in the source */
};

/*
 * Read every site of PROC as it is now: by probe, then by image and address, sites without code
 * last. The process is not stopped unless FLAGS has OCP_ATOMICALLY. *OUT must not outlive PROC. A
 * damaged symbol table is a warning in the log, and its sites have no symbol; likewise the table of
 * the probes' places.
 */
OCP_API int ocp_sites_read(struct ocp_process *proc, unsigned int flags, struct ocp_sites **out);
OCP_API void ocp_sites_free(struct ocp_sites *sites);
OCP_API size_t ocp_sites_count(const struct ocp_sites *sites);
OCP_API const struct ocp_site *ocp_sites_get(const struct ocp_sites *sites, size_t site);

/*
 * Who traces the process (ptrace): its pid in *TRACER, 0 for nobody, and its name in NAME, cut to
 * NAME_BYTES; "" if nobody, or if that ended just now.
 */
OCP_API int ocp_process_read_tracer(struct ocp_process *proc, pid_t *tracer, char *name,
				    size_t name_bytes);

/* ---- switching handlers ------------------------------------------------------------------- */

OCP_API struct ocp_actions *ocp_actions_new(struct ocp_ctx *ctx);
OCP_API void ocp_actions_free(struct ocp_actions *actions);

/*
 * Actions are a list of probes to enable and probes to disable, or all of either; "all" stands
 * alone
 * (-EINVAL). They are carried out in the order in which they were added. Strings are copied. A
 * probe in both directions is an error (-EINVAL); which probes there are is seen, and that names
 * exist and expressions match something is checked (-ENOENT), when the actions meet a process.
 */

/* One probe by NAME. -EINVAL when it was named already, also as a part of a pair. */
OCP_API int ocp_actions_enable(struct ocp_actions *actions, const char *name);
OCP_API int ocp_actions_disable(struct ocp_actions *actions, const char *name);

/*
 * Two probes with different names, of which START begins something that STOP ends. The stop is
 * enabled before the start and disabled after it: nothing begins that is not seen to end.
 */
OCP_API int ocp_actions_enable_pair(struct ocp_actions *actions, const char *start,
				    const char *stop);
OCP_API int ocp_actions_disable_pair(struct ocp_actions *actions, const char *start,
				     const char *stop);

/*
 * Every probe whose name matches RE, a regular expression in the syntax of OCaml's Str, from its
 * start on; as with Str.string_match the match need not reach the name's end. -EINVAL when RE is
 * wrong. A probe that several actions of one direction choose is switched once. Disabling leaves
 * alone what is off.
 */
OCP_API int ocp_actions_enable_regexp(struct ocp_actions *actions, const char *re);
OCP_API int ocp_actions_disable_regexp(struct ocp_actions *actions, const char *re);

/* Should the probe called NAME be switched? DATA is what was given with the function. */
typedef bool (*ocp_predicate_fn)(void *data, const char *name);

/*
 * Every probe for which FN(DATA, name) is true, which may be none. FN is called when the actions
 * meet a process, perhaps more than once a probe, and should always say the same of one name.
 * Disabling leaves alone what is off.
 */
OCP_API int ocp_actions_enable_if(struct ocp_actions *actions, ocp_predicate_fn fn, void *data);
OCP_API int ocp_actions_disable_if(struct ocp_actions *actions, ocp_predicate_fn fn, void *data);

/* All probes. -EINVAL when anything was asked for already. Disabling leaves alone what is off. */
OCP_API int ocp_actions_enable_all(struct ocp_actions *actions);
OCP_API int ocp_actions_disable_all(struct ocp_actions *actions);

/*
 * Switch the probes of PROC. Semaphores are counters: enable adds 1, disable subtracts 1, and a
 * probe's code is on while its counter is above 0. A probe whose semaphore the linker has dropped
 * counts nothing: enabling it when it is on changes nothing, and one disable switches it off.
 * FLAGS: 0, OCP_ATOMICALLY, OCP_FORCE, OCP_DRY_RUN.
 *
 * Everything is verified before the first byte is written and a failure on the way undoes what was
 * written: all or nothing. All threads are stopped while bytes are written; a large update is done
 * in several stops of a few milliseconds, each probe within one, unless OCP_ATOMICALLY asks for one
 * stop.
 *
 * While an update of another process is carried out, a journal file says what it is to do and how
 * far it has got: should the caller be killed, ocp_process_diagnose and ocp_process_repair know. If
 * the file cannot be written, the update is carried out without it and the log says so
 * (OCP_LOG_INFO). An update of one probe needs none, nor does the caller's own process.
 */
OCP_API int ocp_process_update(struct ocp_process *proc, const struct ocp_actions *actions,
			       unsigned int flags);

/*
 * Start the program PATH with ARGV (ARGV[0] by custom its name, NULL-terminated), with the probes
 * of ACTIONS enabled before the first instruction of the program runs; disable actions are
 * ignored (all probes start as they were compiled). ACTIONS may be NULL. The program inherits
 * everything else; when the function returns it is running, a child of the caller, and *PID is set
 * (the caller waits for it if it wants its status). On error no program was started.
 */
OCP_API int ocp_trace(struct ocp_ctx *ctx, const char *path, char *const argv[],
		      const struct ocp_actions *actions, pid_t *pid);

/*
 * The same, but the program is still held, as by ocp_process_spawn: time to attach a meter, which
 * then measures from the first instruction on.
 */
OCP_API int ocp_trace_held(struct ocp_ctx *ctx, const char *path, char *const argv[],
			   const struct ocp_actions *actions, struct ocp_process **out);

/* ---- looking for disagreements, and repairing them ----------------------------------------- */

enum ocp_finding_kind {
	OCP_SITES_ON,	      /* sites are on while every semaphore of the probe is 0 */
	OCP_SITES_OFF,	      /* sites are off while a semaphore is not 0 */
	OCP_OUT_OF_STEP,      /* the probe's semaphores differ */
	OCP_DAMAGED_SITE,     /* a site's bytes are neither of its forms */
	OCP_TRACER_SEMAPHORE, /* the tracers' semaphore is raised, but nobody is on the sites */
	OCP_LEFT_SWITCHED,    /* by a tool that was killed before it undid it */
	OCP_HELD_SITES,	      /* no disagreement: somebody's uprobes or breakpoints */
	OCP_NO_SEMAPHORE,     /* no disagreement: the linker has dropped the probe's semaphore */
	OCP_INTERRUPTED,      /* an update that a tool was killed in the middle of */
};

/* Later versions may add members at the end. */
struct ocp_finding {
	enum ocp_finding_kind kind;
	const char *name;  /* of the kind, for machines, e.g. "sites-on" */
	const char *probe; /* its name; NULL: it concerns the whole process */
	char *what;	   /* what disagrees, with numbers and addresses */
	const char *cause; /* its likely cause, and what clears it if repairing does not */
	bool is_disagreement;
	bool is_repairable; /* ocp_process_repair sets it right */
};

/*
 * Look for every disagreement between the sites, semaphores and records of PROC, by probe, without
 * stopping the process. When there are some it looks again until nothing changes any more, so that
 * what another tool is in the middle of is not reported (up to a second).
 */
OCP_API int ocp_process_diagnose(struct ocp_process *proc, struct ocp_findings **out);
OCP_API void ocp_findings_free(struct ocp_findings *findings);
OCP_API size_t ocp_findings_count(const struct ocp_findings *findings);
OCP_API const struct ocp_finding *ocp_findings_get(const struct ocp_findings *findings,
						   size_t finding);

/* What a repair did. */
struct ocp_repaired {
	size_t probes;		    /* that anything was written for */
	size_t sites_on, sites_off; /* switched on, off */
	size_t semaphores;	    /* set */
	size_t undone;		    /* actions of killed tools that were undone */
	size_t completed;	    /* and that were carried out in their place */
};

/* What ocp_process_repair does differently when asked to. */
enum {
	OCP_COMPLETE = 1 << 5, /* complete the updates that were interrupted, instead of undoing */
};

/*
 * Set right what is repairable, under one stop, all or nothing. OCaml's semaphores are the truth: a
 * probe of which one is not 0 gets all its sites on and all its semaphores raised to the highest;
 * of any other probe all sites are switched off. So are those of a probe without a semaphore, if
 * its sites disagree. Before that, what a killed tool had promised to undo is undone in the
 * counters, and so is an update that it was in the middle of; with OCP_COMPLETE in FLAGS such an
 * update is completed instead. A probe with a damaged site is left alone, and the semaphores of
 * tracers are never written: while a uprobe may be on, the kernel relies on them.
 */
OCP_API int ocp_process_repair(struct ocp_process *proc, unsigned int flags,
			       struct ocp_repaired *repaired);

/*
 * As ocp_process_update, and *UNDO knows how to take it back. What is to be taken back stays in the
 * journal file until then, so that `ocaml-probes doctor --fix` finds it should the caller be
 * killed. UNDO must not outlive PROC.
 */
OCP_API int ocp_process_update_undoable(struct ocp_process *proc, const struct ocp_actions *actions,
					unsigned int flags, struct ocp_undo **undo);

/*
 * Take the update back: a probe that nobody has switched since is again exactly as it was; for one
 * that somebody has, the opposite is done and their change stays. A process that has ended or runs
 * another program needs nothing. To be called once.
 */
OCP_API int ocp_undo_run(struct ocp_undo *undo);

/* Frees UNDO without running it; then the update stays. Takes NULL. */
OCP_API void ocp_undo_free(struct ocp_undo *undo);

#ifdef __cplusplus
}
#endif

#include "ocaml_probes_measure.h"

#endif /* OCAML_PROBES_H */
