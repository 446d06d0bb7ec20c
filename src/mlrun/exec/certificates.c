/* Certificates of authorities for the programs in a container. */
#include "exec/parts.h"

#define PLACE "/run/mlrun/"

/* Variables that OpenSSL, curl, Python's requests, pip, git, Node.js and boto read. */
static const char *const names[] = { "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
	"PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE" };

static int is_file(const char *path)
{
	struct stat st;

	return *path == '/' && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
		access(path, R_OK) == 0;
}

/* Where a file is mounted already, or NULL. */
static const char *find_place(const struct plan *p, const char *file)
{
	for (size_t i = 0; i < p->n_mounts; i++)
		if (strncmp(p->mounts[i].target, PLACE, strlen(PLACE)) == 0 &&
			p->mounts[i].source && strcmp(p->mounts[i].source, file) == 0)
			return p->mounts[i].target;
	return NULL;
}

/* Mount a file; ret gets its place, to free(). */
static int mount_file(struct plan *p, const char *file, const char *name, enum plan_origin origin,
	char **ret, struct mlr_error *err)
{
	const char *place = find_place(p, file);
	auto_free char *target = place ? xstrdup(place) : xasprintf(PLACE "%s", name);
	int r = place ? 0
		      : plan_mount_add(p, PLAN_BIND, file, target, PLAN_READONLY | PLAN_OPTIONAL,
				origin, err);

	*ret = r < 0 ? NULL : take_ptr(&target);
	return r;
}

/* A file that the caller's own variable names: it is mounted unless its directory is, and the
 * variable then names it where it is. */
static int bring_callers(struct plan *p, const char *name, struct mlr_error *err)
{
	const char *value = plan_env_get(p, name);
	auto_free char *path = value ? path_clean(value) : NULL, *place = NULL;
	int r;

	if (!path || plan_env_origin(p, name) != PLAN_FROM_CALLER || plan_covers(p, path) ||
		!is_file(path))
		return 0;
	r = mount_file(p, path, name, PLAN_FROM_CALLER, &place, err);
	if (r == 0)
		plan_env_set(p, name, place, PLAN_FROM_CALLER);
	return r;
}

/* A file for all programs, whose variables nobody has set. */
static int bring_configured(
	const char *file, enum plan_origin origin, struct plan *p, struct mlr_error *err)
{
	auto_free char *place = NULL;
	int r;

	if (!is_file(file)) {
		plan_remark_add(p, origin, "no certificates: '%s' cannot be read", file);
		return 0;
	}
	r = mount_file(p, file, "ca-certificates.crt", origin, &place, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++)
		if (!plan_env_get(p, names[i]))
			plan_env_set(p, names[i], place, origin);
	return r;
}

int certificates_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++)
		r = bring_callers(p, names[i], err);
	return r == 0 && o->ca ? bring_configured(o->ca, o->ca_origin, p, err) : r;
}
