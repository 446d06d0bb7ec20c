#include "base/options.h"

#include "base/base.h"
#include "base/config_value.h"
#include "base/duration.h"
#include "base/spelling.h"

#define KEYS 0x100 /* key of an option without a letter, plus its row's number */

/* All rows of a command: its own and the shared ones. */
struct table {
	struct option_row *rows; /* targets are offsets in the command's struct */
	struct argp_option *options;
	size_t n, first, first_end; /* those of shared[0]: from, to */
};

int options_usage_status;

struct parsing {
	const struct options_syntax *syntax;
	const struct table *table;
	void *args;
	size_t operands; /* number of operands seen */
};

/* --- values ----------------------------------------------------------------------------------- */

long options_number(const char *text, long min, long max)
{
	char *end;
	long n = strtol(text, &end, 10);

	return end == text || *end || n < min || n > max ? -1 : n;
}

uint64_t options_count(
	struct argp_state *state, const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && v >= min && v <= max)
		return v;
	if (max >= INT_MAX && v <= max && errno != ERANGE)
		argp_error(state, "--%s takes a whole number from %" PRIu64 " on, not '%s'", option,
			min, text);
	else
		argp_error(state,
			"--%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'",
			option, min, max, text);
	return v;
}

double options_real(
	struct argp_state *state, const char *option, const char *text, double min, double max)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || *end || errno || !(v >= min && v <= max))
		argp_error(state, "--%s takes a number from %g to %g, not '%s'", option, min, max,
			text);
	return v;
}

double options_seconds(struct argp_state *state, const char *option, const char *text, double max)
{
	double v = duration_seconds(text, strlen(text));

	if (v > max)
		argp_error(state, "--%s takes at most %g seconds, not '%s'", option, max, text);
	if (!(v > 0 && v <= max))
		argp_error(state,
			"--%s takes a time above 0 such as 90, 90s, 1m30s, 8h or 2d, not '%s'",
			option, text);
	return v;
}

int options_word(
	struct argp_state *state, const char *option, const char *text, const char *const *words)
{
	auto_strv struct strv all = STRV_INIT;
	auto_free char *list = NULL;

	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0)
			return i;
		strv_add(&all, words[i]);
	}
	list = strv_join(&all, all.n - 1, ", ");
	argp_error(state, "--%s takes %s or %s, not '%s'", option, list, all.v[all.n - 1], text);
	return 0;
}

const char *options_file(struct argp_state *state, const char *option, const char *text)
{
	if (!*text)
		argp_error(state, "--%s takes a file's name, not ''", option);
	return text;
}

/* Give a value to its target; option is the name of its row. */
static void put(const char *option, const struct option_target *to, void *args, char *arg,
	struct argp_state *state)
{
	void *field = (char *)args + to->at;
	uint64_t count;

	switch (to->kind) {
	case OPTION_NOWHERE:
		break;
	case OPTION_SET:
		*(int *)field = to->value;
		break;
	case OPTION_TEXT:
		*(const char **)field = arg;
		break;
	case OPTION_FILE:
		*(const char **)field = options_file(state, option, arg);
		break;
	case OPTION_COUNT:
		count = to->unit * options_count(state, option, arg, to->min, to->max);
		if (to->size == sizeof(count))
			*(uint64_t *)field = count;
		else
			*(uint32_t *)field = (uint32_t)count;
		break;
	case OPTION_NUMBER:
		*(double *)field = options_real(state, option, arg, to->low, to->high);
		break;
	case OPTION_SECONDS:
		*(double *)field = options_seconds(state, option, arg, to->high);
		break;
	case OPTION_WORD:
		*(int *)field = to->value + options_word(state, option, arg, to->words);
		break;
	case OPTION_READ:
		if (to->read(arg, field) < 0)
			argp_error(state, "--%s takes %s, not '%s'", option, to->takes, arg);
		break;
	case OPTION_ADD:
		strv_addf(field, "%s%s", to->word, arg ? arg : "");
		break;
	case OPTION_LIST:
		strv_add(field, arg);
		break;
	case OPTION_CALL:
		to->call(field, arg, state);
		break;
	}
}

