#include "registry/endpoint.h"

#include "base/config.h"
#include "base/home.h"
#include "oci/manifest.h"
#include "oci/ref.h"
#include "registry/answer.h"
#include "registry/request.h"
#include "registry/url.h"

/*
 * The CA certificates to trust for a registry and our client certificate: from mlrun.conf (ca,
 * client_cert, client_key) and the directories of podman and Docker (containers-certs.d(5)), of
 * which the first that exists counts:
 *
 *   ~/.config/containers/certs.d/HOST[:PORT]/   /etc/containers/certs.d/…   /etc/docker/certs.d/…
 *
 * In them, *.crt are CA certificates; NAME.cert and NAME.key are a client certificate and its key.
 */

struct certs {
	char *ca;                       /* all CA certificates together as PEM, or NULL */
	char *client_cert, *client_key; /* files, or NULL */
	char *user_dir; /* where the user may add certificates, for messages; or NULL */
};

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
	set_ptr(&c->ca, both);
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

static void certs_done(struct certs *c)
{
	free(c->ca);
	free(c->client_cert);
	free(c->client_key);
	free(c->user_dir);
	*c = (struct certs){ 0 };
}

/*
 * Load the certificates.
 *
 *   host    "quay.io", "registry.lab:5000"
 *   config  may be NULL
 *
 * Returns 0, or -errno if a file is missing, unreadable, or lacks its certificate or key.
 */
static int certs_load(
	const char *host, const struct config *config, struct certs *ret, struct mlr_error *err)
{
	auto_call(certs_done) struct certs c = { 0 };
	int r = 0;

	/* The host must not lead out of the directories. */
	if (strchr(host, '/') || *host == '.')
		return mlr_fail(err, EINVAL, "'%s' is not a host", host);
	if (config)
		r = add_configured(&c, host, config, err);
	if (r == 0)
		r = add_dirs(&c, host, err);
	TRY(r);
	*ret = take_struct(&c, { 0 });
	return 0;
}

#define TIMEOUT_S         30 /* without a byte, until the connection counts as broken */
#define CONNECT_MS        20000
#define MIRROR_CONNECT_MS 5000
#define TOTAL_TIMES       4  /* the limit for a document, in timeouts */
#define PATIENT_TIMES     20 /* and for the check of an upload */

