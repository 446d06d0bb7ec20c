/* Names that no other process on any node has. */
#ifndef MLR_BASE_RANDOM_H
#define MLR_BASE_RANDOM_H

#define RANDOM_HEX_SIZE 17

/* 16 hexadecimal digits. Not the pid: other nodes and containers have the same, and who was killed
 * left his files. Before the kernel has collected any chance, pid and a counter nevertheless. */
void random_hex(char hex[RANDOM_HEX_SIZE]);

#endif
