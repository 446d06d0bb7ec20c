/* Tells one data set from another without reading all of its bytes. */
#ifndef MLT_TRAIN_DIGEST_H
#define MLT_TRAIN_DIGEST_H

#include "data/dataset.h"

/* Hash a data set's counts, sizes, labels and first image. Returns hexadecimal text to free(). */
char *digest_dataset(const struct dataset *d);

#endif