static int get(const int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(int *flag, int value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static const struct config_value *setting(
	const struct registry_options *opt, const char *host, const char *key)
{
	auto_free char *section = xasprintf("registry %s", host);

	return opt->config ? config_get(opt->config, section, key) : NULL;
}

static int is_insecure(const struct registry_options *opt, const char *host)
{
	const struct config_value *v = setting(opt, host, "insecure");

	return !opt->tls_verify || (v && strcmp(v->value, "true") == 0);
}

static int timeout_ms(const struct registry_options *opt, const char *host)
{
	const struct config_value *v = setting(opt, host, "timeout");

	return 1000 * (v ? atoi(v->value) : TIMEOUT_S);
}

/* A registry on this machine usually speaks plain HTTP; any other needs permission to. */
static void set_bases(struct endpoint *e, const char *name, int insecure)
{
	const char *host = strcmp(name, "docker.io") == 0 ? "registry-1.docker.io" : name;
	const struct oci_ref ref = { .registry = (char *)name };
	int loopback = oci_ref_is_loopback(&ref);

	e->bases[0] = xasprintf("%s://%s", loopback ? "http" : "https", host);
	if (loopback || insecure)
		e->bases[1] = xasprintf("%s://%s", loopback ? "https" : "http", host);
}

struct endpoint *endpoint_new(
	const char *host, const char *repository, int is_mirror, const struct registry_options *opt)
{
	struct endpoint *e = xcalloc(1, sizeof(*e));
	auto_call(certs_done) struct certs certs = { 0 };
	int insecure = is_insecure(opt, host), stall_ms = timeout_ms(opt, host);
	int connect_ms = is_mirror ? MIRROR_CONNECT_MS : CONNECT_MS;

	if (certs_load(host, opt->config, &certs, &e->broken) < 0)
		mlr_wrap(&e->broken, "'%s'", host);
	struct http_options http = { .tls_verify = !insecure,
		.ca = certs.ca,
		.client_cert = certs.client_cert,
		.client_key = certs.client_key,
		.certs_hint = certs.user_dir,
		.connect_ms = connect_ms < stall_ms ? connect_ms : stall_ms,
		.stall_ms = stall_ms,
		.cancelled = opt->cancelled,
		.cancelled_ctx = opt->cancelled_ctx };

	e->name = xstrdup(host);
	e->repository = xstrdup(repository);
	e->is_mirror = is_mirror;
	e->total_ms = (int64_t)stall_ms * TOTAL_TIMES;
	e->http = http_new(&http);
	struct auth_options auth = { .http = e->http,
		.registry = e->name,
		.repository = e->repository,
		.authfile = opt->authfile,
		.config = opt->config,
		.total_ms = e->total_ms };

	e->auth = auth_new(&auth);
	set_bases(e, host, insecure);
	return e;
}

void endpoint_free(struct endpoint *e)
{
	if (!e)
		return;
	auth_free(e->auth);
	http_free(e->http);
	free(e->name);
	free(e->repository);
	free(e->bases[0]);
	free(e->bases[1]);
	free(e);
}

static char *make_url(const struct endpoint *e, const struct request *q, const char *base)
{
	if (q->url)
		return xstrdup(q->url);
	if (q->is_root)
		return xasprintf("%s/v2/", base);
	return xasprintf("%s/v2/%s/%s", base, e->repository, q->path);
}

int endpoint_fail(
	struct endpoint *e, const struct request *q, struct http_exchange *x, struct mlr_error *err)
{
	auto_free char *user = auth_user(e->auth);
	const struct answer_to to = { e->name, e->repository, q->what, user, q->is_upload };

	return answer_fail(x, &to, err);
}

static int refuse(struct endpoint *e, const struct request *q, struct mlr_error *err)
{
	auto_free char *user = auth_user(e->auth);
	const struct answer_to to = { e->name, e->repository, q->what, user, q->is_upload };

	return answer_refused(&to, err);
}

static int send(struct endpoint *e, const struct request *q, const char *url, const char *base,
	const char *header, struct http_exchange *x, struct mlr_error *err)
{
	int ret;

	http_exchange_done(x);
	*x = (struct http_exchange){ .url = url,
		.base = base,
		.head = q->head,
		.accept = q->want_manifest ? OCI_ACCEPT_MANIFESTS : NULL,
		.method = q->method,
		.body = q->body,
		.authorization = url_same_origin(url, base) ? header : NULL,
		.total_ms = q->received || q->is_upload ? 0 : e->total_ms,
		.stall_ms = q->is_patient ? e->total_ms / TOTAL_TIMES * PATIENT_TIMES : 0,
		.sink = q->sink,
		.sink_ctx = q->ctx };
	if (q->begin)
		q->begin(q->ctx, x);
	ret = http_perform(e->http, x, err);
	x->url = x->base = x->authorization = NULL;
	return ret;
}

/* Send it once with the present header and, if refused, once more with a new one. */
static int try_with_auth(struct endpoint *e, const struct request *q, const char *base,
	struct http_exchange *x, struct mlr_error *err)
{
	auto_free char *url = make_url(e, q, base);

	for (int renewed = 0;; renewed = 1) {
		char *header = auth_header(e->auth, base);
		int ret = send(e, q, url, base, header, x, err);

		if (ret < 0 || x->status != 401 || x->redirected || renewed) {
			credential_free_secret(header);
			return ret;
		}
		ret = auth_renew(e->auth, header, x->authenticate, base, &x->transient, err);
		credential_free_secret(header);
		if (ret == -EACCES)
			return refuse(e, q, err);
		if (ret < 0)
			return ret;
	}
}

/*
 * Has the peer shown that it speaks the other scheme? A TLS server answers a plain request with
 * 400; a plain server breaks the handshake; a port other than the default may not even be open.
 * Another thread may have settled on the other scheme since this request began.
 */
static int wrong_scheme(
	const struct endpoint *e, const char *base, const struct http_exchange *x, int ret)
{
	if ((get(&e->settled) && get(&e->at) == 0) || !e->bases[1] || base == e->bases[1])
		return 0;
	if (ret == 0)
		return x->status == 400 && strncmp(base, "http:", 5) == 0;
	return x->other_protocol || x->unreached;
}

/* Try the schemes in order until one gets a response. Report the first one's failure, unless the
 * second one shows that the peer understood it. */
int endpoint_try(
	struct endpoint *e, const struct request *q, struct http_exchange *x, struct mlr_error *err)
{
	struct mlr_error first = MLR_ERROR_INIT;
	const char *base = e->bases[get(&e->at)];
	int ret, transient, unreached;

	if (e->broken.code) {
		*err = e->broken;
		return -err->code;
	}
	ret = try_with_auth(e, q, base, x, err);
	if (wrong_scheme(e, base, x, ret)) {
		if (ret == 0)
			endpoint_fail(e, q, x, err);
		first = *err;
		mlr_debug("'%s' does not speak %.*s, trying the other", e->name,
			(int)strcspn(base, ":"), base);
		base = e->bases[1];
		transient = x->transient;
		unreached = x->unreached;
		ret = try_with_auth(e, q, base, x, err);
		if (ret < 0 && (x->unreached || x->other_protocol)) {
			*err = first;
			x->transient = transient;
			x->unreached = unreached;
			return -first.code;
		}
	}
	if (ret == 0 && !get(&e->settled)) {
		set(&e->at, base == e->bases[1]);
		set(&e->settled, 1);
	}
	return ret;
}
