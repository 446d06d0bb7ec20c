#include "cli/cli.h"
#include "cli/foreign.h"

#include "base/config_value.h"
#include "base/options.h"

/* The state of the walk through a command line. */
struct walk {
	const struct argp_option *options;
	const char *command;
	int rm; /* --rm was given */
	const struct docker_option
		*with_rm; /* an option that changes nothing only with --rm; NULL */
};

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

/* An option, and the next argument if that is its value. */
struct step {
	int n;    /* number of arguments */
	int kept; /* how many of them argp gets; 0 if it changes nothing */
};

static struct step check_long(struct walk *w, char **at)
{
	char *name = *at + 2;
	size_t len = strcspn(name, "=");
	int several, next;
	const struct argp_option *o = options_find(w->options, name, len, &several);
	const struct docker_option *d;
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
		next = o->flags & OPTION_ARG_OPTIONAL ? options_has_word(o, at[1]) : !!at[1];
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
	return (struct step){ 1, 1 }; /* options_parse() refuses it */
}

static struct step check_letters(struct walk *w, char **at)
{
	for (char *letter = *at + 1; *letter; letter++) {
		const struct argp_option *o = options_find_letter(w->options, *letter);
		const struct docker_option *d;
		char text[3] = { '-', *letter, '\0' };

		if (o && o->arg) {
			int next = !(o->flags & OPTION_ARG_OPTIONAL) && !letter[1] && at[1];

			return (struct step){ 1 + next, 1 + next };
		}
		if (o)
			continue;
		d = docker_option_letter(*letter);
		if (!d)
			break;
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
	struct walk w = { .options = options, .command = argv[0] };
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
	foreign_options_refuse(argc, argv, options);
}
