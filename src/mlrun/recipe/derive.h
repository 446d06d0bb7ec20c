/*
 * Makes an image's configuration from another: adds a layer, and does what instructions say.
 * Serves mlrun build, and docker-container-commit(1)'s --change.
 */
#pragma once

#include "recipe/instruction.h"

struct derive {
	const char *diff_id;    /* of the new layer; NULL: adds none */
	const char *created;    /* RFC 3339 */
	const char *created_by; /* for the history */
	const char *author;     /* NULL: unchanged */
	const char *comment;    /* for the history, or NULL */
	const struct instruction *changes;
	size_t n_changes;
	int drop_triggers; /* remove OnBuild: the triggers have run */
	int keep_cmd;      /* ENTRYPOINT leaves the command: it was set in the same stage */
	/* Variables that the configuration's Env does not have; NULL: none. */
	expand_get_fn get;
	void *ctx;
	char escape; /* 0: '\\' */
};

/* Parse changes written as lines: ret gets an instruction for each. Returns 0, or -EINVAL with the
 * change at fault; ret then has those before it. */
int derive_parse(
	const struct strv *lines, struct instruction **ret, size_t *n, struct mlr_error *err);

/*
 * Make a new configuration.
 *
 *   json  the original configuration, len bytes
 *   ret   the new one, a string to free()
 *
 * Changes are applied in order; each sees the variables that those before it set. A command that is
 * no JSON array is a line for the image's Shell, else /bin/sh -c. ONBUILD, HEALTHCHECK and SHELL
 * set members that Docker has and OCI lacks. As in a Dockerfile, ENTRYPOINT drops the image's Cmd
 * unless the changes set CMD, too.
 *
 * Returns 0; -EINVAL naming an invalid change; oci_config_parse()'s errors.
 */
int derive_config(
	const char *json, size_t len, const struct derive *d, char **ret, struct mlr_error *err);
