#include "store/facts.h"

#include "oci/digest.h"
#include "store/json.h"
#include "store/open_dirs.h"
#include "store/tree.h"

static void facts_path(const char *manifest, char path[80])
{
	snprintf(path, 80, "facts/%.64s.json", oci_digest_hex(manifest));
}

static const char *const format_names[STORE_FORMATS] = { "layers", "dir", "squashfs" };

const char *store_format_name(enum store_format f)
{
	for (unsigned i = 0; i < STORE_FORMATS; i++)
		if (f == 1u << i)
			return format_names[i];
	return NULL;
}

char *store_format_names(unsigned formats, const char *sep)
{
	auto_strv struct strv names = STRV_INIT;

	for (unsigned i = 0; i < STORE_FORMATS; i++)
		if (formats & 1u << i)
			strv_add(&names, format_names[i]);
	return strv_join(&names, names.n, sep);
}

unsigned store_format_parse(const char *name)
{
	for (unsigned i = 0; i < STORE_FORMATS; i++)
		if (strcmp(name, format_names[i]) == 0)
			return 1u << i;
	return 0;
}

#define NO_FORMATS (~0u) /* nothing said which */

/* A name that is unknown is a newer version's. */
static int read_formats(const struct record_reader *r, const json_t *v, void *to)
{
	auto_strv struct strv names = STRV_INIT;
	unsigned formats = 0;

	TRY(record_texts(r, v, &names));
	for (size_t i = 0; i < names.n; i++)
		formats |= store_format_parse(names.v[i]);
	*(unsigned *)to = formats;
	return 0;
}

static json_t *write_formats(const void *from)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < STORE_FORMATS; i++)
		if (*(const unsigned *)from & 1u << i)
			json_array_append_new(list, json_string(format_names[i]));
	return list;
}

/* Version 0.1.0 wrote this instead of formats. */
static int read_one_tree(const struct record_reader *r, const json_t *v, void *to)
{
	if (!json_is_boolean(v))
		return record_expected(r, "true or false", v);
	*(unsigned *)to = json_is_true(v) ? STORE_FORMAT_DIR : STORE_FORMAT_LAYERS;
	return 0;
}

/* Only labels that mlrun reads: some images have many. */
static json_t *write_labels(const void *from)
{
	const struct strv *labels = from;
	json_t *list = json_array();

	for (size_t i = 0; i + 1 < labels->n; i += 2) {
		if (strncmp(labels->v[i], "org.mlrun.", 10) != 0)
			continue;
		json_array_append_new(list, json_string(labels->v[i]));
		json_array_append_new(list, json_string(labels->v[i + 1]));
	}
	return list;
}

#define AT(member) RECORD_AT(struct store_facts, member)

static const struct record_row rows[] = {
	{ "os", RECORD_TEXT, AT(config.os), .flags = RECORD_MUST },
	{ "architecture", RECORD_TEXT, AT(config.architecture), .flags = RECORD_MUST },
	{ "variant", RECORD_TEXT, AT(config.variant) },
	{ "created", RECORD_TEXT, AT(config.created) },
	{ "user", RECORD_TEXT, AT(config.user) },
	{ "working_dir", RECORD_TEXT, AT(config.working_dir) },
	{ "env", RECORD_TEXTS, AT(config.env) },
	{ "entrypoint", RECORD_TEXTS, AT(config.entrypoint) },
	{ "cmd", RECORD_TEXTS, AT(config.cmd) },
	{ "labels", RECORD_TEXTS, AT(config.labels), .write = write_labels },
	{ "diff_ids", RECORD_TEXTS, AT(config.diff_ids) },
	{ "formats", RECORD_OWN, AT(formats), .read = read_formats, .write = write_formats },
	{ "one_tree", RECORD_OWN, AT(formats), .read = read_one_tree },
	{ "covered", RECORD_FLAG, AT(covered) },
	{ "squashfs", RECORD_TEXT, AT(squash_digest) },
	{ "open", RECORD_TEXTS, AT(open) },
	{ NULL },
};

void store_facts_done(struct store_facts *f)
{
	record_done(rows, f);
}

int store_facts_get(
	struct store *st, const char *manifest, struct store_facts *ret, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	const struct strv *ids = &f.config.diff_ids;
	char path[80];

	facts_path(manifest, path);
	f.formats = NO_FORMATS;
	TRY(store_json_take(st, path, rows, &f, err));
	if (f.formats == NO_FORMATS)
		return store_json_bad(st, path, "formats: missing", err);
	for (size_t i = 0; i < ids->n; i++) /* they become parts of paths */
		if (oci_digest_check(ids->v[i], NULL) < 0)
			return store_json_bad(st, path, "a digest is invalid", err);
	*ret = take_struct(&f, { 0 });
	return 0;
}

int store_facts_put(
	struct store *st, const char *manifest, const struct store_facts *f, struct mlr_error *err)
{
	char path[80];

	TRY(store_hold(st, err));
	facts_path(manifest, path);
	return store_json_put(st, path, rows, f, err);
}

int store_facts_renew(struct store *st, const char *manifest, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_strv struct strv open = STRV_INIT;
	struct stat sb;
	char path[80];
	int r = store_facts_get(st, manifest, &f, err);

	facts_path(manifest, path);
	if (r == 0)
		r = store_open_dirs(st, manifest, &f, &open, err);
	if (r < 0 || open.n == 0)
		return r;
	strv_done(&f.open);
	f.open = take_struct(&open, STRV_INIT);
	if (fstatat(store_fd(st), path, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '%s/%s'", store_path(st), path);
	r = store_json_put(st, path, rows, &f, err);
	if (r == 0 &&
		utimensat(store_fd(st), path, (struct timespec[2]){ sb.st_atim, sb.st_mtim }, 0) <
			0)
		mlr_debug("store: the time of '%s': %s", path, strerror(errno));
	return r;
}

static int is_missing(struct store *st, enum store_tree_kind kind, const char *key,
	const char *what, char **missing)
{
	if (store_tree_exists(st, kind, key))
		return 0;
	if (missing)
		*missing = xasprintf("%s %s", what, key);
	return 1;
}

int store_facts_whole(struct store *st, const char *manifest, const struct store_facts *f,
	enum store_format format, char **missing)
{
	const struct strv *ids = &f->config.diff_ids;

	if (format == STORE_FORMAT_DIR)
		return !is_missing(st, STORE_DIR, manifest, "the tree of", missing);
	if (format == STORE_FORMAT_SQUASHFS)
		return !is_missing(st, STORE_SQUASH, manifest, "the squashfs file of", missing);
	if (f->covered && is_missing(st, STORE_COVER, manifest, "the cover of", missing))
		return 0;
	for (size_t i = 0; i < ids->n; i++)
		if (is_missing(st, STORE_LAYER, ids->v[i], "layer", missing))
			return 0;
	return 1;
}
