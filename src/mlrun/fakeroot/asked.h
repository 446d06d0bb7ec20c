/*
 * A system call that a process of a fake root waits in, and what its arguments mean. The process is
 * untrusted: each argument is read once, and a file is looked up beneath the process's own root
 * directory. For this
 * room's other files.
 */
#pragma once

#include "fakeroot/calls.h"

struct seccomp_data;
struct asked;

/* How to reach the process. */
struct asked_reach {
	/* Copy memory from or to it. Return the bytes that were copied, or -errno. */
	ssize_t (*read)(const struct asked *a, uint64_t at, void *buf, size_t len);
	ssize_t (*write)(const struct asked *a, uint64_t at, const void *buf, size_t len);
	/* Does it still wait? If not, its number may be another's by now. */
	int (*waits)(const struct asked *a);
	/* Give it a descriptor. Returns its number there, or -errno; there is no way before Linux
	 * 5.9. */
	int (*give)(const struct asked *a, int fd, int cloexec);
	void *ctx;
};

struct asked {
	const struct asked_reach *reach;
	const struct seccomp_data *data;
	uint64_t id; /* of the notification */
	enum fakeroot_call what;
	pid_t pid; /* the calling thread */
	int pass;  /* let the kernel do it */
};

/* Let the kernel answer. Returns 0. */
int asked_pass(struct asked *a);

uint64_t asked_arg(const struct asked *a, int i);

/* An id; -1 means "not changed". */
uint32_t asked_id(const struct asked *a, int i);

/* Does it still wait? To be asked between the look at its files and a change. */
int asked_waits(const struct asked *a);

/* Read or write memory of the process: all of it, or -EFAULT. */
int asked_read(const struct asked *a, uint64_t at, void *buf, size_t len);
int asked_write(const struct asked *a, uint64_t at, const void *buf, size_t len);

/* Read a string. Returns 0, -EFAULT, or -ENAMETOOLONG if it has no end within size. */
int asked_text(const struct asked *a, uint64_t at, char *buf, size_t size);

/* Read the path that the call names. Returns 1; 0 if it names none, or cannot be read. */
int asked_path(const struct asked *a, int *dirfd, char path[PATH_MAX]);

/* Open the file that the call names: as O_PATH, or as the process has it open. To be closed before
 * the answer, as files may do things when the last descriptor is closed. Returns the descriptor or
 * -errno. */
int asked_file(const struct asked *a);

/* Open a path as the process would: as O_PATH, in dirfd if it is relative. */
int asked_open(const struct asked *a, int dirfd, const char *path, int follow);

/* Split a path into the directory, opened as the process would, and the last name without slashes
 * at its end, which lies in path. Returns the descriptor or -errno. */
int asked_parent(const struct asked *a, int dirfd, char *path, const char **name);

/* Read a number of status(5) in proc(5), such as "\nUmask:". -1: the thread is gone. */
long asked_status(pid_t pid, const char *field, int base);

/* How asked_name() names a file. */
struct asked_name {
	int follow; /* whether a link at the name's end is to be followed */
	int number; /* the process's descriptor of the file; -1: none was given */
};

/*
 * A name by which this process finds the call's file, without opening it.
 *
 * Returns 1; 0 if there is no such name: asked_file() finds the file or tells why not.
 */
#define ASKED_NAME_SIZE (4096 + 64)
int asked_name(const struct asked *a, char ret[ASKED_NAME_SIZE], struct asked_name *how);

/* A copy of the process's descriptor, found faster than by the name. To be closed before the
 * answer. Returns it, or -errno; there is none before Linux 5.6, nor of a thread. */
int asked_borrow(const struct asked *a, int number);

/* A place for what another file knows of the process: NULL at first. Returns NULL if processes
 * cannot be told apart, before Linux 5.3. */
void **asked_note(const struct asked *a);

/* A process calls chroot(2): from now on, look whose root directory is which. */
void asked_roots_differ(void);

/* Answer the call. Returns what it returns, or -errno. */
int asked_answer(struct asked *a);

/* For asked_answer(). */
int fakeroot_files_answer(struct asked *a);
int fakeroot_create_answer(struct asked *a);
int fakeroot_identity_answer(struct asked *a);
int fakeroot_rights_answer(struct asked *a);

/* May the process search the directories above the file that the call names? */
int fakeroot_rights_reach(const struct asked *a);
