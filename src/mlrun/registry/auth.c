#include "registry/auth.h"

#include "registry/answer.h"
#include "registry/token.h"
#include "registry/url.h"

#include <openssl/evp.h>

/*
 * Parses the WWW-Authenticate header (RFC 9110, 11.6.1), which says how to authenticate to a
 * registry (distribution-spec's token authentication, RFC 6750 for "Bearer").
 */

#define CHALLENGE_MAX 8192 /* bytes of header to parse at most */

#define ALNUM   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define TOKEN   ALNUM "!#$%&'*+-.^_`|~" /* RFC 9110, 5.6.2 */
#define TOKEN68 ALNUM "-._~+/"          /* RFC 9110, 11.2 */
#define SPACE   " \t"

static const char *skip(const char *s, const char *set)
{
	return s + strspn(s, set);
}

/* Read a quoted string without its quotes and backslashes. Returns the rest of the text, or
 * NULL. */
static const char *read_quoted(const char *s, char **ret)
{
	auto_free char *out = xmalloc(strlen(s));
	size_t n = 0;

	for (s++; *s != '"'; s++) {
		if (*s == '\\')
			s++;
		if (*s == '\0' || ((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return NULL;
		out[n++] = *s;
	}
	out[n] = '\0';
	*ret = take_ptr(&out);
	return s + 1;
}

static const char *read_value(const char *s, char **ret)
{
	size_t n;

	if (*s == '"')
		return read_quoted(s, ret);
	n = strspn(s, TOKEN ":/?="); /* some servers send unquoted URLs, against the grammar */
	if (n == 0)
		return NULL;
	*ret = xstrndup(s, n);
	return s + n;
}

/* Skip the scheme's token68, if there is one, as in "Negotiate YWJj==". */
static const char *skip_token68(const char *s)
{
	const char *end = skip(skip(s, TOKEN68), "=");

	return end > s && (*skip(end, SPACE) == ',' || *skip(end, SPACE) == '\0') ? end : s;
}

static enum challenge_scheme scheme_of(const char *s, size_t n)
{
	if (n == 6 && strncasecmp(s, "Bearer", n) == 0)
		return CHALLENGE_BEARER;
	if (n == 5 && strncasecmp(s, "Basic", n) == 0)
		return CHALLENGE_BASIC;
	return CHALLENGE_OTHER;
}

static char **slot_of(struct challenge *c, const char *s, size_t n)
{
	if (n == 5 && strncasecmp(s, "realm", n) == 0)
		return &c->realm;
	if (n == 7 && strncasecmp(s, "service", n) == 0)
		return &c->service;
	if (n == 5 && strncasecmp(s, "scope", n) == 0)
		return &c->scope;
	return NULL;
}

/* Read one "name=value"; the first of a name counts. Returns the rest of the text, or NULL. */
static const char *read_param(const char *name, size_t n, const char *equals, struct challenge *c)
{
	auto_free char *value = NULL;
	char **slot = slot_of(c, name, n);
	const char *end = read_value(skip(equals + 1, SPACE), &value);

	if (end && slot && !*slot)
		*slot = take_ptr(&value);
	return end;
}

/* Keep the better of two challenges in best; c ends empty. */
static void prefer(struct challenge *best, struct challenge *c)
{
	if (c->scheme > best->scheme && (c->scheme != CHALLENGE_BEARER || c->realm)) {
		auth_challenge_done(best);
		*best = *c;
		*c = (struct challenge)CHALLENGE_INIT;
	}
	auth_challenge_done(c);
}

void auth_challenge_done(struct challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
	*c = (struct challenge)CHALLENGE_INIT;
}

int auth_challenge_parse(const char *value, struct challenge *ret, struct mlr_error *err)
{
	auto_call(auth_challenge_done) struct challenge best = CHALLENGE_INIT, c = CHALLENGE_INIT;
	const char *s = value;
	int in_challenge = 0;

	if (strlen(value) > CHALLENGE_MAX)
		return mlr_fail(
			err, EPROTO, "a WWW-Authenticate header of %zu bytes", strlen(value));
	while (*(s = skip(s, SPACE ",")) != '\0') {
		size_t n = strspn(s, TOKEN);
		const char *after = skip(s + n, SPACE);

		if (n > 0 && *after == '=' && in_challenge) {
			s = read_param(s, n, after, &c);
		} else if (n > 0 && *after != '=') {
			prefer(&best, &c);
			c.scheme = scheme_of(s, n);
			in_challenge = 1;
			s = skip_token68(after);
			continue;
		} else {
			s = NULL;
		}
		if (!s || (*skip(s, SPACE) != ',' && *skip(s, SPACE) != '\0'))
			return mlr_fail(
				err, EPROTO, "a malformed WWW-Authenticate header '%.200s'", value);
	}
	prefer(&best, &c);
	*ret = take_struct(&best, CHALLENGE_INIT);
	return 0;
}

#define MARGIN_MS 10000 /* replace a token so long before its end, or after 2/3 of its life */

struct auth {
	pthread_mutex_t lock; /* held while a token is fetched, so that threads share one */
	struct http *http;
	char *registry, *repository, *authfile;
	struct strv token_servers; /* other hosts that may get the credentials */
	int64_t total_ms;
	int looked_up; /* credentials were looked up */
	int has;       /* and found */
	struct credential cred;
	char *header;
	int64_t renew_ms;      /* when to replace the header; 0: never */
	struct challenge from; /* the challenge that header answers */
};

struct auth *auth_new(const struct auth_options *opt)
{
	struct auth *a = xcalloc(1, sizeof(*a));
	auto_free char *section = xasprintf("registry %s", opt->registry);

	pthread_mutex_init(&a->lock, NULL);
	a->http = opt->http;
	a->registry = xstrdup(opt->registry);
	a->repository = xstrdup(opt->repository);
	a->authfile = opt->authfile ? xstrdup(opt->authfile) : NULL;
	a->total_ms = opt->total_ms;
	if (opt->config)
		config_list(opt->config, section, "token_server", &a->token_servers);
	return a;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a->registry);
	free(a->repository);
	free(a->authfile);
	strv_done(&a->token_servers);
	credential_done(&a->cred);
	credential_free_secret(a->header);
	auth_challenge_done(&a->from);
	free(a);
}

void auth_set(struct auth *a, const struct credential *c)
{
	a->looked_up = a->has = 1;
	a->cred.user = xstrdup(c->user);
	a->cred.password = xstrdup(c->password);
}

char *auth_user(struct auth *a)
{
	char *user;

	pthread_mutex_lock(&a->lock);
	user = a->has ? xstrdup(a->cred.user) : NULL;
	pthread_mutex_unlock(&a->lock);
	return user;
}

static int look_up(struct auth *a, struct mlr_error *err)
{
	int r;

	if (a->looked_up)
		return 0;
	r = credential_find(a->authfile, a->registry, a->repository, &a->cred, err);
	if (r == -EACCES) {
		err->code = EPERM; /* the refusal is not the registry's */
		return -EPERM;
	}
	TRY(r);
	a->looked_up = 1;
	a->has = r;
	return 0;
}

static void keep_header(struct auth *a, char *header, int64_t renew_ms)
{
	credential_free_secret(a->header);
	a->header = header;
	a->renew_ms = renew_ms;
}

/* May a token server get the credentials? It could misuse them. */
static int check_trust(
	const struct auth *a, const char *realm, const char *base, struct mlr_error *err)
{
	auto_free char *host = url_host(realm);

	if (url_same_site(realm, base) || strv_has(&a->token_servers, host))
		return 0;
	mlr_fail(err, EACCES,
		"refused to tell the credentials of '%s' to the token server '%.200s', which is of "
		"another site",
		a->registry, realm);
	return mlr_hint(err,
		"if that is right: token_server = %s under [registry %s] in mlrun.conf", host,
		a->registry);
}

static int answer_bearer(struct auth *a, const struct challenge *c, const char *base,
	int *transient, struct mlr_error *err)
{
	auto_free char *scope = xasprintf("repository:%s:pull", a->repository);
	struct token_request q = { .http = a->http,
		.registry = a->registry,
		.base = base,
		.realm = c->realm,
		.service = c->service,
		.scope = c->scope,
		.credential = a->has ? &a->cred : NULL,
		.total_ms = a->total_ms };
	struct token t = { 0 };
	int r = url_check_realm(c->realm, base, err);
	int64_t life, margin;

	if (r == 0 && a->has)
		r = check_trust(a, c->realm, base, err);
	TRY(r);
	if (!q.scope && *a->repository)
		q.scope = scope;
	TRY(token_fetch(&q, &t, transient, err));
	life = t.life_s * 1000;
	margin = life / 3 < MARGIN_MS ? life / 3 : MARGIN_MS;
	keep_header(a, xasprintf("Bearer %s", t.text), mlr_now_ms() + life - margin);
	token_done(&t);
	return 0;
}

static int answer_basic(struct auth *a, struct mlr_error *err)
{
	if (!a->has)
		return mlr_fail(err, EACCES, "the registry wants a user name and a password");
	if (a->cred.identity_token)
		return mlr_fail(err, EACCES,
			"the registry wants a password, '%s' has an identity token for it",
			a->cred.origin);
	if (a->header && strncmp(a->header, "Basic ", 6) == 0)
		return mlr_fail(err, EACCES, "user '%s' is refused", a->cred.user);
	keep_header(a, token_basic(&a->cred), 0);
	return 0;
}

static int answer_challenge(struct auth *a, const struct challenge *c, const char *base,
	int *transient, struct mlr_error *err)
{
	TRY(look_up(a, err));
	if (c->scheme == CHALLENGE_BEARER)
		return answer_bearer(a, c, base, transient, err);
	if (c->scheme == CHALLENGE_BASIC)
		return answer_basic(a, err);
	return mlr_fail(err, EACCES, "the registry refuses access and offers no way to ask for it");
}

/* Parse the challenge, answer it, and keep it for when the token expires. */
static int fetch(
	struct auth *a, const char *text, const char *base, int *transient, struct mlr_error *err)
{
	auto_call(auth_challenge_done) struct challenge c = CHALLENGE_INIT;

	TRY(auth_challenge_parse(text ? text : "", &c, err));
	TRY(answer_challenge(a, &c, base, transient, err));
	auth_challenge_done(&a->from);
	a->from = take_struct(&c, CHALLENGE_INIT);
	return 0;
}

char *auth_header(struct auth *a, const char *base)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int transient = 0;
	char *copy;

	pthread_mutex_lock(&a->lock);
	if (a->renew_ms != 0 && mlr_now_ms() >= a->renew_ms) {
		mlr_debug("the token runs out, asking for a new one");
		if (answer_challenge(a, &a->from, base, &transient, &err) < 0) {
			mlr_log_failure(MLR_DEBUG, &err, "");
			a->renew_ms = 0; /* if it matters, the registry's 401 will show it */
		}
	}
	copy = a->header ? xstrdup(a->header) : NULL;
	pthread_mutex_unlock(&a->lock);
	return copy;
}

int auth_renew(struct auth *a, const char *refused, const char *challenge, const char *base,
	int *transient, struct mlr_error *err)
{
	int r = 0;

	*transient = 0;
	pthread_mutex_lock(&a->lock);
	if (!a->header || (refused && strcmp(a->header, refused) == 0))
		r = fetch(a, challenge, base, transient, err);
	pthread_mutex_unlock(&a->lock);
	return r;
}
