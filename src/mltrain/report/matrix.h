/* The mistakes of a network as HTML: the confusion matrix and the worst mistakes. */
#ifndef MLT_REPORT_MATRIX_H
#define MLT_REPORT_MATRIX_H

#include "report/runs.h"

/*
 * The matrix: up to MATRIX_NUMBERS_MAX classes, a table with numbers and each class's error; up to
 * MATRIX_PICTURE_MAX, a picture. Then the pairs that are confused most.
 */
#define MATRIX_NUMBERS_MAX 24
#define MATRIX_PICTURE_MAX 200
#define MATRIX_PAIRS       15

void matrix_write(FILE *f, const struct test *t);

/* Writes nothing if there are none. */
void matrix_mistakes_write(FILE *f, const struct test *t);

#endif
