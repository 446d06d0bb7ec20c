#include "cli/apptainer.h"

char *apptainer_variable(const char *name)
{
	static const char *const prefixes[] = { "APPTAINER", "SINGULARITY" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		auto_free char *key = xasprintf("%s_%s", prefixes[i], name);
		char *value = getenv(key);

		if (value && *value)
			return value;
	}
	return NULL;
}

void apptainer_list(void *list, char *arg, struct argp_state *state)
{
	for (char *part; (part = strsep(&arg, ","));)
		if (*part)
			strv_add(list, part);
}

void apptainer_begin(void)
{
	argp_err_exit_status = APPTAINER_FAILED;
	options_usage_status = APPTAINER_USAGE;
}

char *apptainer_image(const char *word, struct mlr_error *err)
{
	static const char *const others[] = { "docker-archive:", "oci-archive:", "oci:" };
	auto_call(config_done) struct config c = { 0 };
	const struct config_value *library;
	auto_free char *real = NULL;
	struct stat st;

	if (strncmp(word, "docker://", 9) == 0)
		return xstrdup(word + 9);
	if (strncmp(word, "library://", 10) == 0 && config_load(&c, NULL) == 0 &&
		(library = config_get(&c, "apptainer", "library")))
		return xasprintf("%s/%s", library->value, word + 10);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strncmp(word, others[i], strlen(others[i])) == 0)
			return xstrdup(word);
	if (strstr(word, "://")) {
		mlr_fail(err, ENOTSUP, "'%s': mlrun knows no such source", word);
		mlr_hint(err, "docker://NAME takes an image from a registry");
		return NULL;
	}
	if (stat(word, &st) < 0) {
		mlr_fail_errno(err, "image '%s'", word);
		mlr_hint(err, "docker://%s takes it from a registry", word);
		return NULL;
	}
	real = realpath(word, NULL);
	return xasprintf("%s:%s", S_ISDIR(st.st_mode) ? "rootfs" : "sif", real ? real : word);
}

int apptainer_status(int status)
{
	return status == CLI_FAILED ? APPTAINER_FAILED : status;
}
