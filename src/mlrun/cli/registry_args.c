#include "cli/registry_args.h"

#include <errno.h>
#include <string.h>

static void parse_tls_verify(void *args, char *arg, struct argp_state *state)
{
	struct cli_registry *r = args;

	r->tls_verify = arg ? config_truth(arg) : 1;
	r->bare_tls_verify = !arg;
	if (r->tls_verify < 0)
		argp_error(state, "--tls-verify takes true or false, not '%s'", arg);
}

const struct cli_option cli_registry_rows[] = {
	{ "tls-verify", 0, "BOOL", OPTION_ARG_OPTIONAL,
		"false: accept any certificate, and plain HTTP; default: true", 80,
		CLI_TO_CALL(parse_tls_verify) },
	{ "authfile", 0, "FILE", 0,
		"whose credentials to use; default: $REGISTRY_AUTH_FILE, else podman's, Docker's",
		80, CLI_TO(struct cli_registry, authfile) },
	{ 0 },
};

int cli_registry_load(struct cli_registry *r, const char *first, struct mlr_error *err)
{
	if (r->bare_tls_verify && first &&
		(strcmp(first, "true") == 0 || strcmp(first, "false") == 0)) {
		mlr_fail(err, EINVAL, "--tls-verify %s: '%s' stands where a name is expected",
			first, first);
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
