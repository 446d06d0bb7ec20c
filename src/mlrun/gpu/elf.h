/* What a shared library says of itself, read with libelf. Its bytes may be anything. */
#ifndef MLR_GPU_ELF_H
#define MLR_GPU_ELF_H

#include "base/strv.h"
#include "gpu/version.h"

#include <stddef.h>

struct gpu_elf {
	int bits;           /* 64 or 32 */
	int machine;        /* EM_X86_64 and so on, elf(5) */
	char *soname;       /* DT_SONAME or NULL */
	struct strv needed; /* DT_NEEDED */
	struct gpu_version
		glibc; /* the newest GLIBC_x.y that it needs (.gnu.version_r); zero: none */
	struct gpu_version
		defines; /* the newest GLIBC_x.y that it defines (.gnu.version_d): a libc's own */
};

#define GPU_ELF_INIT \
	{            \
		0    \
	}

void gpu_elf_done(struct gpu_elf *e);

/*
 * Read what the linker would read: the program headers and what PT_DYNAMIC leads to. Returns 0;
 * -ENOEXEC for what is no ELF file of this machine's byte order, or a broken one. fd stays open.
 */
int gpu_elf_read(int fd, struct gpu_elf *ret);

/*
 * The description of the first note in a section.
 *
 *   section  ".note.cuda.fwd_compatibility"
 *   owner    "NVIDIA Corporation"
 *   max      bytes that the description may have
 *
 * Returns 0 and a text with a NUL after its last byte, to free(); -ENOENT when there is none;
 * -ENOEXEC, also for a longer one.
 */
int gpu_elf_note(int fd, const char *section, const char *owner, size_t max, char **ret);

#endif
