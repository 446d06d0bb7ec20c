#include "bench/rounds.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

struct spread rounds_spread(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return (struct spread){ n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v[0], v[n - 1] };
}
