#include "base/spelling.h"

#include <string.h>

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The number of letters to change between two words; swapping neighbours counts once. */
static size_t distance(const char *a, size_t len, const char *b)
{
	enum { MAX = 32 };
	size_t d[MAX + 1][MAX + 1], blen = strlen(b);

	if (len > MAX || blen > MAX)
		return MAX;
	for (size_t i = 0; i <= len; i++)
		for (size_t j = 0; j <= blen; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			d[i][j] = min(min(d[i - 1][j], d[i][j - 1]) + 1,
				d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[len][blen];
}

struct spelling spelling_of(const char *word, size_t len)
{
	return (struct spelling){ word, len, len < 4 ? 2 : len / 3 + 1, NULL };
}

void spelling_try(struct spelling *s, const char *known)
{
	size_t d = distance(s->word, s->len, known);

	if (d < s->best) {
		s->best = d;
		s->near = known;
	}
}
