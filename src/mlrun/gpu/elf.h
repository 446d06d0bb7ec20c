/* Reads a shared library's names, needs and versions. The bytes are not trusted. */
#pragma once

#include "base/base.h"
#include "gpu/version.h"

struct gpu_elf {
	int bits;                   /* 64 or 32 */
	int machine;                /* EM_X86_64 and so on, elf(5) */
	char *soname;               /* DT_SONAME or NULL */
	struct strv needed;         /* DT_NEEDED */
	char *runpath;              /* DT_RUNPATH, else DT_RPATH; or NULL */
	struct gpu_version glibc;   /* newest GLIBC_x.y needed (.gnu.version_r); zero: none */
	struct gpu_version defines; /* newest GLIBC_x.y defined (.gnu.version_d), by a libc */
};

void gpu_elf_done(struct gpu_elf *e);

/*
 * Read what the dynamic linker reads: the program headers and the data that PT_DYNAMIC points to.
 * fd stays open.
 *
 * Returns 0; -ENOEXEC for a file that is broken, or not ELF in this machine's byte order.
 */
int gpu_elf_read(int fd, struct gpu_elf *ret);

/*
 * Get the description of the first note in a section.
 *
 *   section  ".note.cuda.fwd_compatibility"
 *   owner    "NVIDIA Corporation"
 *   max      longest description accepted, in bytes
 *
 * Returns 0 and the description with a NUL added, to free(); -ENOENT without such a note; -ENOEXEC
 * for a broken file or a longer description.
 */
int gpu_elf_note(int fd, const char *section, const char *owner, size_t max, char **ret);
