#include "cli/registry_args.h"

#include "cli/common.h"

#include <errno.h>
#include <string.h>

enum { KEY_TLS_VERIFY = 0x2000, KEY_AUTHFILE };

static const struct argp_option options[] = {
	{ "tls-verify", KEY_TLS_VERIFY, "BOOL", OPTION_ARG_OPTIONAL,
		"false: accept any certificate, and plain HTTP; default: true", 80 },
	{ "authfile", KEY_AUTHFILE, "FILE", 0,
		"whose credentials to use; default: $REGISTRY_AUTH_FILE, else podman's, Docker's",
		80 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct cli_registry *r = state->input;

	switch (key) {
	case KEY_TLS_VERIFY:
		r->tls_verify = arg ? config_truth(arg) : 1;
		r->bare_tls_verify = !arg;
		if (r->tls_verify < 0)
			argp_error(state, "--tls-verify takes true or false, not '%s'", arg);
		return 0;
	case KEY_AUTHFILE:
		r->authfile = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = { .options = options, .parser = parse_option };

const struct argp_child cli_registry_children[] = { { &argp, 0, NULL, 80 },
	{ &cli_common_argp, 0, NULL, 90 }, { 0 } };

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
