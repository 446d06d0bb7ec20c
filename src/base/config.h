/*
 * The configuration: /etc/mlrun/mlrun.conf (SYSCONFDIR), then $XDG_CONFIG_HOME/mlrun/mlrun.conf
 * (~/.config/mlrun/mlrun.conf), INI as libinih reads it. A key's last value wins; the values of a
 * list add up. $MLRUN_CONFIG names one file to read instead of both.
 *
 *   store = DIR
 *   additional_stores = DIR:DIR…    (list)
 *   runs = DIR                      of mlrun web
 *   [exec]                          defaults of mlrun exec's options
 *   volume = SRC[:DST[:FLAGS]]      (list); with the flag "optional" SRC may be missing
 *   env = K[=V]                     (list)
 *   unset_env = GLOB                (list)
 *   gpu = auto | all | none | LIST  as --gpu
 *   home = true                     as --home
 *   mpi = auto | none | host[:LEVEL]  as --mpi
 *   pull = missing | always | never as --pull
 *   record = true                   keep a job's starts for mlrun rerun
 *   [mpi]                           for --mpi=host
 *   libraries = PATH:PATH…          directories or files of the machine's MPI (list)
 *   compatibility = major | full | strict
 *   [apptainer]                     for definition files
 *   library = HOST[/PREFIX]         has the images of "Bootstrap: library"
 *   [build]                         what every RUN of mlrun build gets
 *   volume, env                     as in [exec]
 *   ca = FILE                       CA certificates; default: the machine's
 *   [registry HOST[:PORT]]
 *   mirror = HOST[:PORT][/PREFIX]   tried first, in this order (list)
 *   insecure = true                 allow plain HTTP and any certificate
 *   timeout = SECONDS               without a byte, until a connection counts as broken
 *   token_server = HOST             may get the credentials, even on another site (list)
 *   ca = FILE  client_cert = FILE  client_key = FILE
 *
 * Paths are absolute. They may begin with "~/" and contain "$NAME" or "${NAME}" for an environment
 * variable (store = /scratch/$USER/mlrun).
 *
 * An unknown key is an error that names file and line, so that a misspelt site setting is noticed.
 * A user's file that other users may write to is an error, too.
 */
#pragma once

#include "base/config_value.h"
#include "base/strv.h"

struct config_value {
	char *section;     /* "" at the top, "exec", "registry quay.io" */
	char *key, *value; /* value: never empty, as config_judge() returns it */
	char *file;        /* the file that sets it */
	int line;
	int is_sites; /* the file is the site's */
};

struct config {
	struct config_value *v; /* n of them, in the order read */
	size_t n;
};

/* A known setting. */
struct config_key {
	const char *section; /* "", "exec", "registry": that of each [registry HOST] */
	const char *key;
	enum config_kind kind;
	int is_list;
	const char *variable; /* the environment variable that overrides the files, or NULL */
	const char *standard; /* the default, or NULL */
};

/* All known settings, *n of them. */
const struct config_key *config_keys(size_t *n);

/* Read the files that exist. Returns 0, -EPROTO, -EACCES and the like. It is no error if there are
 * no files, or if the user's is in a directory that may not be searched; the latter gives a
 * warning. */
int config_load(struct config *ret, struct mlr_error *err);
void config_done(struct config *c);

/* The names of the files that config_load() reads, in its order, whether they exist or not. */
void config_files(struct strv *ret);

/* Parse the text of one file and add it to ret; file is its name for messages. config_load() does
 * this for each file. Returns 0 or -EPROTO; ret then holds the values before the error, to
 * config_done(). */
int config_parse(
	struct config *ret, const char *text, size_t len, const char *file, struct mlr_error *err);

/* The value in force, or NULL. Section names ignore case. */
const struct config_value *config_get(const struct config *c, const char *section, const char *key);

/* All values of a list, in order; ':' separates directories. */
void config_list(const struct config *c, const char *section, const char *key, struct strv *ret);

/* Where a value comes from, for people: "site" or "config". */
const char *config_origin(const struct config_value *v);

/*
 * The value in force of a setting that is not a list: from its environment variable, the files, or
 * the default.
 *
 *   c         may be NULL: no files
 *   ret       to free(); NULL if there is none
 *   is_sites  does the site's file say it?
 *
 * Returns 0, or -EINVAL for an invalid value of the environment variable.
 */
int config_word(const struct config *c, const char *section, const char *key, char **ret,
	int *is_sites, struct mlr_error *err);
