#include "cli/options.h"

#include "cli/cli.h"
#include "cli/foreign.h"

void cli_options_be_verbose(void *args, char *arg, struct argp_state *state)
{
	mlr_log_level = MLR_DEBUG;
}

static const struct option_row common_options[] = {
	{ "store", 0, "DIR", 0,
		"the store; default: $MLRUN_STORE, else that of mlrun.conf, else ~/.local/share/mlrun",
		90, OPT(struct cli_common, store) },
	{ "verbose", 0, 0, 0, "print every step on stderr", 90, OPT_CALL(cli_options_be_verbose) },
	{ 0 },
};

static void parse_tls_verify(void *args, char *arg, struct argp_state *state)
{
	struct cli_registry *r = args;

	r->options.tls_verify = arg ? config_truth(arg) : 1;
	r->bare_tls_verify = !arg;
	if (r->options.tls_verify < 0)
		argp_error(state, "--tls-verify takes true or false, not '%s'", arg);
}

static const struct option_row registry_rows[] = {
	{ "tls-verify", 0, "BOOL", OPTION_ARG_OPTIONAL,
		"false: accept any certificate, and plain HTTP; default: true", 80,
		OPT_CALL(parse_tls_verify) },
	{ "authfile", 0, "FILE", 0,
		"whose credentials to use; default: $REGISTRY_AUTH_FILE, else podman's, Docker's",
		80, OPT(struct cli_registry, options.authfile) },
	{ 0 },
};

void cli_options_be_quiet(void *args, char *arg, struct argp_state *state)
{
	struct cli_common *common = args;

	common->quiet = 1;
	cli_be_quiet();
}

void cli_options_interval(void *field, char *arg, struct argp_state *state)
{
	*(long *)field = (long)(options_real(state, "interval", arg, 0.1, 86400) * 1000 + 0.5);
}

void cli_options_parse(int argc, char **argv, const struct cli_syntax *syntax, void *args)
{
	auto_free char *name = xasprintf("mlrun %s", argv[0]);
	struct options_syntax s = syntax->s;

	if (syntax->registry)
		s.shared[1] = (struct options_table){ registry_rows, syntax->registry };
	if (!syntax->no_store)
		s.shared[2] = (struct options_table){ common_options, 0 };
	s.foreign = foreign_option;
	options_parse(name, argc, argv, &s, args);
}

void cli_parse_listing(int argc, char **argv, const char *doc, struct cli_listing *ret)
{
	static const struct option_row options[] = { CLI_OPTION_JSON(struct cli_listing), { 0 } };
	const struct cli_syntax syntax = {
		.s.options = options, .s.doc = doc, .s.surplus = "expected no argument"
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
	r->options.config = &r->config;
	return config_load(&r->config, err);
}
