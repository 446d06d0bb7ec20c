/* What the files of this room share: reading values, whose place errors name. */
#ifndef MLR_COMPOSE_PARTS_H
#define MLR_COMPOSE_PARTS_H

#include "base/reach.h"
#include "base/record.h"
#include "base/yaml.h"
#include "compose/compose.h"

/* The ctx of the room's record_reader. */
struct compose_reader {
	const char *file, *directory;
	struct mlr_yaml_lines lines;
	compose_lookup look;
	void *ctx;
	const json_t *top;    /* the file's mapping */
	struct strv *ignored; /* keys that it has and mlrun has no use for, each once */
	struct strv *refused; /* what is wrong with services */
	/* Where an error is: "services.web.ports"; to free(). */
	char *where;
	size_t line; /* 0: unknown */
};

/* For record_reader: interpolates texts; and puts a key before `where`. */
int compose_expand(const struct record_reader *r, const char *text, char **ret);
void compose_place(const struct record_reader *r, const json_t *in, const char *key, size_t at);

extern const struct record_row compose_service_rows[];

/* Values of rows. A time such as "1m30s", in milliseconds; to: an int64_t. */
int compose_read_span(const struct record_reader *r, const json_t *v, void *to);

/* "K=V" of a list of such texts, or of a mapping; without a value it is that of the caller, if
 * there is one. to: a struct strv. */
int compose_read_pairs(const struct record_reader *r, const json_t *v, void *to);

/* A list as it is, or a text split into words as sh(1) does, without expanding anything. null is
 * an empty list. to: a struct strv. */
int compose_read_words(const struct record_reader *r, const json_t *v, void *to);

/* Call one for each key of a mapping. */
int compose_read_keys(const struct record_reader *r, const json_t *v,
	int (*one)(const struct record_reader *r, const char *key, const json_t *v, void *to),
	void *to);

/* Read a mapping's keys or a text, which stands for one of them. */
int compose_read_one(const struct record_reader *r, const struct record_row *rows, const json_t *v,
	void *to, char **text);

/* Note a key that is ignored. */
void compose_ignore(const struct record_reader *r, const char *key);

/* Remove from a mapping what is null, and keys that are ignored; keys ends with NULL. */
void compose_drop(const struct record_reader *r, const json_t *v, const char *const *keys);

/* Read an item of volumes, secrets and configs (volumes.c). to: a struct compose_service. */
extern const struct record_row compose_volume_rows[], compose_file_rows[];
int compose_read_volume(const struct record_reader *r, const json_t *v, void *to);
int compose_read_secret(const struct record_reader *r, const json_t *v, void *to);
int compose_read_config(const struct record_reader *r, const json_t *v, void *to);

/* An absolute path; to free(). */
char *compose_absolute(const struct record_reader *r, const char *path);

/* Read one service. */
int compose_read_service(
	const struct record_reader *r, const json_t *v, struct compose_service *ret);

#endif
