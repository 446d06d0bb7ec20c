#include "oci/config.h"

#include "base/json.h"
#include "oci/digest.h"
#include "oci/json.h"
#include "oci/manifest.h"

#define ENV_MAX 8192 /* entries; images have dozens */

/* An empty text counts as absent. */
static int drop_empty(const struct record_reader *r, void *member)
{
	char **text = member;

	if (*text && !**text)
		free(take_ptr(text));
	return 0;
}

static int check_type(const struct record_reader *r, const json_t *v, void *to)
{
	const char *type = json_string_value(v);

	return type && strcmp(type, "layers") == 0
		? 0
		: mlr_fail(r->err, ENOTSUP, "the rootfs is of type '%.40s', not of layers",
			  type ? type : "");
}

static int check_diff_ids(const struct record_reader *r, void *member)
{
	const struct strv *ids = member;

	if (ids->n > OCI_LAYERS_MAX)
		return mlr_fail(
			r->err, ENOTSUP, "%zu layers, the limit is %d", ids->n, OCI_LAYERS_MAX);
	for (size_t i = 0; i < ids->n; i++)
		if (oci_digest_check(ids->v[i], r->err) < 0) {
			if (r->err && r->err->code == EINVAL)
				r->err->code = EPROTO;
			return mlr_wrap(r->err, "entry %zu", i + 1);
		}
	return 0;
}

/* Entries without a key have no meaning in an environment; some old images have them. */
static int read_variable(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;
	char *eq;

	TRY(record_text(r, v, &text));
	eq = strchr(text, '=');
	if (!eq || eq == text)
		return 0;
	*eq = '\0';
	strv_env_set(to, text, eq + 1);
	return 0;
}

static int read_env(const struct record_reader *r, const json_t *v, void *to)
{
	if (!json_is_array(v))
		return record_expected(r, "a list", v);
	if (json_array_size(v) > ENV_MAX)
		return record_wrong(r, "%zu entries, the limit is %d", json_array_size(v), ENV_MAX);
	return record_each(r, v, read_variable, to);
}

/* Labels whose value is not a string are ignored. */
static int read_labels(const struct record_reader *r, const json_t *v, void *to)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return record_expected(r, "an object", v);
	json_object_foreach((json_t *)v, key, item) {
		if (!json_is_string(item))
			continue;
		strv_add_words(to, key, json_string_value(item));
	}
	return 0;
}

static json_t *write_labels(const void *from)
{
	return mlr_json_pairs(from);
}

#define AT(member) RECORD_AT(struct oci_config, member)

static const struct record_row rootfs_rows[] = {
	{ "type", RECORD_OWN, .flags = RECORD_MUST, .read = check_type },
	{ "diff_ids", RECORD_TEXTS, AT(diff_ids), .rule = check_diff_ids },
	{ NULL },
};

static const struct record_row run_rows[] = {
	{ "Env", RECORD_TEXTS, AT(env), .read = read_env },
	{ "Entrypoint", RECORD_TEXTS, AT(entrypoint) },
	{ "Cmd", RECORD_TEXTS, AT(cmd) },
	{ "User", RECORD_TEXT, AT(user), .flags = RECORD_SPARE, .rule = drop_empty },
	{ "WorkingDir", RECORD_TEXT, AT(working_dir), .flags = RECORD_SPARE, .rule = drop_empty },
	{ "Labels", RECORD_TEXTS, AT(labels), .read = read_labels, .write = write_labels },
	{ NULL },
};

static const struct record_row rows[] = {
	{ "os", RECORD_TEXT, AT(os), .flags = RECORD_MUST },
	{ "architecture", RECORD_TEXT, AT(architecture), .flags = RECORD_MUST },
	{ "variant", RECORD_TEXT, AT(variant), .rule = drop_empty },
	{ "created", RECORD_TEXT, AT(created), .rule = drop_empty },
	{ "rootfs", RECORD_STRUCT, .rows = rootfs_rows, .flags = RECORD_MUST },
	{ "config", RECORD_STRUCT, .rows = run_rows },
	{ NULL },
};

void oci_config_done(struct oci_config *c)
{
	record_done(rows, c);
}

int oci_config_parse(const char *json, size_t len, struct oci_config *ret, struct mlr_error *err)
{
	auto_call(oci_config_done) struct oci_config c = { 0 };

	TRY(oci_json_read(json, len, OCI_DOCUMENT_MAX, rows, &c, err));
	*ret = take_struct(&c, { 0 });
	return 0;
}

int oci_config_read_run(const char *json, size_t len, struct oci_config *ret, struct mlr_error *err)
{
	return oci_json_read(json, len, OCI_DOCUMENT_MAX, run_rows, ret, err);
}

char *oci_config_print_run(const struct oci_config *c)
{
	return mlr_json_print(record_write(run_rows, c), JSON_COMPACT);
}
