/* What the files of this room share: reading values, whose place errors name. */
#ifndef MLR_COMPOSE_PARTS_H
#define MLR_COMPOSE_PARTS_H

#include "base/reach.h"
#include "base/yaml.h"
#include "compose/compose.h"

struct compose_reader {
	const char *file, *directory;
	struct mlr_yaml_lines lines;
	compose_lookup look;
	void *ctx;
	struct mlr_error *err;
};

/* Where a value stands: "services.web.ports". */
struct compose_at {
	const struct compose_at *up;
	const json_t *in;
	const char *key; /* NULL: the item of a list */
	size_t index;
};

/* Put file, line and place before a sentence. Return -EINVAL. */
int compose_wrong(struct compose_reader *r, const struct compose_at *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
size_t compose_line(const struct compose_reader *r, const struct compose_at *at);

/* A key of a mapping and what reads it into a struct. */
struct compose_key {
	const char *name;
	int (*read)(
		struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to);
	const char *refusal; /* why it is not supported, without read; NULL: it is let be */
	enum reach reach;
	const struct compose_key *below; /* the keys of its value, or of each item; or NULL */
};

/* List keys and those below them. */
void compose_keys_each_reach(
	const struct compose_key *keys, const char *above, reach_fn fn, void *ctx);

extern const struct compose_key compose_service_keys[];

/* Read a mapping by a table that a NULL name ends. Keys that begin with x- are let be. */
int compose_read_map(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	const struct compose_key *keys, void *to);

/* Values. Texts are interpolated; to free(). */
int compose_read_text(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, char **ret);
int compose_read_bool(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, int *ret);
int compose_read_number(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	long min, long max, long *ret);
int compose_read_span(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, int64_t *ms);

/* A text, or a list of texts. */
int compose_read_texts(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, struct strv *ret);

/* Call one for each item of a list. */
int compose_read_list(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	int (*one)(
		struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to),
	void *to);

/* "K=V" of a list of such texts, or of a mapping; without a value it is that of the caller, if
 * there is one. */
int compose_read_pairs(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, struct strv *ret);

/* A list as it is, or a text split into words as sh(1) does, without expanding anything. */
int compose_read_words(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, struct strv *ret);

/* An absolute path; to free(). */
char *compose_absolute(const struct compose_reader *r, const char *path);

/* Read one service. */
int compose_read_service(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	struct compose_service *ret);

#endif
