#include "base/options.h"

#include "base/base.h"
#include "base/duration.h"
#include "base/spelling.h"

#define KEYS 0x100 /* key of an option without a letter, plus its row's number */

/* All rows of a command: its own and the shared ones. */
struct table {
	struct option_row *rows; /* targets are offsets in the command's struct */
	struct argp_option *options;
	size_t n, first, first_end; /* those of shared[0]: from, to */
};

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
		*(int *)field = options_word(state, option, arg, to->words);
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

const struct argp_option *options_find(
	const struct argp_option *options, const char *name, size_t len, int *several)
{
	const struct argp_option *const tables[] = { options, argps_own };
	const struct argp_option *found = NULL;

	*several = 0;
	for (size_t t = 0; t < ARRAY_LEN(tables); t++)
		for (const struct argp_option *o = tables[t]; !is_end(o); o++) {
			if (!o->name || strncmp(o->name, name, len) != 0)
				continue;
			if (strlen(o->name) == len)
				return origin(o);
			*several |= found && found != origin(o);
			found = origin(o);
		}
	return found;
}

const struct argp_option *options_find_letter(const struct argp_option *options, char letter)
{
	const struct argp_option *const tables[] = { options, argps_own };

	for (size_t t = 0; t < ARRAY_LEN(tables); t++)
		for (const struct argp_option *o = tables[t]; !is_end(o); o++)
			if (o->key == letter)
				return origin(o);
	return NULL;
}

static void refuse(const char *name, const char *option, size_t len, const char *near)
	__attribute__((noreturn));
static void refuse(const char *name, const char *option, size_t len, const char *near)
{
	struct mlr_error err = MLR_ERROR_INIT;
	const char *command = strchr(name, ' ');

	mlr_fail(&err, EINVAL, "unknown option '%.*s'", (int)len, option);
	if (near)
		mlr_hint(&err, "is --%s meant? %s --help lists the options", near, name);
	else
		mlr_hint(&err, "%s --help lists the options", name);
	if (command)
		mlr_wrap(&err, "%s", command + 1);
	mlr_log_error(&err);
	exit(argp_err_exit_status);
}

int options_has_word(const struct argp_option *o, const char *word)
{
	size_t len = word ? strlen(word) : 0;
	const char *at = len && strchr(o->arg, '|') ? strstr(o->arg, word) : NULL;

	return at && (at == o->arg || at[-1] == '|') && (at[len] == '|' || !at[len]);
}

/* Refuse an unknown option, with the name of the most similar spelling. Returns whether the next
 * argument is the value of this one. */
static int check_long(
	const char *name, const char *arg, const char *next, const struct argp_option *options)
{
	size_t len = strcspn(arg + 2, "=");
	struct spelling s = spelling_of(arg + 2, len);
	int several;
	const struct argp_option *o = options_find(options, arg + 2, len, &several);

	if (o && o->arg && o->flags & OPTION_ARG_OPTIONAL && !arg[2 + len])
		return options_has_word(o, next);
	if (o)
		return o->arg && !arg[2 + len];
	for (o = options; !is_end(o); o++)
		if (o->name)
			spelling_try(&s, o->name);
	refuse(name, arg, 2 + len, s.near);
}

/* The same of letters, "-it". */
static int check_letters(const char *name, const char *arg, const struct argp_option *options)
{
	for (const char *letter = arg + 1; *letter; letter++) {
		const char text[] = { '-', *letter, '\0' };
		const struct argp_option *o = options_find_letter(options, *letter);

		if (!o)
			refuse(name, text, 2, NULL);
		if (o->arg)
			return !(o->flags & OPTION_ARG_OPTIONAL) && !letter[1];
	}
	return 0;
}

/* argv[argc] need not be NULL: of `mlrun oci` the command follows. */
static void check_spelling(
	const char *name, int argc, char **argv, const struct argp_option *options, int in_order)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strncmp(argv[i], "--", 2) == 0)
			i += check_long(name, argv[i], i + 1 < argc ? argv[i + 1] : NULL, options);
		else if (argv[i][0] == '-' && argv[i][1])
			i += check_letters(name, argv[i], options);
		else if (in_order)
			break;
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
	else if (s->surplus)
		argp_error(state, "'%s': %s", arg, s->surplus);
	else
		return ARGP_ERR_UNKNOWN;
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
		if (p->operands < s->needed)
			argp_error(state, "%s", s->missing);
		if (s->check)
			s->check(p->args, state);
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

	table_add(&t, syntax->options, 0);
	t.first = t.n;
	for (size_t i = 0; i < OPTIONS_SHARED; i++) {
		table_add(&t, syntax->shared[i].rows, syntax->shared[i].at);
		t.first_end = i ? t.first_end : t.n;
	}
	argp.options = t.options;
	if (syntax->look)
		syntax->look(&argc, argv, t.options);
	if (argc == 2 && strcmp(argv[1], "-h") == 0)
		argv[1] = help;
	check_spelling(name, argc, argv, t.options, syntax->in_order);
	argv[0] = (char *)name; /* for argp's messages */
	argp_parse(&argp, argc, argv, syntax->in_order ? ARGP_IN_ORDER : 0, NULL, &p);
	argv[0] = command;
}
