/*
 * How much room things take on disk.
 */
#ifndef MLR_STORE_USAGE_H
#define MLR_STORE_USAGE_H

#include "store/store.h"

#include <stdint.h>

/*
 * Bytes on disk of a path below the top and all below it. A file with several names counts at each
 * with its share, so that the sum over a store is right. What cannot be read counts nothing.
 */
uint64_t store_usage(struct store *st, const char *path);

#endif
