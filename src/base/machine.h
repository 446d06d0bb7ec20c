/* Machine architectures, as in ELF headers (elf(5)), image platforms and uname(2). */
#ifndef MLR_BASE_MACHINE_H
#define MLR_BASE_MACHINE_H

#include <stddef.h>

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

#endif
