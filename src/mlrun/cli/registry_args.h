/*
 * What every command that asks a registry shares: --tls-verify, --authfile, and mlrun.conf.
 */
#ifndef MLR_CLI_REGISTRY_ARGS_H
#define MLR_CLI_REGISTRY_ARGS_H

#include "base/config.h"
#include "base/error.h"
#include "cli/options.h"
#include "registry/registry.h"

struct cli_registry {
	int tls_verify, bare_tls_verify; /* the latter: it stood without =BOOL */
	const char *authfile;
	struct config config;
};

#define CLI_REGISTRY_INIT               \
	{                               \
		1, 0, NULL, CONFIG_INIT \
	}

/* Their rows in a command's table (struct cli_syntax). */
extern const struct cli_option cli_registry_rows[];

/*
 * After the parsing: look for "--tls-verify false", which would ask for something named "false",
 * and read mlrun.conf.
 *
 *   first  the first argument that is no option, or NULL
 *
 * Returns 0, -EINVAL, or config_load()'s errors.
 */
int cli_registry_load(struct cli_registry *r, const char *first, struct mlr_error *err);
void cli_registry_done(struct cli_registry *r);

/* For registry_new(); borrows from r. */
struct registry_options cli_registry_options(const struct cli_registry *r);

#endif
