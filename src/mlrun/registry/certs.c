#include "registry/certs.h"

#include "base/base.h"
#include "base/home.h"

#define PEM_MAX (8u << 20) /* bytes of one file */

static int add_ca(struct certs *c, const char *path, struct mlr_error *err)
{
	auto_free char *text = NULL;
	char *both;
	int r = file_read(AT_FDCWD, path, PEM_MAX, &text, NULL, err);

	if (r < 0) {
		mlr_wrap(err, "CA certificates");
		return r;
	}
	if (!strstr(text, "-----BEGIN"))
		return mlr_fail(err, EINVAL, "CA certificates '%s': the file is not PEM", path);
	mlr_debug("CA certificates of '%s'", path);
	both = xasprintf("%s%s%s", c->ca ? c->ca : "", c->ca ? "\n" : "", text);
	free(c->ca);
	c->ca = both;
	return 0;
}

/* NAME.cert needs NAME.key; the first pair counts. */
static int add_client(struct certs *c, const char *dir, const char *name, struct mlr_error *err)
{
	auto_free char *cert = xasprintf("%s/%s", dir, name), *key = xstrdup(cert);

	memcpy(key + strlen(key) - strlen(".cert"), ".key", sizeof(".key"));
	if (access(key, R_OK) < 0)
		return mlr_fail_errno(err, "client certificate '%s': its key '%s'", cert, key);
	if (c->client_cert)
		return 0;
	c->client_cert = take_ptr(&cert);
	c->client_key = take_ptr(&key);
	return 0;
}

static int add_file(struct certs *c, const char *dir, const char *name, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	if (path_ends(name, ".crt"))
		return add_ca(c, path, err);
	if (path_ends(name, ".cert"))
		return add_client(c, dir, name, err);
	if (path_ends(name, ".key")) {
		auto_free char *cert = xasprintf("%.*s.cert", (int)(strlen(path) - 4), path);

		if (access(cert, R_OK) < 0)
			return mlr_fail_errno(
				err, "client key '%s': its certificate '%s'", path, cert);
	}
	return 0;
}

/* Returns 1 if the directory exists, else 0. */
static int add_dir(struct certs *c, const char *dir, struct mlr_error *err)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort), r = 0;

	if (n < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (n < 0)
		return mlr_fail_errno(err, "certificates in '%s'", dir);
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add_file(c, dir, names[i]->d_name, err);
		free(names[i]);
	}
	free(names);
	return r < 0 ? r : 1;
}

static int add_dirs(struct certs *c, const char *host, struct mlr_error *err)
{
	static const char *const sites[] = { "/etc/containers/certs.d", "/etc/docker/certs.d" };
	auto_free char *config = home_xdg_dir("XDG_CONFIG_HOME", ".config", NULL);
	int r = 0;

	if (config) {
		c->user_dir = xasprintf("%s/containers/certs.d/%s", config, host);
		r = add_dir(c, c->user_dir, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(sites) && r == 0; i++) {
		auto_free char *dir = xasprintf("%s/%s", sites[i], host);

		r = add_dir(c, dir, err);
	}
	return r < 0 ? r : 0;
}

static int add_configured(
	struct certs *c, const char *host, const struct config *config, struct mlr_error *err)
{
	auto_free char *section = xasprintf("registry %s", host);
	const struct config_value *ca = config_get(config, section, "ca"),
				  *cert = config_get(config, section, "client_cert"),
				  *key = config_get(config, section, "client_key");
	int r = ca ? add_ca(c, ca->value, err) : 0;

	if (r < 0) {
		mlr_wrap(err, "%s:%d", ca->file, ca->line);
		return r;
	}
	if (key && !cert)
		return mlr_fail(
			err, EINVAL, "%s:%d: client_key without client_cert", key->file, key->line);
	if (cert) {
		c->client_cert = xstrdup(cert->value);
		c->client_key = xstrdup(key ? key->value : cert->value);
	}
	return 0;
}

int certs_load(
	const char *host, const struct config *config, struct certs *ret, struct mlr_error *err)
{
	auto_call(certs_done) struct certs c = CERTS_INIT;
	int r = 0;

	/* The host must not lead out of the directories. */
	if (strchr(host, '/') || *host == '.')
		return mlr_fail(err, EINVAL, "'%s' is not a host", host);
	if (config)
		r = add_configured(&c, host, config, err);
	if (r == 0)
		r = add_dirs(&c, host, err);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct certs)CERTS_INIT;
	return 0;
}

void certs_done(struct certs *c)
{
	free(c->ca);
	free(c->client_cert);
	free(c->client_key);
	free(c->user_dir);
	*c = (struct certs)CERTS_INIT;
}
