#include "store/facts.h"

#include "base/base.h"
#include "oci/digest.h"
#include "store/json.h"
#include "store/open_dirs.h"
#include "store/tree.h"

static void facts_path(const char *manifest, char path[80])
{
	snprintf(path, 80, "facts/%.64s.json", oci_digest_hex(manifest));
}

static const char *const format_names[STORE_FORMATS] = { "layers", "dir", "squashfs" };

/* Version 0.1.0 wrote "one_tree", a boolean, instead: true means dir, false layers. */
static int parse_formats(const json_t *o, unsigned *ret)
{
	const json_t *one = json_object_get(o, "one_tree"), *list = json_object_get(o, "formats");
	json_t *name;
	size_t i;

	if (!list && json_is_boolean(one)) {
		*ret = json_is_true(one) ? STORE_FORMAT_DIR : STORE_FORMAT_LAYERS;
		return 0;
	}
	if (!json_is_array(list))
		return -EPROTO;
	json_array_foreach(list, i, name) {
		if (!json_is_string(name))
			return -EPROTO;
		/* A name that is unknown is a newer version's. */
		*ret |= store_format_parse(json_string_value(name));
	}
	return 0;
}

static json_t *formats_to_json(unsigned formats)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < STORE_FORMATS; i++)
		if (formats & 1u << i)
			json_array_append_new(list, json_string(format_names[i]));
	return list;
}

static int parse(const json_t *o, struct store_facts *f)
{
	struct oci_config *c = &f->config;

	if (parse_formats(o, &f->formats) < 0)
		return -EPROTO;
	f->covered = json_is_true(json_object_get(o, "covered"));
	if (store_json_string(o, "squashfs", &f->squash_digest) < 0 ||
		store_json_strv(o, "open", &f->open) < 0 ||
		store_json_string(o, "os", &c->os) < 0 ||
		store_json_string(o, "architecture", &c->architecture) < 0 ||
		store_json_string(o, "variant", &c->variant) < 0 ||
		store_json_string(o, "created", &c->created) < 0 ||
		store_json_string(o, "user", &c->user) < 0 ||
		store_json_string(o, "working_dir", &c->working_dir) < 0 ||
		store_json_strv(o, "env", &c->env) < 0 ||
		store_json_strv(o, "entrypoint", &c->entrypoint) < 0 ||
		store_json_strv(o, "cmd", &c->cmd) < 0 ||
		store_json_strv(o, "labels", &c->labels) < 0 ||
		store_json_strv(o, "diff_ids", &c->diff_ids) < 0)
		return -EPROTO;
	if (!c->os || !c->architecture)
		return -EPROTO;
	for (size_t i = 0; i < c->diff_ids.n; i++) /* they become parts of paths */
		if (oci_digest_check(c->diff_ids.v[i], NULL) < 0)
			return -EPROTO;
	return 0;
}

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

void store_facts_done(struct store_facts *f)
{
	oci_config_done(&f->config);
	free(f->squash_digest);
	strv_done(&f->open);
}

int store_facts_get(
	struct store *st, const char *manifest, struct store_facts *ret, struct mlr_error *err)
{
	struct store_facts f = STORE_FACTS_INIT;
	json_auto_t *o = NULL;
	char path[80];

	facts_path(manifest, path);
	TRY(store_json_read(st, path, &o, err));
	if (parse(o, &f) < 0) {
		store_facts_done(&f);
		return store_json_bad(st, path, "a member is missing or of another type", err);
	}
	*ret = f;
	return 0;
}

/* Only labels that mlrun reads: some images have many. */
static json_t *labels_to_json(const struct strv *labels)
{
	json_t *list = json_array();

	for (size_t i = 0; i + 1 < labels->n; i += 2) {
		if (strncmp(labels->v[i], "org.mlrun.", 10) != 0)
			continue;
		json_array_append_new(list, json_string(labels->v[i]));
		json_array_append_new(list, json_string(labels->v[i + 1]));
	}
	return list;
}

static int write_facts(
	struct store *st, const char *path, const struct store_facts *f, struct mlr_error *err)
{
	const struct oci_config *c = &f->config;
	json_auto_t *o = json_pack("{so so so so so so so so so so so so sb so so}", "os",
		store_json_from_string(c->os), "architecture",
		store_json_from_string(c->architecture), "variant",
		store_json_from_string(c->variant), "created", store_json_from_string(c->created),
		"user", store_json_from_string(c->user), "working_dir",
		store_json_from_string(c->working_dir), "env", store_json_from_strv(&c->env),
		"entrypoint", store_json_from_strv(&c->entrypoint), "cmd",
		store_json_from_strv(&c->cmd), "labels", labels_to_json(&c->labels), "diff_ids",
		store_json_from_strv(&c->diff_ids), "formats", formats_to_json(f->formats),
		"covered", f->covered != 0, "squashfs", store_json_from_string(f->squash_digest),
		"open", store_json_from_strv(&f->open));

	if (!o)
		return mlr_fail(err, ENOMEM, "'%s': no memory", path);
	return store_json_write(st, path, o, err);
}

int store_facts_put(
	struct store *st, const char *manifest, const struct store_facts *f, struct mlr_error *err)
{
	char path[80];

	TRY(store_hold(st, err));
	facts_path(manifest, path);
	return write_facts(st, path, f, err);
}

int store_facts_renew(struct store *st, const char *manifest, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;
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
	f.open = open;
	open = (struct strv)STRV_INIT;
	if (fstatat(store_fd(st), path, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '%s/%s'", store_path(st), path);
	r = write_facts(st, path, &f, err);
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
