/* Unnamed temporary files: they vanish with their descriptor, however the process ends. */
#pragma once

#include "base/error.h"

/* Make one in a directory; dir_fd -1: in $TMPDIR, else /tmp. Returns the descriptor or -errno. */
int temp_open(int dir_fd, struct mlr_error *err);

/* Random names, unique among processes and nodes. */

#define RANDOM_HEX_SIZE 17

/* 16 hexadecimal digits. A pid would not do: other nodes and containers have the same pids, and
 * killed processes leave files. Early in boot, before the kernel has random bytes, uses pid and a
 * counter. */
void random_hex(char hex[RANDOM_HEX_SIZE]);
