/*
 * What several commands share: the options that all take, and how sizes, times and stored documents
 * are shown. Links nothing heavy.
 */
#ifndef MLR_CLI_COMMON_H
#define MLR_CLI_COMMON_H

#include "base/error.h"
#include "oci/manifest.h"
#include "oci/ref.h"
#include "store/image.h"
#include "store/store.h"
#include "store/stores.h"

#include <jansson.h>
#include <stdint.h>

/* What all commands take; their structs begin with it. */
struct cli_common {
	const char *store; /* --store, or NULL */
	int quiet;         /* -q, where a command has that */
};

/* The arguments of a command that lists something: --json, --store and --verbose, and nothing
 * else. */
struct cli_listing {
	struct cli_common common;
	int json;
};

/* Parse them; doc as in struct argp. Ends the program when they are wrong. */
void cli_parse_listing(int argc, char **argv, const char *doc, struct cli_listing *ret);

/* "500MB", "100G", "2TiB", "1000": bytes; k, M, G and T are powers of 1000, KiB and so on of 1024.
 * "90m", "12h", "30d", "8w", "30s": seconds. -1 for anything else. */
int64_t cli_parse_size(const char *s);
int64_t cli_parse_age(const char *s);

#define CLI_SIZE_SIZE 16
#define CLI_TIME_SIZE 32

/* "532 B", "63.3 MB", "1.2 GB" */
void cli_size(uint64_t bytes, char out[CLI_SIZE_SIZE]);
/* "2026-01-31T08:15:00Z" (RFC 3339) */
void cli_time_utc(int64_t seconds, char out[CLI_TIME_SIZE]);
/* "2026-01-31 09:15" in the user's own time zone */
void cli_time_local(int64_t seconds, char out[CLI_TIME_SIZE]);

/* Make a table's column as wide as a text, which may be NULL. */
void cli_widen(int *wide, const char *text);

/* Print what an image or a server said, with control characters made harmless. */
void cli_print_safe(const char *text);

/* ["layers", "squashfs"], of enum store_format's bits. */
json_t *cli_formats(unsigned formats);

/* Print a value and a newline on stdout; steals it. Returns 0, or CLI_FAILED. */
int cli_print_json(json_t *value);

/*
 * Write a value and a newline to a file, as file_put() does.
 *
 *   flags  of json_dumps()
 */
int cli_write_json(const char *path, const json_t *value, size_t flags, struct mlr_error *err);

/* -q: only errors from here on, also from the rooms below; --verbose and MLRUN_LOG=debug win. */
void cli_be_quiet(void);

/* store_open() of a store that must be there, with the way out when it is not. */
int cli_open_store(const char *dir, struct store **ret, struct mlr_error *err);

/* stores_open() likewise. */
int cli_open_stores(const char *dir, struct stores *ret, struct mlr_error *err);

/* A manifest, index or configuration in the store, its bytes checked, to free(). Returns as
 * below. */
int cli_stored_text(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err);

/* Of a store that is not there: who never pulled has nothing, and that is no failure, where one
 * could be made. Returns 0, or -EACCES and the like. */
int cli_store_may_come(struct mlr_error *err);

/* A name that an image of the store is to be given, which is no digest. Returns 0 or -EINVAL. */
int cli_parse_new_name(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* Tell that a name stood for another image, was; NULL: it did not. */
void cli_tell_replaced(const char *name, const char *was);

/* Refuse what would be looked for in a registry and is a file here, "x.sif". Returns 0 or
 * -EINVAL. */
int cli_refuse_file(const char *image, struct mlr_error *err);

/* The manifest of a stored image, its bytes checked. Returns 0, -ENOENT, -EBADMSG, -EPROTO. */
int cli_stored_manifest(
	struct store *st, const char *digest, struct oci_document *ret, struct mlr_error *err);

#endif
