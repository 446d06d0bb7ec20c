/* Checks the files with registry credentials (registry/credential.h lists them). */
#include "doctor/check.h"

#include "base/authorities.h"
#include "base/home.h"

#include <jansson.h>

#define FILE_MAX (1u << 20) /* bytes, as in registry/authfile.h */

static void name_files(struct strv *ret)
{
	const char *named = getenv("REGISTRY_AUTH_FILE"), *runtime = getenv("XDG_RUNTIME_DIR"),
		   *docker = getenv("DOCKER_CONFIG");
	auto_free char *config = home_xdg_dir("XDG_CONFIG_HOME", ".config", NULL),
		       *home = home_dir(NULL);

	if (named && *named) {
		strv_add(ret, named);
		return;
	}
	if (runtime && runtime[0] == '/')
		strv_addf(ret, "%s/containers/auth.json", runtime);
	if (config)
		strv_addf(ret, "%s/containers/auth.json", config);
	if (docker && *docker)
		strv_addf(ret, "%s/config.json", docker);
	else if (home)
		strv_addf(ret, "%s/.docker/config.json", home);
}

/* Count the secrets in the file itself, not in a helper. */
static size_t count_secrets(json_t *file)
{
	json_t *entry;
	const char *key;
	size_t n = 0;

	json_object_foreach(json_object_get(file, "auths"), key, entry)
		n += json_object_get(entry, "auth") || json_object_get(entry, "identitytoken") ||
			json_object_get(entry, "password");
	return n;
}

/* Check a helper. One for all registries may be left over from another machine, and is then
 * ignored; one for a single registry is needed. */
static void look_at_helper(const struct doctor_machine *m, const char *path, const char *registry,
	const char *helper, struct doctor_report *r)
{
	auto_free char *name = xasprintf("docker-credential-%s", helper);
	auto_free char *program = doctor_program(m, name);

	if (program)
		return;
	doctor_add(r, "credentials", registry ? DOCTOR_FAILURE : DOCTOR_WARNING,
		"'%s' is not on PATH", name);
	if (registry)
		doctor_because(r, "'%s' has it keep the secrets for '%s'", path, registry);
	else
		doctor_because(r, "'%s' has it keep all secrets; it is passed over", path);
	doctor_mend(r, DOCTOR_YOU, "export PATH=$PATH:/where/it/is; or take '%s' out of '%s'",
		helper, path);
}

static void look_at_helpers(
	const struct doctor_machine *m, const char *path, json_t *file, struct doctor_report *r)
{
	const char *all = json_string_value(json_object_get(file, "credsStore")), *registry;
	json_t *helper;

	if (all && *all)
		look_at_helper(m, path, NULL, all, r);
	json_object_foreach(json_object_get(file, "credHelpers"), registry, helper)
		if (json_is_string(helper) && *json_string_value(helper))
			look_at_helper(m, path, registry, json_string_value(helper), r);
}

static void tell_unreadable(const char *path, int code, struct doctor_report *r)
{

	doctor_add(
		r, "credentials", DOCTOR_FAILURE, "'%s' cannot be read: %s", path, strerror(code));
	doctor_because(r, "mlrun pull refuses to go on without it");
	doctor_mend(r, DOCTOR_YOU, "ls -l '%s'", path);
}

static void tell_garbled(const char *path, int line, struct doctor_report *r)
{

	doctor_add(r, "credentials", DOCTOR_FAILURE, "'%s' is not JSON: line %d", path, line);
	doctor_because(r, "mlrun pull refuses to go on without it");
	doctor_mend(r, DOCTOR_YOU, "mv '%s' '%s.broken' && mlrun login REGISTRY", path, path);
}

/* Read the file. No finding shows its contents. Returns 0, or -1 after adding a finding. */
static int read_secrets(
	const struct doctor_machine *m, const char *path, size_t *ret, struct doctor_report *r)
{
	auto_free char *text = NULL;
	json_auto_t *file = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	json_error_t why = { .line = 1 };
	size_t len;

	if (file_read(AT_FDCWD, path, FILE_MAX, &text, &len, &err) < 0) {
		tell_unreadable(path, err.code, r);
		return -1;
	}
	if (len > 0)
		file = json_loadb(text, len, 0, &why);
	explicit_bzero(text, len);
	if (len > 0 && !json_is_object(file)) {
		tell_garbled(path, why.line > 0 ? why.line : 1, r);
		return -1;
	}
	look_at_helpers(m, path, file, r);
	*ret = count_secrets(file);
	return 0;
}

/* Returns 1 if there is such a file. */
static int look_at_file(const struct doctor_machine *m, const char *path, struct doctor_report *r)
{
	size_t secrets = 0;
	struct stat sb;

	if (stat(path, &sb) < 0)
		return 0;
	if (read_secrets(m, path, &secrets, r) < 0)
		return 1;
	if (secrets > 0 && S_ISREG(sb.st_mode) && (sb.st_mode & (S_IRGRP | S_IROTH))) {
		doctor_add(r, "credentials", DOCTOR_FAILURE, "others may read '%s' (mode %04o)",
			path, (unsigned)sb.st_mode & 07777);
		doctor_because(r, "it holds %zu secret%s, which mlrun refuses to use then", secrets,
			secrets > 1 ? "s" : "");
		doctor_mend(r, DOCTOR_YOU, "chmod 600 '%s'", path);
		return 1;
	}
	doctor_add(r, "credentials", DOCTOR_PASS, "'%s' holds %zu secret%s", path, secrets,
		secrets == 1 ? "" : "s");
	return 1;
}

/* Without certificates of authorities no registry is believed. */
static void look_at_authorities(struct doctor_report *r)
{
	const char *named = getenv("SSL_CERT_FILE");

	if (named && *named ? access(named, R_OK) == 0 : authorities_file() != NULL)
		return;
	doctor_add(r, "credentials", DOCTOR_WARNING, "no registry can be asked over https");
	if (named && *named) {
		doctor_because(r, "SSL_CERT_FILE names '%s', which cannot be read", named);
		doctor_mend(r, DOCTOR_YOU, "unset SSL_CERT_FILE");
	} else {
		doctor_because(r, "there are no certificates of authorities");
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "install the package ca-certificates");
	}
}

void check_credentials(const struct doctor_machine *m, struct doctor_report *r)
{
	const char *named = getenv("REGISTRY_AUTH_FILE");
	auto_strv struct strv files = STRV_INIT;
	int found = 0;

	if (!doctor_is_here(m))
		return;
	look_at_authorities(r);
	name_files(&files);
	for (size_t i = 0; i < files.n; i++)
		found |= look_at_file(m, files.v[i], r);
	if (found)
		return;
	if (!named || !*named) {
		doctor_add(
			r, "credentials", DOCTOR_PASS, "none: registries are asked without a name");
		return;
	}
	doctor_add(r, "credentials", DOCTOR_FAILURE, "'%s' is missing", named);
	doctor_because(r, "REGISTRY_AUTH_FILE names it");
	doctor_mend(r, DOCTOR_YOU, "unset REGISTRY_AUTH_FILE");
}
