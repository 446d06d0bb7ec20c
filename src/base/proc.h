/*
 * Reads about processes from proc(5). Takes a descriptor of /proc or /proc/PID, which stays valid
 * when the caller's root changes.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* The contents of /proc/PID/stat. */
struct proc_stat {
	pid_t pid;
	char state; /* 'R', 'S', 'T' for stopped... */
	unsigned long long
		start; /* start time in ticks since boot; pid and start identify a process */
};

/*
 * Read "PID/stat" or "self/stat" below a /proc directory (AT_FDCWD if name is absolute).
 *
 * Returns 0; -ENOENT or -ESRCH if there is no such process, or it has ended and waits to be reaped;
 * -EIO for a malformed text.
 */
int proc_stat_read(int dir, const char *name, struct proc_stat *ret);
/* The same by a pid below the host's /proc. */
int proc_stat_of(int proc, pid_t pid, struct proc_stat *ret);

/*
 * Does the process with this pid and start time run? Returns 1, 0, or -1 if one of that pid runs
 * that /proc hides from this user (hidepid=, proc(5)): another user's, or mlrun's own in a
 * container.
 */
int proc_is_running(pid_t pid, unsigned long long start);

/* A descriptor that is readable once the process has ended (pidfd_open(2)), or -1, as before Linux
 * 5.3. */
int proc_pidfd(pid_t pid);

/* Give up the caller's session keyring, with Kerberos tickets for one (session-keyring(7)). */
void proc_leave_keyring(void);

/* Parse a text "pid (name) state ppid ..."; the name may contain any byte. */
int proc_stat_parse(const char *text, struct proc_stat *ret);

/* Read a small file of /proc, NUL-terminated, cut at the end of buf. Returns 0 or -errno; -EIO if
 * it is empty. */
int proc_read(int dir, const char *name, char *buf, size_t size);

/* Names of signals. */

/* The number of "9", "KILL", "SIGKILL", "kill" or "RTMIN+3"; -1 for anything else. */
int signal_number(const char *word);

/* Have SIGINT, SIGTERM and SIGHUP call a function, unless they are ignored, as nohup(1) has it. */
void signal_catch_ends(void (*handler)(int sig), int flags);
