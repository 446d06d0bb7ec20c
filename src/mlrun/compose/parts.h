/* What the files of this room share: reading values, whose place errors name. */
#pragma once

#include "base/reach.h"
#include "base/record.h"
#include "base/yaml.h"
#include "compose/compose.h"

#define REPLICAS_MAX 1000

/* The ctx of the room's record_reader. */
struct compose_reader {
	const struct compose_wish *wish;
	struct mlr_yaml_lines lines;
	struct strv files;    /* names of those that were read, in this order */
	json_t *read;         /* their values, as long as the lines are used */
	const json_t *top;    /* the files' mapping */
	struct strv *ignored; /* keys that it has and mlrun has no use for, each once */
	struct strv *refused; /* what is wrong with services */
	/* Where an error is: "services.web.ports"; to free(). */
	char *where;
	const struct mlr_yaml_place *line; /* NULL: unknown */
};

/* Read files, and what they extend and include, into one mapping to json_decref(), with their
 * variables replaced (files.c). */
int compose_load(struct compose_reader *c, json_t **ret, struct mlr_error *err);

/* Merge two values: the keys of a later file, or of a service that extends another, win over those
 * before. base: NULL for none. Returns a value to json_decref(). (merge.c) */
enum compose_level { COMPOSE_FILE, COMPOSE_SERVICE = 2 };
json_t *compose_merge(const json_t *base, const json_t *over, enum compose_level level);

/* Write a value in YAML; to free(). (print.c) */
char *compose_print(const json_t *v);

/* For record_reader: put a key before `where`. */
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
/* Add another's volumes where the service has none. */
void compose_take_volumes(
	struct compose_service *to, const struct compose_service *from, int read_only);
int compose_read_secret(const struct record_reader *r, const json_t *v, void *to);
int compose_read_config(const struct record_reader *r, const json_t *v, void *to);

/* Read "ports" (ports.c). to: a struct compose_service. */
extern const struct record_row compose_port_rows[];
int compose_read_ports(const struct record_reader *r, const json_t *v, void *to);

/* Make a path absolute: below a directory, or below the project's; to free(). */
char *compose_below(const char *directory, const char *path);
char *compose_absolute(const struct record_reader *r, const char *path);

/* Read one service. */
int compose_read_service(
	const struct record_reader *r, const json_t *v, struct compose_service *ret);
