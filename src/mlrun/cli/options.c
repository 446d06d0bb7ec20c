#include "cli/options.h"

#include "cli/registry_args.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <stdlib.h>

#define KEYS 0x100 /* an option without a letter has this key and its row's number */

struct parsing {
	const struct cli_syntax *syntax;
	void *args;
	size_t operands; /* so many were met */
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

static void put(const struct cli_target *to, void *args, char *arg, struct argp_state *state)
{
	char *field = (char *)args + to->at;

	if (to->kind == CLI_SET)
		*(int *)(void *)field = to->value;
	else if (to->kind == CLI_WORD)
		*(const char **)(void *)field = arg;
	else if (to->kind == CLI_LIST)
		strv_add((struct strv *)(void *)field, arg);
	else if (to->kind == CLI_CALL)
		to->call(args, arg, state);
}

static int is_end(const struct cli_option *o)
{
	return !o->name && !o->letter && !o->doc && !o->group;
}

/* Aliases and headings have no key. */
static int key_of(const struct cli_option *options, const struct cli_option *o)
{
	if (o->letter)
		return o->letter;
	return o->name && !(o->flags & OPTION_ALIAS) ? KEYS + (int)(o - options) : 0;
}

static struct argp_option *to_argp(const struct cli_option *options)
{
	struct argp_option *v;
	size_t n = 0;

	while (options && !is_end(&options[n]))
		n++;
	v = xcalloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		const struct cli_option *o = &options[i];

		v[i] = (struct argp_option){ o->name, key_of(options, o), o->arg, o->flags, o->doc,
			o->group };
	}
	return v;
}

static void take_operand(struct parsing *p, char *arg, struct argp_state *state)
{
	const struct cli_syntax *s = p->syntax;
	size_t i = p->operands++;

	if (s->operands[0].kind >= CLI_LIST)
		i = 0;
	if (i >= ARRAY_LEN(s->operands) || s->operands[i].kind == CLI_NOWHERE)
		argp_error(state, "%s", s->surplus);
	else
		put(&s->operands[i], p->args, arg, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsing *p = state->input;
	const struct cli_syntax *s = p->syntax;

	switch (key) {
	case ARGP_KEY_INIT:
		if (s->registry)
			state->child_inputs[0] = (char *)p->args + s->registry;
		if (!s->no_store)
			state->child_inputs[s->registry != 0] = p->args;
		return 0;
	case ARGP_KEY_ARG:
		take_operand(p, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (p->operands < s->needed)
			argp_error(state, "%s", s->missing);
		if (s->check)
			s->check(p->args, state);
		return 0;
	default:
		break;
	}
	for (const struct cli_option *o = s->options; key > 0 && o && !is_end(o); o++)
		if (key_of(s->options, o) == key) {
			put(&o->to, p->args, arg, state);
			return 0;
		}
	return ARGP_ERR_UNKNOWN;
}

void cli_options_parse(int argc, char **argv, const struct cli_syntax *syntax, void *args)
{
	auto_free struct argp_option *options = to_argp(syntax->options);
	struct parsing p = { syntax, args, 0 };
	const struct argp argp = { .options = options,
		.parser = parse,
		.args_doc = syntax->args_doc,
		.doc = syntax->doc,
		.children = syntax->registry ? cli_registry_children
			: syntax->no_store   ? NULL
					     : cli_common_children };

	if (syntax->look)
		syntax->look(&argc, argv, options);
	cli_parse(&argp, argc, argv, syntax->in_order ? ARGP_IN_ORDER : 0, &p);
}

void cli_parse_listing(int argc, char **argv, const char *doc, struct cli_listing *ret)
{
	static const struct cli_option options[] = { CLI_OPTION_JSON(struct cli_listing), { 0 } };
	const struct cli_syntax syntax = {
		.options = options, .doc = doc, .surplus = "no argument is expected"
	};

	cli_options_parse(argc, argv, &syntax, ret);
}
