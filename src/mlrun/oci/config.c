#include "oci/config.h"

#include "base/base.h"
#include "oci/digest.h"
#include "oci/json.h"
#include "oci/manifest.h"

/* Copy a string; an empty one counts as absent. */
static int copy_text(json_t *obj, const char *key, char **ret, struct mlr_error *err)
{
	const char *s;
	int r = oci_json_text(obj, key, &s, err);

	if (r == 0 && s && *s)
		*ret = xstrdup(s);
	return r;
}

static int parse_platform(json_t *root, struct oci_config *c, struct mlr_error *err)
{
	TRY(copy_text(root, "os", &c->os, err));
	TRY(copy_text(root, "architecture", &c->architecture, err));
	TRY(copy_text(root, "variant", &c->variant, err));
	if (!c->os || !c->architecture)
		return mlr_fail(err, EPROTO, "\"%s\" is missing", c->os ? "architecture" : "os");
	return 0;
}

static int parse_rootfs(json_t *root, struct oci_config *c, struct mlr_error *err)
{
	const char *type;
	json_t *fs;
	int r;

	TRY(oci_json_object(root, "rootfs", &fs, err));
	if (!fs)
		return mlr_fail(err, EPROTO, "\"rootfs\" is missing");
	TRY(oci_json_text(fs, "type", &type, err));
	if (!type || strcmp(type, "layers") != 0)
		return mlr_fail(err, ENOTSUP, "the rootfs is of type '%.40s', not of layers",
			type ? type : "");

	r = oci_json_texts(fs, "diff_ids", &c->diff_ids, err);
	if (r < 0)
		return r;
	if (c->diff_ids.n > OCI_LAYERS_MAX)
		return mlr_fail(
			err, ENOTSUP, "%zu layers, the limit is %d", c->diff_ids.n, OCI_LAYERS_MAX);
	for (size_t i = 0; i < c->diff_ids.n; i++) {
		r = oci_digest_check(c->diff_ids.v[i], err);
		if (r < 0) {
			if (err && r == -EINVAL)
				err->code = EPROTO;
			mlr_wrap(err, "diff_ids, entry %zu", i + 1);
			return r == -EINVAL ? -EPROTO : r;
		}
	}
	return 0;
}

#define ENV_MAX 8192 /* entries; images have dozens */

/* Entries without a key have no meaning in an environment; some old images have them. */
static int parse_env(json_t *run, struct oci_config *c, struct mlr_error *err)
{
	auto_strv struct strv all = STRV_INIT;

	TRY(oci_json_texts(run, "Env", &all, err));
	if (all.n > ENV_MAX)
		return mlr_fail(
			err, EPROTO, "\"Env\" has %zu entries, the limit is %d", all.n, ENV_MAX);
	for (size_t i = 0; i < all.n; i++) {
		char *eq = strchr(all.v[i], '=');

		if (!eq || eq == all.v[i])
			continue;
		*eq = '\0';
		strv_env_set(&c->env, all.v[i], eq + 1);
	}
	return 0;
}

/* Labels whose value is not a string are ignored. */
static int parse_labels(json_t *run, struct oci_config *c, struct mlr_error *err)
{
	const char *key;
	json_t *labels, *v;

	TRY(oci_json_object(run, "Labels", &labels, err));
	json_object_foreach(labels, key, v) {
		if (!json_is_string(v))
			continue;
		strv_add(&c->labels, key);
		strv_add(&c->labels, json_string_value(v));
	}
	return 0;
}

static int parse_run(json_t *root, struct oci_config *c, struct mlr_error *err)
{
	json_t *run;
	int r = oci_json_object(root, "config", &run, err);

	if (r < 0 || !run)
		return r;
	TRY(parse_env(run, c, err));
	TRY(oci_json_texts(run, "Entrypoint", &c->entrypoint, err));
	TRY(oci_json_texts(run, "Cmd", &c->cmd, err));
	TRY(copy_text(run, "User", &c->user, err));
	TRY(copy_text(run, "WorkingDir", &c->working_dir, err));
	return parse_labels(run, c, err);
}

void oci_config_done(struct oci_config *c)
{
	free(c->os);
	free(c->architecture);
	free(c->variant);
	free(c->created);
	free(c->user);
	free(c->working_dir);
	strv_done(&c->env);
	strv_done(&c->entrypoint);
	strv_done(&c->cmd);
	strv_done(&c->labels);
	strv_done(&c->diff_ids);
	*c = (struct oci_config)OCI_CONFIG_INIT;
}

int oci_config_parse(const char *json, size_t len, struct oci_config *ret, struct mlr_error *err)
{
	auto_call(oci_config_done) struct oci_config c = OCI_CONFIG_INIT;
	json_auto_t *root = NULL;
	int r;

	r = oci_json_load(json, len, OCI_DOCUMENT_MAX, &root, err);
	if (r == 0)
		r = parse_platform(root, &c, err);
	if (r == 0)
		r = copy_text(root, "created", &c.created, err);
	if (r == 0)
		r = parse_rootfs(root, &c, err);
	if (r == 0)
		r = parse_run(root, &c, err);
	if (r < 0)
		return r;

	*ret = c;
	c = (struct oci_config)OCI_CONFIG_INIT;
	return 0;
}
