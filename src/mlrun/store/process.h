/*
 * An identity of a process that stays unique after it ends: a pid alone is reused, on this boot,
 * after a restart and on other nodes.
 */
#pragma once

#include "store/store.h"

#define STORE_HOST_SIZE 65 /* HOST_NAME_MAX and a NUL */
#define STORE_BOOT_SIZE 37 /* a UUID and a NUL */

struct store_process {
	char host[STORE_HOST_SIZE]; /* fit for a file name: '/' and control characters replaced */
	char boot[STORE_BOOT_SIZE]; /* /proc/sys/kernel/random/boot_id */
	unsigned long long
		pid_ns; /* inode of its PID namespace; 0: /proc shows another namespace */
	pid_t pid;
	unsigned long long start; /* clock ticks from boot to its start (proc(5), stat, field 22) */
};

/*
 * A process as a part of file names, "<host>.<boot>.<pid namespace>.<pid>.<start>". The host may
 * contain dots, so parsing starts at the end. Parsing returns 0 or -EINVAL.
 */
#define STORE_PROCESS_NAME 180
void store_process_name(const struct store_process *p, char name[STORE_PROCESS_NAME]);
int store_process_parse(const char *name, struct store_process *ret);

/* The name of this host. */
void store_process_host(char host[STORE_HOST_SIZE]);

/* The identifier of this boot. Returns 0 or -errno of reading /proc. */
int store_process_boot(char boot[STORE_BOOT_SIZE]);

/* The calling process. Returns 0 or -errno of reading /proc. */
int store_process_self(struct store_process *ret);

/*
 * Make a unique path below the store's top, "tmp/<kind>.<n>.<process>", by which store_sweep()
 * knows its maker.
 *
 *   kind  one that store_sweep() knows
 *
 * Returns 0 or -errno of reading /proc.
 */
#define STORE_WORK_PATH (STORE_PROCESS_NAME + 32)
int store_work_path(const char *kind, char path[STORE_WORK_PATH], struct mlr_error *err);

/*
 * Does a process that left its name in a store still run? Returns 1, 0, or -1 if it belongs to
 * another host or PID namespace and cannot be judged from here. Nodes may have the same name, so if
 * several may share the store, another boot of this host's name is -1, too.
 */
int store_process_judge(
	struct store *st, const struct store_process *p, const struct store_process *self);