/* --- the table -------------------------------------------------------------------------------- */

/* Aliases and headings have no key. */
static int key_of(const struct option_row *o, size_t row)
{
	if (o->letter)
		return o->letter;
	return o->name && !(o->flags & OPTION_ALIAS) ? KEYS + (int)row : 0;
}

/* Add rows; their targets are in a struct at offset at of the command's. */
static void table_add(struct table *t, const struct option_row *o, size_t at)
{
	size_t more = 0;

	while (o && (o[more].name || o[more].doc))
		more++;
	t->rows = xreallocarray(t->rows, t->n + more + 1, sizeof(*t->rows));
	t->options = xreallocarray(t->options, t->n + more + 1, sizeof(*t->options));
	for (; more--; o++) {
		t->rows[t->n] = *o;
		t->rows[t->n].to.at += at;
		t->options[t->n] = (struct argp_option){ o->name, key_of(o, t->n), o->arg, o->flags,
			o->doc, o->group };
		t->n++;
	}
	t->options[t->n] = (struct argp_option){ 0 };
}

static void table_done(struct table *t)
{
	free(t->rows);
	free(t->options);
}

/* --- unknown options -------------------------------------------------------------------------- */

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

/* argp adds these itself. */
static const struct argp_option argps_own[] = { { "help", '?' }, { "usage", 0 }, { "version", 'V' },
	{ 0 } };

/* Find an option as getopt_long(3) does, by its whole name or its beginning. An alias gives its
 * original. */
static const struct argp_option *find(const struct argp_option *options, const char *name)
{
	const struct argp_option *const tables[] = { options, argps_own };
	const struct argp_option *found = NULL;
	size_t len = strlen(name);

	for (size_t t = 0; t < ARRAY_LEN(tables); t++)
		for (const struct argp_option *o = tables[t]; !is_end(o); o++) {
			if (!o->name || strncmp(o->name, name, len) != 0)
				continue;
			if (strlen(o->name) == len)
				return origin(o);
			found = origin(o);
		}
	return found;
}

static const struct argp_option *find_letter(const struct argp_option *options, char letter)
{
	const struct argp_option *const tables[] = { options, argps_own };

	for (size_t t = 0; t < ARRAY_LEN(tables); t++)
		for (const struct argp_option *o = tables[t]; !is_end(o); o++)
			if (o->key == letter)
				return origin(o);
	return NULL;
}

/* What follows is about a command line that cannot be read. */
static void expect_usage_error(void)
{
	if (options_usage_status)
		argp_err_exit_status = options_usage_status;
}

__attribute__((noreturn)) static void fail(const char *name, struct mlr_error *err)
{
	const char *command = strchr(name, ' ');

	expect_usage_error();
	if (command)
		mlr_wrap(err, "%s", command + 1);
	mlr_log_error(err);
	exit(argp_err_exit_status);
}

__attribute__((noreturn)) static void refuse(const char *name, const char *option, const char *near)
{
	struct mlr_error err;

	mlr_fail(&err, EINVAL, "unknown option '%s'", option);
	if (near)
		mlr_hint(&err, "is --%s meant? %s --help lists the options", near, name);
	else
		mlr_hint(&err, "%s --help lists the options", name);
	fail(name, &err);
}

/* Is word one of those of an option whose value is optional, "private|host"? It may stand behind it
 * then. */
static int has_word(const struct argp_option *o, const char *word)
{
	size_t len = word ? strlen(word) : 0;
	const char *at = len && strchr(o->arg, '|') ? strstr(o->arg, word) : NULL;

	return at && (at == o->arg || at[-1] == '|') && (at[len] == '|' || !at[len]);
}

