/*
 * Processes as proc(5) shows them, by the directory of a process or of all: what is asked stays the
 * same wherever the caller's root is by then.
 */
#ifndef MLR_BASE_PROC_H
#define MLR_BASE_PROC_H

#include <stddef.h>
#include <sys/types.h>

/* What /proc/PID/stat says of a process. */
struct proc_stat {
	pid_t pid;
	char state; /* 'R', 'S', 'T' for stopped... */
	unsigned long long
		start; /* clock ticks from boot to its start: with it a pid is used once */
};

/*
 * Look at "PID/stat" or "self/stat" below a /proc directory (AT_FDCWD where name is absolute).
 *
 * Returns 0; -ENOENT or -ESRCH when there is no such process, or it has ended and nobody waited for
 * it yet; -EIO for a text that is none.
 */
int proc_stat_read(int dir, const char *name, struct proc_stat *ret);

/* The same of a text "pid (name) state ppid ...", with which any byte may be in the name. */
int proc_stat_parse(const char *text, struct proc_stat *ret);

/* A small file of /proc, NUL-terminated, cut where buf ends. Returns 0 or -errno; -EIO when
 * empty. */
int proc_read(int dir, const char *name, char *buf, size_t size);

#endif
