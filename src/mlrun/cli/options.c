#include "cli/options.h"

#include "base/base.h"
#include "cli/cli.h"
#include "cli/foreign.h"

#define KEYS 0x100 /* key of an option without a letter, plus its row's number */

/* All rows of a command: its own and the shared ones. */
struct table {
	struct cli_option *rows; /* targets are offsets in the command's struct */
	struct argp_option *options;
	size_t n, more, more_end; /* those of syntax->more: from, to */
};

struct parsing {
	const struct cli_syntax *syntax;
	const struct table *table;
	void *args;
	size_t operands; /* number of operands seen */
};

static void be_verbose(void *args, char *arg, struct argp_state *state)
{
	(void)args;
	(void)arg;
	(void)state;
	mlr_log_level = MLR_DEBUG;
}

static const struct cli_option common_options[] = {
	{ "store", 0, "DIR", 0,
		"the store; default: $MLRUN_STORE, else that of mlrun.conf, else ~/.local/share/mlrun",
		90, CLI_TO(struct cli_common, store) },
	{ "verbose", 0, 0, 0, "print every step on stderr", 90, CLI_TO_CALL(be_verbose) },
	{ 0 },
};

static void parse_tls_verify(void *args, char *arg, struct argp_state *state)
{
	struct cli_registry *r = args;

	r->tls_verify = arg ? config_truth(arg) : 1;
	r->bare_tls_verify = !arg;
	if (r->tls_verify < 0)
		argp_error(state, "--tls-verify takes true or false, not '%s'", arg);
}

static const struct cli_option registry_rows[] = {
	{ "tls-verify", 0, "BOOL", OPTION_ARG_OPTIONAL,
		"false: accept any certificate, and plain HTTP; default: true", 80,
		CLI_TO_CALL(parse_tls_verify) },
	{ "authfile", 0, "FILE", 0,
		"whose credentials to use; default: $REGISTRY_AUTH_FILE, else podman's, Docker's",
		80, CLI_TO(struct cli_registry, authfile) },
	{ 0 },
};

void cli_options_be_quiet(void *args, char *arg, struct argp_state *state)
{
	struct cli_common *common = args;

	(void)arg;
	(void)state;
	common->quiet = 1;
	cli_be_quiet();
}

long cli_options_number(const char *text, long min, long max)
{
	char *end;
	long n = strtol(text, &end, 10);

	return end == text || *end || n < min || n > max ? -1 : n;
}

long cli_options_interval(const char *arg, const struct argp_state *state)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= 0.1 && v <= 86400))
		argp_error(state, "--interval takes seconds from 0.1 to 86400, not '%s'", arg);
	return (long)(v * 1000 + 0.5);
}

/* Aliases and headings have no key. */
static int key_of(const struct cli_option *o, size_t row)
{
	if (o->letter)
		return o->letter;
	return o->name && !(o->flags & OPTION_ALIAS) ? KEYS + (int)row : 0;
}

/* Add rows; their targets are in a struct at offset at of the command's. */
static void table_add(struct table *t, const struct cli_option *o, size_t at)
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

static void put(const struct cli_target *to, void *args, char *arg, struct argp_state *state)
{
	void *field = (char *)args + to->at;

	if (to->kind == CLI_SET)
		*(int *)field = to->value;
	else if (to->kind == CLI_WORD)
		*(const char **)field = arg;
	else if (to->kind == CLI_LIST)
		strv_add(field, arg);
	else if (to->kind == CLI_CALL)
		to->call(field, arg, state);
}