/* The walk through a command line before argp's. */
struct walk {
	const char *name, *command; /* "mlrun exec", "exec" */
	const struct argp_option *options;
	const struct options_syntax *syntax;
	char **begin, **at, **end; /* the first argument, the one that is looked at; the end */
};

static char *next_of(const struct walk *w)
{
	return w->at + 1 < w->end ? w->at[1] : NULL;
}

/* Remove n arguments. */
static void drop(struct walk *w, char **from, size_t n)
{
	memmove(from, from + n, (size_t)(w->end - from - (ptrdiff_t)n) * sizeof(*from));
	w->end -= n;
	*w->end = NULL;
}

/* Another program's option that the command lacks. value: in the same argument, or NULL. */
static enum options_foreign judge_foreign(
	const struct walk *w, const char *option, const char *value)
{
	return w->syntax->foreign ? w->syntax->foreign(w->command, option, value, next_of(w))
				  : OPTIONS_UNKNOWN;
}

/* "--quiet=true" is "--quiet"; argp accepts no value there. "--nv=false" takes back an earlier
 * "--nv". Returns the number of arguments that argp gets. */
static int check_switch(struct walk *w, char *value)
{
	int truth = config_truth(value);
	struct mlr_error err;

	if (truth >= 0)
		value[-1] = '\0';
	if (truth != 0)
		return 1;
	for (char **s = w->at - 1; w->syntax->has_false && s >= w->begin; s--)
		if (strcmp(*s, *w->at) == 0) {
			drop(w, s, 1);
			w->at--;
		}
	if (w->syntax->has_false) {
		drop(w, w->at, 1);
		return 0;
	}
	mlr_fail(&err, EINVAL, "%s is a switch, and off unless it is given", *w->at);
	fail(w->name, &err);
}

/* Refuse an unknown option, with the name of the most similar spelling. Returns the number of
 * arguments that argp gets: with the value of the option, if the next argument is that. */
static int check_long(struct walk *w)
{
	char *arg = *w->at, *next = next_of(w);
	size_t len = strcspn(arg, "=");
	char *value = arg[len] ? arg + len + 1 : NULL;
	auto_free char *option = xstrndup(arg, len);
	struct spelling s = spelling_of(option + 2, len - 2);
	const struct argp_option *o = find(w->options, option + 2);
	int is_whole = o && strlen(o->name) == len - 2;
	enum options_foreign f = is_whole ? OPTIONS_UNKNOWN : judge_foreign(w, option, value);

	if (f != OPTIONS_UNKNOWN) {
		drop(w, w->at, f == OPTIONS_WITH_VALUE && !value && next ? 2 : 1);
		return 0;
	}
	if (o && !o->arg && value)
		return check_switch(w, value);
	if (o && o->arg && o->flags & OPTION_ARG_OPTIONAL && !value)
		return 1 + has_word(o, next);
	if (o)
		return 1 + (o->arg && !value);
	for (o = w->options; !is_end(o); o++)
		if (o->name)
			spelling_try(&s, o->name);
	refuse(w->name, option, s.near);
}

/* The same of letters, "-it". */
static int check_letters(struct walk *w)
{
	for (char *letter = *w->at + 1; *letter;) {
		const char text[] = { '-', *letter, '\0' }, *value = letter[1] ? letter + 1 : NULL;
		const struct argp_option *o = find_letter(w->options, *letter);
		/* -V, by which argp prints the version, is another program's first. */
		enum options_foreign f =
			o && *letter != 'V' ? OPTIONS_UNKNOWN : judge_foreign(w, text, value);

		if (o && o->arg)
			return 1 + (!(o->flags & OPTION_ARG_OPTIONAL) && !value);
		if (!o && f == OPTIONS_UNKNOWN)
			refuse(w->name, text, NULL);
		if (f == OPTIONS_WITH_VALUE && !value && next_of(w))
			drop(w, w->at + 1, 1);
		if (f == OPTIONS_UNKNOWN)
			letter++;
		else if (f == OPTIONS_SWITCH)
			memmove(letter, letter + 1, strlen(letter));
		else /* of "-itp PORT" the letters before p stay */
			*letter = '\0';
	}
	if ((*w->at)[1])
		return 1;
	drop(w, w->at, 1);
	return 0;
}

