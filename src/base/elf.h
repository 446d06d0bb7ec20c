/* Parses the start of an ELF file (elf(5)). */
#ifndef MLR_BASE_ELF_H
#define MLR_BASE_ELF_H

#include <limits.h>
#include <stddef.h>

#define ELF_HEAD 4096 /* bytes that suffice for usual programs */

/*
 * The loader that a 64-bit program names (PT_INTERP), if it has this machine's byte order.
 *
 *   data  its first bytes; may be anything
 *
 * Returns 1 with the path, or 0 if there is none.
 */
int elf_interpreter(const void *data, size_t size, char ret[PATH_MAX]);

#endif
