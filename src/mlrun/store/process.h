/*
 * A process's identity that still means something after it ended: a pid alone is used again, on
 * this boot, on the next one and on every other node.
 */
#ifndef MLR_STORE_PROCESS_H
#define MLR_STORE_PROCESS_H

#include "base/error.h"
#include "store/store.h"

#include <sys/types.h>

#define STORE_HOST_SIZE 65 /* HOST_NAME_MAX and a NUL */
#define STORE_BOOT_SIZE 37 /* a UUID and a NUL */

struct store_process {
	char host[STORE_HOST_SIZE]; /* fit for a file name: '/' and control characters replaced */
	char boot[STORE_BOOT_SIZE]; /* /proc/sys/kernel/random/boot_id */
	unsigned long long pid_ns;  /* inode of its PID namespace; 0: /proc shows another one */
	pid_t pid;
	unsigned long long start; /* clock ticks from boot to its start (proc(5), stat, field 22) */
};

/*
 * "<host>.<boot>.<pid namespace>.<pid>.<start>", for file names, and back. The host may hold dots,
 * so the rest is read from the end. Parsing returns 0 or -EINVAL.
 */
#define STORE_PROCESS_NAME 180
void store_process_name(const struct store_process *p, char name[STORE_PROCESS_NAME]);
int store_process_parse(const char *name, struct store_process *ret);

/* This boot of this kernel. Returns 0 or -errno when /proc cannot tell. */
int store_process_boot(char boot[STORE_BOOT_SIZE]);

/* Who is calling. Returns 0 or -errno when /proc cannot tell. */
int store_process_self(struct store_process *ret);

/*
 * A path below the store's top that nobody else makes, "tmp/<kind>.<n>.<process>", so that
 * store_sweep() can tell whose work it is.
 *
 *   kind  one that store_sweep() knows
 *
 * Returns 0 or -errno when /proc cannot tell who is calling.
 */
#define STORE_WORK_PATH (STORE_PROCESS_NAME + 32)
int store_work_path(const char *kind, char path[STORE_WORK_PATH], struct mlr_error *err);

/*
 * Does a process that left its name in a store still run? 1, 0, or -1 when it belongs to another
 * host or another PID namespace and cannot be judged from here. Two nodes may bear one name: where
 * nodes may share the store, another boot of a host of this name gives -1 as well.
 */
int store_process_judge(
	struct store *st, const struct store_process *p, const struct store_process *self);

#endif