static error_t take_operand(struct parsing *p, char *arg, struct argp_state *state)
{
	const struct cli_syntax *s = p->syntax;
	size_t i = p->operands++;

	if (s->operands[0].kind >= CLI_LIST)
		i = 0;
	if (i < ARRAY_LEN(s->operands) && s->operands[i].kind != CLI_NOWHERE)
		put(&s->operands[i], p->args, arg, state);
	else if (s->surplus)
		argp_error(state, "%s", s->surplus);
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsing *p = state->input;
	const struct cli_syntax *s = p->syntax;

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
			if (s->seen && i >= p->table->more && i < p->table->more_end)
				s->seen(p->args, p->table->rows[i].name, arg);
			put(&p->table->rows[i].to, p->args, arg, state);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

static int wants_value(const struct argp_option *options, char letter)
{
	for (const struct argp_option *o = options; o->name || o->key || o->doc; o++)
		if (o->key == letter)
			return o->arg != NULL;
	return 0;
}

/* Refuse an option that other programs' commands of this name have, with what to type instead. */
static void refuse_foreign(int argc, char **argv, const struct argp_option *options)
{
	struct mlr_error err;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		int is_long = argv[i][0] == '-' && argv[i][1] == '-';
		size_t letters = argv[i][0] == '-' && !is_long ? strlen(argv[i] + 1) : 0;

		/* Letters may stand together, as in "-aq"; what follows one that wants a value is
		 * that. */
		for (size_t n = 0; is_long ? n < 1 : n < letters; n++) {
			const char letter[] = { '-', argv[i][1 + n], '\0' };
			const char *option = is_long ? argv[i] : letter;
			const char *instead = foreign_option(argv[0], option);

			if (!instead && !is_long && wants_value(options, letter[1]))
				break;
			if (!instead)
				continue;
			mlr_fail(&err, EINVAL, "%s: mlrun has no %.*s", argv[0],
				(int)strcspn(option, "="), option);
			mlr_hint(&err, "%s", instead);
			exit(cli_fail(&err));
		}
	}
}

void cli_options_parse(int argc, char **argv, const struct cli_syntax *syntax, void *args)
{
	auto_call(table_done) struct table t = { 0 };
	struct parsing p = { syntax, &t, args, 0 };
	struct argp argp = { .parser = parse, .args_doc = syntax->args_doc, .doc = syntax->doc };
	auto_free char *name = xasprintf("mlrun %s", argv[0]);
	char *command = argv[0];
	static char help[] = "--help";

	table_add(&t, syntax->options, 0);
	t.more = t.n;
	table_add(&t, syntax->more, 0);
	t.more_end = t.n;
	if (syntax->registry)
		table_add(&t, registry_rows, syntax->registry);
	if (!syntax->no_store)
		table_add(&t, common_options, 0);
	argp.options = t.options;
	if (syntax->look)
		syntax->look(&argc, argv, t.options);
	refuse_foreign(argc, argv, t.options);
	if (argc == 2 && strcmp(argv[1], "-h") == 0)
		argv[1] = help;
	argv[0] = name; /* for argp's messages */
	argp_parse(&argp, argc, argv, syntax->in_order ? ARGP_IN_ORDER : 0, NULL, &p);
	argv[0] = command;
}

void cli_parse_listing(int argc, char **argv, const char *doc, struct cli_listing *ret)
{
	static const struct cli_option options[] = { CLI_OPTION_JSON(struct cli_listing), { 0 } };
	const struct cli_syntax syntax = {
		.options = options, .doc = doc, .surplus = "expected no argument"
	};

	cli_options_parse(argc, argv, &syntax, ret);
}

int cli_registry_load(struct cli_registry *r, const char *first, struct mlr_error *err)
{
	if (r->bare_tls_verify && first &&
		(strcmp(first, "true") == 0 || strcmp(first, "false") == 0)) {
		mlr_fail(err, EINVAL, "--tls-verify %s: '%s' is not a name", first, first);
		return mlr_hint(err, "write --tls-verify=%s", first);
	}
	return config_load(&r->config, err);
}

void cli_registry_done(struct cli_registry *r)
{
	config_done(&r->config);
}

struct registry_options cli_registry_options(const struct cli_registry *r)
{
	return (struct registry_options){
		.tls_verify = r->tls_verify, .authfile = r->authfile, .config = &r->config
	};
}
