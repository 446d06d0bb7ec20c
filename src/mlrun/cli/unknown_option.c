#include "cli/cli.h"
#include "cli/foreign.h"

#include "base/base.h"
#include "base/config_value.h"
#include "base/spelling.h"

/* argp adds these itself. */
static const struct argp_option argps_own[] = { { "help", '?' }, { "usage", 0 }, { "version", 'V' },
	{ 0 } };

#define N_TABLES 2

/* The tables to search, each ending like argp's. */
struct known {
	const struct argp_option *tables[N_TABLES];
};

/* The state of the walk through a command line. */
struct walk {
	struct known known;
	const char *command;
	int rm; /* --rm was given */
	const struct docker_option
		*with_rm; /* an option that changes nothing only with --rm; NULL */
};

static int is_end(const struct argp_option *o)
{
	return !o->name && !o->key && !o->doc && !o->group;
}

/* The row that an alias belongs to, which has its argument. */
static const struct argp_option *origin(const struct argp_option *o)
{
	while (o->flags & OPTION_ALIAS)
		o--;
	return o;
}

/* Find an option like getopt_long(3): by its exact name or a unique prefix; several of one meaning
 * count as one. *several is set if the prefix is ambiguous, which getopt_long then reports. */
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

/* The name with the most similar spelling, or NULL if none is similar. */
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

static void refuse_docker(const char *command, const struct docker_option *d, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;

	tell_docker(d, text, &err);
	refuse(command, &err);
}

/* Docker's "--init=true" means "--init"; argp accepts no value there. */
static void check_switch(const char *command, const char *text, char *value)
{
	int truth = config_truth(value + 1);
	struct mlr_error err = MLR_ERROR_INIT;

	if (truth < 0)
		return;
	*value = '\0';
	if (truth)
		return;
	mlr_fail(&err, EINVAL, "%s is a switch, and off unless it is given", text);
	refuse(command, &err);
}

/* Is word a valid value of an option whose value is optional: "private|host"? */
static int is_its_word(const struct argp_option *o, const char *word)
{
	size_t len = word ? strlen(word) : 0;
	const char *at = len && strchr(o->arg, '|') ? strstr(o->arg, word) : NULL;

	return at && (at == o->arg || at[-1] == '|') && (at[len] == '|' || !at[len]);
}

/* An option, and the next argument if that is its value. */
struct step {
	int n;    /* number of arguments */
	int kept; /* how many of them argp gets; 0 if it changes nothing */
};

static struct step check_long(struct walk *w, char **at)
{
	const struct known *k = &w->known;
	char *name = *at + 2;
	size_t len = strcspn(name, "=");
	int several = 0, next;
	const struct argp_option *o = find_name(k, name, len, &several);
	struct mlr_error err = MLR_ERROR_INIT;
	const struct docker_option *d;
	const char *near;
	char text[80];

	snprintf(text, sizeof(text), "--%.*s", (int)len, name);
	if (o && strlen(o->name) == len && strcmp(o->name, "rm") == 0)
		w->rm = 1;
	d = o && strlen(o->name) == len ? NULL : docker_option_named(name, len);
	if (!d && (o || several)) {
		if (o && !o->arg && name[len])
			check_switch(w->command, text, name + len);
		if (!o || !o->arg || name[len])
			return (struct step){ 1, 1 };
		next = o->flags & OPTION_ARG_OPTIONAL ? is_its_word(o, at[1]) : !!at[1];
		return (struct step){ 1 + next, 1 + next };
	}
	if (d) {
		next = docker_option_takes_value(d) && !name[len] && at[1];
		if (!docker_option_is_so(d, name[len] ? name + len + 1 : next ? at[1] : NULL))
			refuse_docker(w->command, d, text);
		if (d->with_rm)
			w->with_rm = d;
		return (struct step){ 1 + next, 0 };
	}
	near = nearest(k, name, len);
	mlr_fail(&err, EINVAL, "unknown option '%s'", text);
	if (near)
		mlr_hint(
			&err, "is --%s meant? mlrun %s --help lists the options", near, w->command);
	else
		mlr_hint(&err, "mlrun %s --help lists the options", w->command);
	refuse(w->command, &err);
}

static struct step check_letters(struct walk *w, char **at)
{
	for (char *letter = *at + 1; *letter; letter++) {
		const struct argp_option *o = find_letter(&w->known, *letter);
		const struct docker_option *d;
		struct mlr_error err = MLR_ERROR_INIT;
		char text[3] = { '-', *letter, '\0' };

		if (o && o->arg) {
			int next = !(o->flags & OPTION_ARG_OPTIONAL) && !letter[1] && at[1];

			return (struct step){ 1 + next, 1 + next };
		}
		if (o)
			continue;
		d = docker_option_letter(*letter);
		if (!d) {
			mlr_fail(&err, EINVAL, "unknown option '%s'", text);
			mlr_hint(&err, "mlrun %s --help lists the options", w->command);
			refuse(w->command, &err);
		}
		if (docker_option_takes_value(d)) {
			int next = !letter[1] && at[1];

			if (!docker_option_is_so(d, letter[1] ? letter + 1 : next ? at[1] : NULL))
				refuse_docker(w->command, d, text);
			*letter = '\0'; /* of "-itp PORT" the letters before p stay */
			return (struct step){ 1 + next, (*at)[1] != '\0' };
		}
		if (!docker_option_is_so(d, NULL))
			refuse_docker(w->command, d, text);
		memmove(letter, letter + 1, strlen(letter));
		letter--;
	}
	return (struct step){ 1, (*at)[1] != '\0' };
}

void unknown_option_check(int *argc, char **argv, const struct argp_option *options)
{
	struct walk w = { .known = { { options, argps_own } }, .command = argv[0] };
	char **in = argv + 1, **out = in;

	while (*in && (*in)[0] == '-' && (*in)[1] && strcmp(*in, "--") != 0) {
		struct step s = (*in)[1] == '-' ? check_long(&w, in) : check_letters(&w, in);

		for (int i = 0; i < s.kept; i++)
			*out++ = in[i];
		in += s.n;
	}
	while (*in)
		*out++ = *in++;
	*out = NULL;
	*argc = (int)(out - argv);
	if (w.with_rm && !w.rm) {
		auto_free char *text = xasprintf("--%s", w.with_rm->name);

		refuse_docker(w.command, w.with_rm, text);
	}
}
