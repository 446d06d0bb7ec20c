#include "cli/build_output.h"

#include "base/config_value.h"
#include "cli/cli.h"
#include "export/squash.h"

static const struct {
	const char *name;
	enum export_format format;
} types[] = {
	{ "local", EXPORT_ROOTFS },
	{ "tar", EXPORT_TAR },
	{ "oci", EXPORT_OCI_ARCHIVE },
	{ "docker", EXPORT_DOCKER_ARCHIVE },
	{ "sif", EXPORT_SIF },
};

static int set_type(const char *type, struct build_output *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(types[i].name, type) == 0) {
			ret->export.format = types[i].format;
			return 0;
		}
	mlr_fail(err, EINVAL, "type=%s: use local, tar, oci, docker or sif", type);
	if (strcmp(type, "image") == 0 || strcmp(type, "registry") == 0)
		mlr_hint(err, "-t NAME puts it into the store, mlrun push NAME into a registry");
	return -EINVAL;
}

/* "KEY=VALUE" */
static int set_one(const char *part, struct build_output *ret, int *is_dir, int *has_type,
	struct mlr_error *err)
{
	const char *value = strchr(part, '=') ? strchr(part, '=') + 1 : "";
	size_t len = strcspn(part, "=");

	if (len == 4 && strncmp(part, "type", len) == 0) {
		*has_type = 1;
		return set_type(value, ret, err);
	}
	if (len == 4 && strncmp(part, "dest", len) == 0) {
		set_ptr(&ret->dest, xstrdup(value));
		return 0;
	}
	if (len == 4 && strncmp(part, "name", len) == 0) {
		set_ptr(&ret->name, xstrdup(value));
		return 0;
	}
	if (len == 3 && strncmp(part, "tar", len) == 0 && config_truth(value) >= 0) {
		*is_dir = config_truth(value) == 0;
		return 0;
	}
	return mlr_fail(err, EINVAL, "'%s': use type=, dest=, name= and tar=false", part);
}

static int parse_parts(const char *text, struct build_output *ret, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *part;
	int is_dir = 0, has_type = 0, r = 0;

	while (r == 0 && (part = strsep(&rest, ",")))
		r = set_one(part, ret, &is_dir, &has_type, err);
	if (r < 0)
		return r;
	if (!has_type)
		return mlr_fail(
			err, EINVAL, "'%s' lacks type=local, tar, oci, docker or sif", text);
	if (is_dir && ret->export.format != EXPORT_OCI_ARCHIVE)
		return mlr_fail(err, EINVAL, "tar=false is for type=oci");
	if (is_dir)
		ret->export.format = EXPORT_OCI;
	return 0;
}

int build_output_parse(const char *text, struct build_output *ret, struct mlr_error *err)
{
	int r = 0;

	if (strchr(text, '=')) {
		r = parse_parts(text, ret, err);
	} else {
		ret->export.format = strcmp(text, "-") == 0 ? EXPORT_TAR : EXPORT_ROOTFS;
		ret->dest = xstrdup(text);
	}
	if (r < 0)
		return r;
	if (!ret->dest)
		ret->dest = xstrdup("-");
	if (strcmp(ret->dest, "-") == 0 &&
		(ret->export.format == EXPORT_ROOTFS || ret->export.format == EXPORT_OCI))
		return mlr_fail(err, EINVAL, "'%s' lacks dest=DIRECTORY", text);
	if (strcmp(ret->dest, "-") == 0 && ret->export.format == EXPORT_SIF)
		return mlr_fail(err, EINVAL, "'%s' lacks dest=FILE", text);
	if (strcmp(ret->dest, "-") == 0 && isatty(STDOUT_FILENO))
		return mlr_fail(err, EINVAL,
			"an archive is nothing for a terminal: redirect it, or add dest=FILE");
	return 0;
}

int build_output_write(const struct build_output *o, struct store *st, const struct store_image *im,
	const char *name, struct mlr_error *err)
{
	auto_call(export_squashed_done) struct export_squashed squashed = { 0 };
	struct export_options opt = o->export;
	struct export_result result;

	opt.name = o->name ? o->name : name;
	opt.cancel = &cli_stop_signal;
	if (opt.format == EXPORT_SIF)
		return export_squash(store_path(st), im->manifest, o->dest, &opt, &squashed, err);
	return export_image(st, im, o->dest, &opt, &result, err);
}
