/*
 * The configuration: /etc/mlrun/mlrun.conf (SYSCONFDIR), then $XDG_CONFIG_HOME/mlrun/mlrun.conf
 * (~/.config/mlrun/mlrun.conf), INI as libinih reads it; a later value of a key wins, except for
 * lists, whose values add up. $MLRUN_CONFIG names one file to be read instead of both.
 *
 *   store = DIR
 *   additional_stores = DIR:DIR…    (list)
 *   [registry HOST[:PORT]]
 *   mirror = HOST[:PORT][/PREFIX]   asked first, in this order (list)
 *   insecure = true                 plain HTTP and any certificate
 *   timeout = SECONDS               without a byte: a connection counts as broken
 *   token_server = HOST             may be told the credentials, though of another site (list)
 *   ca = FILE  client_cert = FILE  client_key = FILE
 *
 * Names of files and directories are absolute; they may begin with "~/" and hold "$NAME" or
 * "${NAME}", which an environment variable replaces (store = /scratch/$USER/mlrun).
 *
 * A key that mlrun does not know is an error that names file and line: a misspelt setting of a site
 * must not be passed over in silence. So is a user's file that others may write to.
 */
#ifndef MLR_BASE_CONFIG_H
#define MLR_BASE_CONFIG_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>

struct config_value {
	char *section;     /* "" at the top, "registry quay.io" */
	char *key, *value; /* value: never empty, variables replaced; insecure's: true, false */
	char *file;        /* where it stands */
	int line;
};

struct config {
	struct config_value *v; /* n of them, in the order of reading */
	size_t n;
};

#define CONFIG_INIT { NULL, 0 }

/* "true", "yes", "on", "1": 1; "false", "no", "off", "0": 0; in any case of letters. Else -1. */
int config_truth(const char *word);

/* Read what is there. Returns 0 (no file at all is fine, nor one of the user's in a directory that may
 * not be looked into: that is warned of), -EPROTO, -EACCES and the like. */
int config_load(struct config *ret, struct mlr_error *err);
void config_done(struct config *c);

/* The text of one file, added to ret; file is its name for messages. What config_load() does for
 * each, apart. Returns 0 or -EPROTO; ret then holds what came before, to config_done(). */
int config_parse(struct config *ret, const char *text, size_t len, const char *file,
	struct mlr_error *err);

/* The value that wins, or NULL. Letter case does not matter in a section's name. */
const struct config_value *config_get(const struct config *c, const char *section, const char *key);

/* All values of a list, in order; directories that a ':' divides are several. */
void config_list(const struct config *c, const char *section, const char *key, struct strv *ret);

#endif
