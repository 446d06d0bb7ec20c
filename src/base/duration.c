#include "base/duration.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

int64_t mlr_duration_ns(const char *s)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 },
		{ "h", 3600e9 } };
	double sum = 0;

	if (strcmp(s, "0") == 0)
		return 0;
	do {
		size_t digits = strspn(s, "0123456789."), letters = strspn(s + digits, "nusmh"), i;
		double n = atof(s);

		for (i = 0; i < ARRAY_LEN(units); i++)
			if (strlen(units[i].name) == letters &&
				strncmp(units[i].name, s + digits, letters) == 0)
				break;
		if (digits == 0 || i == ARRAY_LEN(units))
			return -1;
		sum += n * units[i].ns;
		s += digits + letters;
	} while (*s);
	return sum < 9e18 ? (int64_t)(sum + 0.5) : -1;
}
