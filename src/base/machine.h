/*
 * Machines that programs are made for, as ELF headers (elf(5)), image platforms and uname(2) call
 * them.
 */
#ifndef MLR_BASE_MACHINE_H
#define MLR_BASE_MACHINE_H

#include <stddef.h>

#define MACHINE_ELF_HEAD 20 /* bytes of an ELF file that tell its machine */

struct machine {
	const char *arch; /* as in "linux/arm64" */
	int elf;          /* EM_… */
	int bits;         /* 32, 64 */
	int big;          /* big-endian */
};

/* The machine of a platform's architecture ("amd64"), or of a program's first bytes; NULL for one
 * that is not known here. */
const struct machine *machine_of_arch(const char *arch);
const struct machine *machine_of_elf(const unsigned char *head, size_t len);

/* Does a machine execute it natively, going by what uname(2) calls that machine's processors? A
 * 64-bit x86 runs 386, a 64-bit ARM mostly arm. */
int machine_runs(const char *processors, const struct machine *m);

/* Does the machine that this runs on? */
int machine_is_native(const struct machine *m);

#endif
