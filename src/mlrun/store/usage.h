/* Disk usage. */
#ifndef MLR_STORE_USAGE_H
#define MLR_STORE_USAGE_H

#include "store/store.h"

/*
 * Bytes on disk of a path below the top, recursively. Each hard link counts its share of the file,
 * so the sum over a store is right. What cannot be read counts as 0.
 */
uint64_t store_usage(struct store *st, const char *path);

#endif
