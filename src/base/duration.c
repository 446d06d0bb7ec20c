#include "base/duration.h"

#include "base/base.h"

static const struct unit {
	const char *name;
	double seconds;
} units[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 }, { "m", 60 },
	{ "h", 3600 }, { "d", 86400 }, { "w", 7 * 86400 } };

/* The length of those first characters that are in set. */
static size_t span(const char *text, size_t len, const char *set)
{
	size_t n = 0;

	while (n < len && text[n] && strchr(set, text[n]))
		n++;
	return n;
}

static double unit_of(const char *text, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (strlen(units[i].name) == len && memcmp(units[i].name, text, len) == 0)
			return units[i].seconds;
	return -1;
}

double duration_seconds(const char *text, size_t len)
{
	double all = 0;

	for (size_t i = 0; i == 0 || i < len;) {
		size_t digits = span(text + i, len - i, "0123456789"), n = digits, letters;
		double unit;

		if (i + n < len && text[i + n] == '.') {
			size_t more = span(text + i + n + 1, len - i - n - 1, "0123456789");

			digits += more;
			n += 1 + more;
		}
		letters = span(text + i + n, len - i - n, "nusmhdw");
		unit = n == len ? 1 : unit_of(text + i + n, letters);
		if (!digits || unit < 0)
			return -1;
		all += strtod(text + i, NULL) * unit;
		i += n + letters;
	}
	return all;
}

int64_t duration_ns(const char *text)
{
	double v = duration_seconds(text, strlen(text));

	if (strcmp(text, "0") != 0 && !text[strspn(text, "0123456789.")])
		return -1;
	return v >= 0 && v < 9e9 ? (int64_t)(v * 1e9 + 0.5) : -1;
}
