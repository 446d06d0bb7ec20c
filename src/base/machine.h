/* Machine architectures, as in ELF headers (elf(5)), image platforms and uname(2). */
#pragma once

#include <stddef.h>
#include <limits.h>

#define MACHINE_ELF_HEAD 20 /* bytes of an ELF file that identify its machine */

struct machine {
	const char *arch; /* as in "linux/arm64" */
	int elf;          /* EM_… */
	int bits;         /* 32, 64 */
	int big;          /* big-endian */
};

/* Find a machine by a platform's architecture ("amd64") or a program's first bytes; NULL if
 * unknown. */
const struct machine *machine_of_arch(const char *arch);
const struct machine *machine_of_elf(const unsigned char *head, size_t len);

/* Do these processors, as uname(2) names them, execute the machine's programs natively? A 64-bit
 * x86 runs 386; most 64-bit ARMs run arm. */
int machine_runs(const char *processors, const struct machine *m);

/* Does this machine execute them natively? */
int machine_is_native(const struct machine *m);

/* The processors that this process may use. */

/* How many: those of its affinity mask, which a batch job sets; at least 1. */
size_t processors_count(void);

/* Parses the start of an ELF file (elf(5)). */

#define ELF_HEAD 4096 /* bytes that suffice for usual programs */

/*
 * The loader that a 64-bit program names (PT_INTERP), if it has this machine's byte order.
 *
 *   data  its first bytes; may be anything
 *
 * Returns 1 with the path, or 0 if there is none.
 */
int elf_interpreter(const void *data, size_t size, char ret[PATH_MAX]);
