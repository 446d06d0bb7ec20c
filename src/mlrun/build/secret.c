#include "build/secret.h"

/* "id=ID[,src=FILE|,env=NAME]" of --secret. 1 if it is the one; file and env may remain NULL. */
static int is_secret(const char *spec, const char *id, char **file, char **env)
{
	auto_free char *copy = xstrdup(spec);
	char *rest = copy, *part;
	int is_it = 0;

	while ((part = strsep(&rest, ","))) {
		const char *value = strchr(part, '=');

		if (!value)
			continue;
		value++;
		if (strncmp(part, "id=", 3) == 0)
			is_it = strcmp(value, id) == 0;
		else if (strncmp(part, "src=", 4) == 0 || strncmp(part, "source=", 7) == 0)
			*file = xstrdup(value);
		else if (strncmp(part, "env=", 4) == 0)
			*env = xstrdup(value);
	}
	return is_it;
}

#define SECRET_MAX (512u << 10) /* bytes */

int secret_read(
	const struct strv *secrets, const char *id, char **ret, size_t *len, struct mlr_error *err)
{
	for (size_t i = 0; secrets && i < secrets->n; i++) {
		auto_free char *file = NULL, *env = NULL;
		const char *value;

		if (!is_secret(secrets->v[i], id, &file, &env))
			continue;
		if (file)
			return file_read(AT_FDCWD, file, SECRET_MAX, ret, len, err);
		value = getenv(env ? env : id);
		if (!value)
			return mlr_fail(err, ENOENT, "secret '%s': no variable '%s' is set", id,
				env ? env : id);
		*ret = xstrdup(value);
		*len = strlen(value);
		return 0;
	}
	return 0;
}
