#include "base/config_value.h"

#include "base/base.h"
#include "base/home.h"

#include <math.h>

#define SECONDS_MAX 3600

/* The value of the environment variable at "NAME…" or "{NAME}…"; *s moves past it. */
static const char *variable(const char **s, struct mlr_error *err)
{
	int braces = **s == '{';
	const char *name = *s + braces;
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
	auto_free char *copy = xstrndup(name, n);
	const char *value = n > 0 ? getenv(copy) : NULL;

	*s = name + n + braces;
	if (n == 0 || (braces && name[n] != '}')) {
		mlr_fail(err, EINVAL, "a '$' without the name of an environment variable");
		return NULL;
	}
	if (!value || !*value) {
		mlr_fail(err, ENOENT, "the environment variable %s is not set", copy);
		return NULL;
	}
	return value;
}

/* A path with its variables replaced, or NULL. */
static char *expand(const char *s, struct mlr_error *err)
{
	auto_free char *out = xstrdup("");

	if (s[0] == '~' && s[1] == '/') {
		char *home = home_dir(err);

		if (!home)
			return NULL;
		set_ptr(&out, home);
		s++;
	}
	while (*s) {
		size_t n = *s == '$' ? 0 : strcspn(s, "$");
		const char *more = s;
		char *longer;

		if (n == 0) {
			s++;
			more = variable(&s, err);
			if (!more)
				return NULL;
			n = strlen(more);
		} else {
			s += n;
		}
		longer = xasprintf("%s%.*s", out, (int)n, more);
		set_ptr(&out, longer);
	}
	return take_ptr(&out);
}

static char *truth(const char *value, struct mlr_error *err)
{
	int is = config_truth(value);

	if (is >= 0)
		return xstrdup(is ? "true" : "false");
	mlr_fail(err, EINVAL, "'%s' is neither true nor false", value);
	return NULL;
}

static char *absolute_path(const char *value, struct mlr_error *err)
{
	auto_free char *path = expand(value, err);

	if (!path || path[0] == '/')
		return take_ptr(&path);
	mlr_fail(err, EINVAL, "'%s' is not an absolute path", path);
	return NULL;
}

static char *absolute_paths(const char *value, struct mlr_error *err)
{
	auto_strv struct strv all = STRV_INIT;
	auto_free char *copy = xstrdup(value);
	char *at = NULL;

	for (char *s = strtok_r(copy, ":", &at); s; s = strtok_r(NULL, ":", &at)) {
		char *one = absolute_path(s, err);

		if (!one)
			return NULL;
		strv_take(&all, one);
	}
	if (all.n > 0)
		return strv_join(&all, all.n, ":");
	mlr_fail(err, EINVAL, "'%s' names no directory", value);
	return NULL;
}

static int has_flag(const char *flags, const char *flag)
{
	size_t n = strlen(flag);

	for (const char *s = flags; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
		if (strncmp(s, flag, n) == 0 && (!s[n] || s[n] == ','))
			return 1;
	return 0;
}

/* Expand part by part, since a variable's value may contain ':'. */
static char *volume(const char *value, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(value), *source = NULL, *target = NULL;
	char *dst = strchr(copy, ':'), *flags = dst ? strchr(dst + 1, ':') : NULL;

	if (dst)
		*dst++ = '\0';
	if (flags)
		*flags++ = '\0';
	source = absolute_path(copy, err);
	if (source && dst)
		target = absolute_path(dst, err);
	if (source && (!dst || target))
		return xasprintf("%s%s%s%s%s", source, dst ? ":" : "", dst ? target : "",
			flags ? ":" : "", flags ? flags : "");
	return err->code == ENOENT && has_flag(flags, "optional") ? xstrdup(value) : NULL;
}

static char *environment_variable(const char *value, struct mlr_error *err)
{
	size_t n = strcspn(value, "=");

	if (n > 0 && strcspn(value, " \t") >= n)
		return xstrdup(value);
	mlr_fail(err, EINVAL, "invalid variable '%s': use K=V or K", value);
	return NULL;
}

static char *seconds(const char *value, struct mlr_error *err)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (isdigit((unsigned char)*value) && !*end && n >= 1 && n <= SECONDS_MAX)
		return xasprintf("%ld", n);
	mlr_fail(err, EINVAL, "'%s' is not a number of seconds from 1 to %d", value, SECONDS_MAX);
	return NULL;
}

