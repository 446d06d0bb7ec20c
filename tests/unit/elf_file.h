/*
 * Shared libraries made for tests: nothing to run, but all that is said of itself by a library.
 */
#ifndef MLR_TESTS_ELF_FILE_H
#define MLR_TESTS_ELF_FILE_H

struct elf_file {
	int bits;    /* 64 or 32; 0: 64 */
	int machine; /* EM_…; 0: this one's */
	const char *soname;
	const char *const *needed;   /* ends with NULL */
	const char *const *versions; /* "GLIBC_2.17" … of libc.so.6; ends with NULL */
	const char *const *defines;  /* the same, its own */
	const char *note_section, *note_owner, *note; /* one note more */
};

/* Write it to a path; fails the test where that cannot be. */
void elf_file_write(const char *path, const struct elf_file *f);

#endif
