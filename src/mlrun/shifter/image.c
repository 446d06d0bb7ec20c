#include "shifter/image.h"

#define ID_LENGTH 64 /* of a SHA-256, in hex */

static int is_id(const char *text)
{
	return strlen(text) == ID_LENGTH && strspn(text, "0123456789abcdef") == ID_LENGTH;
}

/* What follows "TYPE:" if text begins so; else NULL. */
static const char *after_type(const char *text, const char *type)
{
	size_t n = strlen(type);

	if (strncmp(text, type, n) != 0 || text[n] != ':')
		return NULL;
	/* "docker://name" is mlrun's own way to say this, and is left to it. */
	return strncmp(text + n, "://", 3) == 0 ? NULL : text + n + 1;
}

static int local_name(const char *path, char **ret, struct mlr_error *err)
{
	struct stat st;

	if (path[0] != '/')
		return mlr_fail(err, EINVAL, "local:%s: expected an absolute path", path);
	if (stat(path, &st) < 0)
		return mlr_fail_errno(err, "local:%s", path);
	*ret = xasprintf("%s:%s", S_ISDIR(st.st_mode) ? "rootfs" : "squashfs", path);
	return 0;
}

static int typed_name(const char *type, const char *name, char **ret, struct mlr_error *err)
{
	if (!*name)
		return mlr_fail(err, EINVAL, "%s:: the image's name is missing", type);
	if (strcmp(type, "local") == 0)
		return local_name(name, ret, err);
	if (strcmp(type, "id") == 0) {
		if (!is_id(name))
			return mlr_fail(err, EINVAL,
				"id:%s: expected the 64 hexadecimal digits that `shifterimg lookup` prints",
				name);
		*ret = xasprintf("sha256:%s", name);
		return 0;
	}
	*ret = xstrdup(name);
	return 0;
}

int shifter_image_name(const char *text, const char *standard, char **ret, struct mlr_error *err)
{
	static const char *const types[] = { "docker", "custom", "id", "local" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const char *name = after_type(text, types[i]);

		if (name)
			return typed_name(types[i], name, ret, err);
	}
	if (is_id(text)) /* SHIFTER_IMAGE of a job that Shifter began */
		standard = "id";
	return typed_name(standard, text, ret, err);
}

static char *typed_variable(const char *name, const char *type)
{
	const char *image = getenv(name), *kind = getenv(type);

	if (!image || !*image)
		return NULL;
	return kind && *kind ? xasprintf("%s:%s", kind, image) : xstrdup(image);
}

char *shifter_image_wanted(void)
{
	const char *whole = getenv("SHIFTER");
	char *image = typed_variable("SLURM_SPANK_SHIFTER_IMAGE", "SLURM_SPANK_SHIFTER_IMAGETYPE");

	if (!image)
		image = typed_variable("SHIFTER_IMAGE", "SHIFTER_IMAGETYPE");
	return image ? image : whole && *whole ? xstrdup(whole) : NULL;
}
