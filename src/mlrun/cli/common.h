/*
 * Helps several commands: common options, the printing of sizes and times, stored documents. Links
 * nothing heavy.
 */
#pragma once

#include "oci/manifest.h"
#include "oci/ref.h"
#include "store/stores.h"

#include <jansson.h>

/* Options of all commands; the commands' structs begin with it. */
struct cli_common {
	const char *store; /* --store, or NULL */
	int quiet;         /* -q, if the command has it */
};

/* The arguments of a command that only lists: --json, --store and --verbose. */
struct cli_listing {
	struct cli_common common;
	int json;
};

/* Parse them; doc as in struct argp. Exits on wrong usage. */
void cli_parse_listing(int argc, char **argv, const char *doc, struct cli_listing *ret);

/*
 * For OPT_READ. Read "500MB", "100G", "2TiB", "1000" into bytes: k, M, G and T are powers of 1000,
 * KiB and so on of 1024; "90m", "12h", "30d", "8w", "30s" into seconds, both an int64_t; "INT", "2"
 * into an int; "gzip", "none" into an enum oci_compression. Return 0, or -errno for anything else.
 */
int cli_read_size(const char *s, void *field);
int cli_read_age(const char *s, void *field);
int cli_read_signal(const char *s, void *field);
#define CLI_A_SIGNAL "a signal such as INT or 2"
int cli_read_compression(const char *s, void *field);
#define CLI_A_COMPRESSION "gzip, zstd or none"

#define CLI_SIZE_SIZE 16
#define CLI_TIME_SIZE MLR_TIME_SIZE

/* Print "532 B", "63.3 MB", "1.2 GB". */
void cli_size(uint64_t bytes, char out[CLI_SIZE_SIZE]);
/* Print "2026-01-31 09:15" in the user's time zone. */
void cli_time_local(int64_t seconds, char out[CLI_TIME_SIZE]);

/* A user's name, or number if it has none; to free(). Names are cached: those that are not in
 * /etc/passwd need a helper program. */
char *cli_user_name(uid_t uid);

/* Make ["layers", "squashfs"] from bits of enum store_format. */
json_t *cli_formats(unsigned formats);

/* Print a text, control characters escaped, and a newline on stdout. */
void cli_print_line(const char *text);

/* Print a value and a newline on stdout; steals the value. Returns 0 or CLI_FAILED. */
int cli_print_json(json_t *value);

/*
 * Write a value and a newline to a file, like file_put(). flags are json_dumps()'s.
 */
int cli_write_json(const char *path, const json_t *value, size_t flags, struct mlr_error *err);

/* Print only errors from now on, for -q; --verbose and MLRUN_LOG=debug win. */
void cli_be_quiet(void);

/* Open an existing store with store_open(); a failure has a hint. */
int cli_open_store(const char *dir, struct store **ret, struct mlr_error *err);

/* The same with stores_open(). */
int cli_open_stores(const char *dir, struct stores *ret, struct mlr_error *err);

/* Find an image in the stores by any name that a user may write. Returns as stores_open() and
 * stores_find(). */
int cli_find_image(
	const char *name, const char *dir, struct store_image *ret, struct mlr_error *err);

/* Read a manifest, index or configuration from the store and verify it; to free(). Returns like
 * cli_stored_manifest(). */
int cli_stored_text(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err);

/* A missing store means an empty list, not a failure, if it could be created. Returns 0, or -EACCES
 * and the like. */
int cli_store_may_come(struct mlr_error *err);

/*
 * A name that means this very image for ever, to free(): NAME@DIGEST, by the digest of the index if
 * there is one. For an image that no registry has, "sha256:…", by which the store finds it.
 */
char *cli_pin(const struct store_image *im);

/* Parse a new name for an image in the store, not a digest. Returns 0 or -EINVAL. */
int cli_parse_new_name(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* Report that a name had stood for another image, was; NULL: it had not. */
void cli_tell_replaced(const char *name, const char *was);

/* Refuse a name that is a file here, "x.sif", and would be looked for in a registry. Returns 0 or
 * -EINVAL. */
int cli_refuse_file(const char *image, struct mlr_error *err);

/* The name of an image in a file that is used in place, "sif:x.sif", for "x.sif" or a path. To
 * free(); NULL if it is none. A path's last letters or an existing file decide, not its contents.
 */
char *cli_image_in_file(const char *image);

/* Read the manifest of a stored image and verify it. Returns 0, -ENOENT, -EBADMSG, -EPROTO. */
int cli_stored_manifest(
	struct store *st, const char *digest, struct oci_document *ret, struct mlr_error *err);
