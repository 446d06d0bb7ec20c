/* Random names, unique among processes and nodes. */
#ifndef MLR_BASE_RANDOM_H
#define MLR_BASE_RANDOM_H

#define RANDOM_HEX_SIZE 17

/* 16 hexadecimal digits. A pid would not do: other nodes and containers have the same pids, and
 * killed processes leave files. Early in boot, before the kernel has random bytes, uses pid and a
 * counter. */
void random_hex(char hex[RANDOM_HEX_SIZE]);

#endif
