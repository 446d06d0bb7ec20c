#include "tensor/shape.h"

#include <stdio.h>

size_t shape_count(const struct shape *s)
{
	size_t n = 1;

	for (int i = 0; i < s->rank; i++)
		n *= (size_t)s->dim[i];
	return n;
}

char *shape_text(const struct shape *s, char buf[SHAPE_TEXT_MAX])
{
	size_t used = 0;

	snprintf(buf, SHAPE_TEXT_MAX, "1");
	for (int i = 0; i < s->rank; i++)
		used += (size_t)snprintf(
			buf + used, SHAPE_TEXT_MAX - used, "%s%d", i ? "x" : "", s->dim[i]);
	return buf;
}
