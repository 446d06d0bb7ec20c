/*
 * What an ELF file's first bytes say (elf(5)).
 */
#ifndef MLR_BASE_ELF_H
#define MLR_BASE_ELF_H

#include <limits.h>
#include <stddef.h>

#define ELF_HEAD 4096 /* bytes that hold what is asked here in every usual program */

/*
 * The loader that a 64-bit program of this machine's byte order names (PT_INTERP).
 *
 *   data  its first bytes; may be anything
 *
 * Returns 1 with the path, 0 when there is none.
 */
int elf_interpreter(const void *data, size_t size, char ret[PATH_MAX]);

#endif