/* Refuse unknown options, and remove those that change nothing. Returns the new argc. argv[argc]
 * need not be NULL: of `mlrun oci` the command follows. */
static int check_options(struct walk *w, int argc, char **argv)
{
	w->end = argv + argc;
	w->begin = argv + 1;
	for (w->at = w->begin; w->at < w->end && strcmp(*w->at, "--") != 0;)
		if (strncmp(*w->at, "--", 2) == 0)
			w->at += check_long(w);
		else if ((*w->at)[0] == '-' && (*w->at)[1])
			w->at += check_letters(w);
		else if (w->syntax->in_order)
			break;
		else
			w->at++;
	return (int)(w->end - argv);
}

/* --- parsing ---------------------------------------------------------------------------------- */

static error_t take_operand(struct parsing *p, char *arg, struct argp_state *state)
{
	const struct options_syntax *s = p->syntax;
	size_t i = p->operands++;

	if (s->operands[0].kind >= OPTION_LIST)
		i = 0;
	if (i < ARRAY_LEN(s->operands) && s->operands[i].kind != OPTION_NOWHERE)
		put(NULL, &s->operands[i], p->args, arg, state);
	else {
		expect_usage_error();
		if (!s->surplus)
			return ARGP_ERR_UNKNOWN;
		argp_error(state, "'%s': %s", arg, s->surplus);
	}
	return 0;
}

static void take_option(struct parsing *p, size_t i, char *arg, struct argp_state *state)
{
	const struct options_syntax *s = p->syntax;
	const struct option_row *row = &p->table->rows[i];

	if (s->seen && i >= p->table->first && i < p->table->first_end)
		s->seen(p->args, row->name, arg);
	put(row->name, &row->to, p->args, arg, state);
	if (row->given)
		*(unsigned *)((char *)p->args + s->given) |= row->given;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsing *p = state->input;
	const struct options_syntax *s = p->syntax;

	if (key == ARGP_KEY_ARG)
		return take_operand(p, arg, state);
	if (key == ARGP_KEY_END) {
		int status = argp_err_exit_status;

		expect_usage_error();
		if (p->operands < s->needed)
			argp_error(state, "%s", s->missing);
		if (s->check)
			s->check(p->args, state);
		argp_err_exit_status = status;
		return 0;
	}
	for (size_t i = 0; i < p->table->n; i++)
		if (key > 0 && p->table->options[i].key == key) {
			take_option(p, i, arg, state);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

void options_parse(
	const char *name, int argc, char **argv, const struct options_syntax *syntax, void *args)
{
	auto_call(table_done) struct table t = { 0 };
	struct parsing p = { syntax, &t, args, 0 };
	struct argp argp = { .parser = parse, .args_doc = syntax->args_doc, .doc = syntax->doc };
	char *command = argv[0];
	static char help[] = "--help";
	struct walk w = { .name = name, .command = command, .syntax = syntax };

	table_add(&t, syntax->options, 0);
	t.first = t.n;
	for (size_t i = 0; i < OPTIONS_SHARED; i++) {
		table_add(&t, syntax->shared[i].rows, syntax->shared[i].at);
		t.first_end = i ? t.first_end : t.n;
	}
	argp.options = t.options;
	if (argc == 2 && strcmp(argv[1], "-h") == 0)
		argv[1] = help;
	w.options = t.options;
	argc = check_options(&w, argc, argv);
	argv[0] = (char *)name; /* for argp's messages */
	argp_parse(&argp, argc, argv, syntax->in_order ? ARGP_IN_ORDER : 0, NULL, &p);
	argv[0] = command;
}
