#include "cli/unknown_option.h"

#include "cli/cli.h"
#include "cli/docker_options.h"

#include "base/cleanup.h"
#include "base/spelling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* argp adds these itself. */
static const struct argp_option argps_own[] = { { "help", '?' }, { "usage", 0 }, { "version", 'V' },
	{ 0 } };

#define N_TABLES 3

/* The tables to look in, each ending as argp's do. */
struct known {
	const struct argp_option *tables[N_TABLES];
};

static int is_end(const struct argp_option *o)
{
	return !o->name && !o->key && !o->doc && !o->group;
}

/* An alias has the argument of what stands before it. */
static const struct argp_option *origin(const struct argp_option *o)
{
	while (o->flags & OPTION_ALIAS)
		o--;
	return o;
}

/* As getopt_long(3) finds it: the name itself or the only one that begins so; several that mean the
 * same are one. *several is set when there is a choice, which getopt_long then tells. */
static const struct argp_option *find_name(
	const struct known *k, const char *name, size_t len, int *several)
{
	const struct argp_option *found = NULL;

	for (size_t t = 0; t < N_TABLES; t++)
		for (const struct argp_option *o = k->tables[t]; !is_end(o); o++) {
			if (!o->name || strncmp(o->name, name, len) != 0)
				continue;
			if (strlen(o->name) == len)
				return origin(o);
			if (found && found != origin(o))
				*several = 1;
			found = origin(o);
		}
	return found;
}

static const struct argp_option *find_letter(const struct known *k, char letter)
{
	for (size_t t = 0; t < N_TABLES; t++)
		for (const struct argp_option *o = k->tables[t]; !is_end(o); o++)
			if (o->key == letter)
				return origin(o);
	return NULL;
}

/* The name that is spelled most like this one, or NULL when none is near. */
static const char *nearest(const struct known *k, const char *name, size_t len)
{
	struct spelling s = spelling_of(name, len);

	for (size_t t = 0; t < N_TABLES; t++)
		for (const struct argp_option *o = k->tables[t]; !is_end(o); o++)
			if (o->name)
				spelling_try(&s, o->name);
	return s.near;
}

static void refuse(const char *command, struct mlr_error *err) __attribute__((noreturn));
static void refuse(const char *command, struct mlr_error *err)
{
	mlr_wrap(err, "%s", command);
	exit(cli_fail(err));
}

static void tell_docker(const struct docker_option *d, const char *text, struct mlr_error *err)
{
	mlr_fail(err, EINVAL, "mlrun has no %s: %s", text, d->why);
	if (d->hint)
		mlr_hint(err, "%s", d->hint);
}

/* Returns whether the option's value is the next argument. */
static int check_long(const struct known *k, const char *command, const char *name)
{
	size_t len = strcspn(name, "=");
	int several = 0;
	const struct argp_option *o = find_name(k, name, len, &several);
	struct mlr_error err = MLR_ERROR_INIT;
	const struct docker_option *d;
	const char *near;
	char text[80];

	d = o && strlen(o->name) == len ? NULL : docker_option_named(name, len);
	if (!d && (o || several))
		return o && o->arg && !(o->flags & OPTION_ARG_OPTIONAL) && !name[len];

	snprintf(text, sizeof(text), "--%.*s", (int)len, name);
	if (d) {
		tell_docker(d, text, &err);
		refuse(command, &err);
	}
	near = nearest(k, name, len);
	mlr_fail(&err, EINVAL, "unknown option '%s'", text);
	if (near)
		mlr_hint(&err, "is --%s meant? mlrun %s --help lists the options", near, command);
	else
		mlr_hint(&err, "mlrun %s --help lists the options", command);
	refuse(command, &err);
}

/* Returns whether the last letter's value is the next argument. */
static int check_letters(const struct known *k, const char *command, const char *letters)
{
	for (; *letters; letters++) {
		const struct argp_option *o = find_letter(k, *letters);
		const struct docker_option *d;
		struct mlr_error err = MLR_ERROR_INIT;
		char text[3] = { '-', *letters, '\0' };

		if (o && o->arg)
			return !(o->flags & OPTION_ARG_OPTIONAL) && !letters[1];
		if (o)
			continue;
		d = docker_option_letter(*letters);
		if (d) {
			tell_docker(d, text, &err);
		} else {
			mlr_fail(&err, EINVAL, "unknown option '%s'", text);
			mlr_hint(&err, "mlrun %s --help lists the options", command);
		}
		refuse(command, &err);
	}
	return 0;
}

void unknown_option_check(
	char *const *argv, const struct argp_option *options, const struct argp_option *more)
{
	const struct known k = { { options, more, argps_own } };

	for (char *const *s = argv + 1; *s; s++) {
		int takes_next;

		if ((*s)[0] != '-' || !(*s)[1] || strcmp(*s, "--") == 0)
			return;
		takes_next = (*s)[1] == '-' ? check_long(&k, argv[0], *s + 2)
					    : check_letters(&k, argv[0], *s + 1);
		if (takes_next && !*++s)
			return;
	}
}
