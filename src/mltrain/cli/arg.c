#include "cli/arg.h"

#include "base/base.h"

uint64_t arg_count(
	struct argp_state *state, const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || v < min || v > max)
		argp_error(state, "--%s '%s' is not a whole number from %" PRIu64 " to %" PRIu64,
			option, text, min, max);
	return v;
}

double arg_number(
	struct argp_state *state, const char *option, const char *text, double min, double max)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || *end || errno || !(v >= min && v <= max))
		argp_error(
			state, "--%s '%s' is not a number from %g to %g", option, text, min, max);
	return v;
}

double arg_seconds(struct argp_state *state, const char *option, const char *text)
{
	static const struct {
		char letter;
		double seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	char *end;
	double v, unit = *text ? 1 : 0;

	errno = 0;
	v = strtod(text, &end);
	for (size_t i = 0; *end && i < ARRAY_LEN(units); i++)
		if (*end == units[i].letter) {
			unit = units[i].seconds;
			end++;
			break;
		}
	if (end == text || *end || errno || !(v * unit > 0 && v * unit <= 1e9))
		argp_error(state, "--%s '%s' is not a time such as 90, 90s, 30m, 8h or 2d", option,
			text);
	return v * unit;
}

int arg_word(
	struct argp_state *state, const char *option, const char *text, const char *const *words)
{
	auto_strv struct strv names = STRV_INIT;
	auto_free char *all = NULL;

	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0)
			return i;
		strv_add(&names, words[i]);
	}
	all = strv_join(&names, names.n, ", ");
	argp_error(state, "--%s '%s' is not one of: %s", option, text, all);
	return 0;
}

double arg_accuracy(struct argp_state *state, const char *option, const char *text)
{
	double percent = arg_number(state, option, text, 0, 100);

	if (percent > 0 && percent < 1)
		argp_error(state, "--%s %s is less than one per cent: is %g meant?", option, text,
			100 * percent);
	return percent / 100;
}

const char *arg_file(struct argp_state *state, const char *option, const char *text)
{
	if (!*text)
		argp_error(state, "--%s '' names no file", option);
	return text;
}
