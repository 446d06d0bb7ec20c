/*
 * The configuration: /etc/mlrun/mlrun.conf (SYSCONFDIR), then $XDG_CONFIG_HOME/mlrun/mlrun.conf
 * (~/.config/mlrun/mlrun.conf), INI as libinih reads it; a later value of a key wins, except for
 * lists, whose values add up. $MLRUN_CONFIG names one file to be read instead of both.
 *
 *   store = DIR
 *   additional_stores = DIR:DIR…    (list)
 *   [exec]                          what mlrun exec does unless an option says otherwise
 *   volume = SRC[:DST[:FLAGS]]      (list); with the flag "optional" SRC may be missing
 *   env = K[=V]                     (list)
 *   unset_env = GLOB                (list)
 *   gpu = auto | all | none | LIST  as --gpu
 *   home = true                     as --home
 *   mpi = auto | none               as --mpi
 *   pull = missing | always | never as --pull
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

#include "base/config_value.h"
#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>

struct config_value {
	char *section;     /* "" at the top, "exec", "registry quay.io" */
	char *key, *value; /* value: never empty, as config_judge() gives it */
	char *file;        /* where it stands */
	int line;
	int is_sites; /* it stands in the site's file */
};

struct config {
	struct config_value *v; /* n of them, in the order of reading */
	size_t n;
};

#define CONFIG_INIT     \
	{               \
		NULL, 0 \
	}

/* A setting that there is. */
struct config_key {
	const char *section; /* "", "exec", "registry": that of each [registry HOST] */
	const char *key;
	enum config_kind kind;
	int is_list;
	const char *variable; /* the environment variable that wins over the files, or NULL */
	const char *standard; /* what holds when nobody says anything, or NULL */
};

/* All of them, *n. */
const struct config_key *config_keys(size_t *n);

/* Read what is there. Returns 0 (no file at all is fine, nor one of the user's in a directory that
 * may not be looked into: that is warned of), -EPROTO, -EACCES and the like. */
int config_load(struct config *ret, struct mlr_error *err);
void config_done(struct config *c);

/* The names of the files that config_load() reads, whether they are there or not, in its order. */
void config_files(struct strv *ret);

/* The text of one file, added to ret; file is its name for messages. What config_load() does for
 * each, apart. Returns 0 or -EPROTO; ret then holds what came before, to config_done(). */
int config_parse(
	struct config *ret, const char *text, size_t len, const char *file, struct mlr_error *err);

/* The value that wins, or NULL. Letter case does not matter in a section's name. */
const struct config_value *config_get(const struct config *c, const char *section, const char *key);

/* All values of a list, in order; directories that a ':' divides are several. */
void config_list(const struct config *c, const char *section, const char *key, struct strv *ret);

/* Who has set it, as struct plan spells origins: "site" or "config". */
const char *config_origin(const struct config_value *v);

/*
 * The one word that holds for a setting which is no list: its environment variable's, the files',
 * or the standard one.
 *
 *   c       may be NULL: no files
 *   ret     to free(); NULL when there is none
 *   origin  "config" (the environment variable too), "site", "default"
 *
 * Returns 0, or -EINVAL for an environment variable that is set to what it may not.
 */
int config_word(const struct config *c, const char *section, const char *key, char **ret,
	const char **origin, struct mlr_error *err);

#endif