static char *host_name(const char *value, struct mlr_error *err)
{
	if (!strstr(value, "://") && value[strcspn(value, " \t@")] == '\0')
		return xstrdup(value);
	mlr_fail(err, EINVAL,
		"'%s' is not a host: no 'https://' and no user's name stands before one", value);
	return NULL;
}

/* Has it the form of a GPU name of docs/gpu.md: an index, a UUID, a PCI address, a CDI device? */
static int is_gpu_name(const char *s, size_t n)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_/=";

	if (n == 0 || strspn(s, letters) < n)
		return 0;
	return isdigit((unsigned char)*s) || strncasecmp(s, "GPU-", 4) == 0 ||
		strncasecmp(s, "MIG-", 4) == 0 || memchr(s, ':', n) ||
		(memchr(s, '/', n) && memchr(s, '=', n)) || (n == 3 && memcmp(s, "all", n) == 0) ||
		(n == 4 && memcmp(s, "auto", n) == 0) || (n == 4 && memcmp(s, "none", n) == 0);
}

static char *gpus(const char *value, struct mlr_error *err)
{
	for (const char *s = value;; s++) {
		size_t blanks = strspn(s, " \t"), len = strcspn(s + blanks, ","), n = len;

		while (n > 0 && strchr(" \t", s[blanks + n - 1]))
			n--;
		if (n > 0 && !is_gpu_name(s + blanks, n)) {
			mlr_fail(err, EINVAL,
				"invalid GPU list '%.*s': use auto, all, none, or indices, UUIDs and PCI addresses separated by ','",
				(int)n, s + blanks);
			return NULL;
		}
		s += blanks + len;
		if (!*s)
			return xstrdup(value);
	}
}

static char *word_of(const char *words, const char *value, struct mlr_error *err)
{
	if (config_is_among(words, value))
		return xstrdup(value);
	mlr_fail(err, EINVAL, "'%s' is invalid: use one of %s", value, words);
	return NULL;
}

char *config_judge(enum config_kind kind, const char *value, struct mlr_error *err)
{
	switch (kind) {
	case CONFIG_HOST:
		return host_name(value, err);
	case CONFIG_TRUTH:
		return truth(value, err);
	case CONFIG_SECONDS:
		return seconds(value, err);
	case CONFIG_PATH:
		return absolute_path(value, err);
	case CONFIG_PATHS:
		return absolute_paths(value, err);
	case CONFIG_VOLUME:
		return volume(value, err);
	case CONFIG_VARIABLE:
		return environment_variable(value, err);
	case CONFIG_MPI:
		return word_of(CONFIG_MPI_WORDS, value, err);
	case CONFIG_LEVEL:
		return word_of("major, full, strict", value, err);
	case CONFIG_PULL:
		return word_of("missing, always, never", value, err);
	case CONFIG_GPU:
		return gpus(value, err);
	case CONFIG_TEXT:
		break;
	}
	return xstrdup(value);
}

int config_bytes(const char *text, uint64_t *ret)
{
	static const char units[] = "bkmgt";
	char *end;
	double n = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end | 0x20) : units;

	/* "4g", "4gb" and "4gib" are the same. */
	if (end == text || !isfinite(n) || n <= 0 || !unit ||
		(*end && end[1] && strcasecmp(end + 1, "b") != 0 && strcasecmp(end + 1, "ib") != 0))
		return -EINVAL;
	n *= (double)(1ull << (10 * (unit - units)));
	if (n < 1 || n > 9e18)
		return -ERANGE;
	*ret = (uint64_t)n;
	return 0;
}
