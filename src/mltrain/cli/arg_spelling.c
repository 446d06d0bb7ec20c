#include "cli/arg_spelling.h"

#include "base/base.h"
#include "base/spelling.h"
#include "cli/mltrain.h"

static int is_end(const struct argp_option *o)
{
	return !o->name && !o->key && !o->doc && !o->group;
}

/* Does a word of len bytes name the option or begin its name, as getopt_long(3) allows? */
static int names(const char *option, const char *word, size_t len)
{
	return option && strncmp(option, word, len) == 0;
}

static void check_one(const char *command, const char *word, const struct argp_option *options)
{
	static const char *const argps_own[] = { "help", "usage", "version" };
	size_t len = strcspn(word, "=");
	struct spelling s = spelling_of(word, len);
	struct mlr_error err = MLR_ERROR_INIT;

	for (const struct argp_option *o = options; !is_end(o); o++) {
		if (names(o->name, word, len))
			return;
		if (o->name)
			spelling_try(&s, o->name);
	}
	for (size_t i = 0; i < ARRAY_LEN(argps_own); i++)
		if (names(argps_own[i], word, len))
			return;
	mlr_fail(&err, EINVAL, "unknown option '--%.*s'", (int)len, word);
	if (s.near)
		mlr_hint(&err, "is --%s meant? %s --help lists the options", s.near, command);
	else
		mlr_hint(&err, "%s --help lists the options", command);
	mlr_log_error(&err);
	exit(EXIT_USAGE);
}

void arg_check_spelling(char *const *argv, const struct argp_option *options)
{
	for (char *const *s = argv + 1; *s && strcmp(*s, "--") != 0; s++)
		if (strncmp(*s, "--", 2) == 0)
			check_one(argv[0], *s + 2, options);
}
