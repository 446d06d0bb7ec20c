/* Layers in a test's scratch store, put there as pull does. */
#ifndef MLR_TESTS_LAYERS_H
#define MLR_TESTS_LAYERS_H

#include "base/strv.h"
#include "scratch.h"
#include "tar.h"

extern struct strv layers; /* diff IDs, lowest first; strv_done() is the test's */

/* Unpack a tar, which has its end mark, as the next layer up. Returns layer_unpack()'s result. */
int layers_add(struct tar *t);

#endif
