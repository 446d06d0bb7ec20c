#include "cli/arg.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/strv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

struct shape arg_input(struct argp_state *state, const char *text)
{
	struct shape s = { 3, { 0, 0, 0, 1 } };
	int used = 0;

	if (sscanf(text, "%5dx%5dx%5d%n", &s.dim[0], &s.dim[1], &s.dim[2], &used) != 3 ||
		text[used] || s.dim[0] < 1 || s.dim[1] < 1 || s.dim[2] < 1)
		argp_error(state, "--input '%s' is not CHANNELSxHEIGHTxWIDTH, for instance 3x32x32",
			text);
	return s;
}

int arg_threads(struct argp_state *state, const char *text)
{
	return (int)arg_count(state, "threads", text, 1, 1024);
}

const struct backend *arg_backend(struct argp_state *state, const char *text)
{
	const struct backend *b = backend_find(text);

	if (!b)
		argp_error(state, "--backend '%s' is not one of: auto, %s", text, backend_names());
	return b;
}

void arg_isa(struct argp_state *state, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (backend_limit_isa(text, &err) < 0)
		argp_error(state, "--isa: %s", err.text);
}

enum dtype arg_dtype(struct argp_state *state, const char *text)
{
	int d = dtype_find(text);

	if (d < 0)
		argp_error(state, "--dtype '%s' is not one of: f32, tf32, bf16", text);
	return (enum dtype)d;
}
