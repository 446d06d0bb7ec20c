#include "registry/authfile.h"

#include "oci/json.h"

#include <openssl/evp.h>

#define DOCKER_KEY "https://index.docker.io/v1/"

struct authfile {
	json_t *root;
};

void authfile_free(struct authfile *f)
{
	if (!f)
		return;
	json_decref(f->root);
	free(f);
}

int authfile_parse(const char *text, size_t len, struct authfile **ret, struct mlr_error *err)
{
	json_t *root = NULL;
	size_t blank = 0;
	int r = 0;

	while (blank < len && memchr(" \t\r\n", text[blank], 4))
		blank++;
	if (blank == len)
		root = json_object();
	else
		r = oci_json_load(text, len, AUTHFILE_MAX, &root, err);
	TRY(r);
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->root = root;
	return 0;
}

const char *authfile_docker_key(const char *registry)
{
	return strcmp(registry, "docker.io") == 0 ? DOCKER_KEY : registry;
}

/* The host of a key that may be a URL; Docker Hub has three names. To free(). */
static char *normalize(const char *key)
{
	static const char *const hub[] = { "index.docker.io", "registry-1.docker.io" };
	const char *s = key;
	auto_free char *name = NULL;

	if (strncasecmp(s, "https://", 8) == 0)
		s += 8;
	else if (strncasecmp(s, "http://", 7) == 0)
		s += 7;
	name = s == key ? xstrdup(s) : xstrndup(s, strcspn(s, "/"));
	for (size_t i = 0; i < ARRAY_LEN(hub); i++)
		if (strcasecmp(name, hub[i]) == 0)
			return xstrdup("docker.io");
	return take_ptr(&name);
}

/* Decode base64 (RFC 4648, 4). To credential_free_secret(); NULL if it is malformed. */
static char *decode(const char *text)
{
	size_t n = strlen(text), pad = 0;
	unsigned char *out;
	int len;

	if (n == 0 || n % 4 != 0 || n > AUTHFILE_MAX)
		return NULL;
	pad += text[n - 1] == '=';
	pad += text[n - 2] == '=';
	out = xcalloc(1, n);
	len = EVP_DecodeBlock(out, (const unsigned char *)text, (int)n);
	if (len < (int)pad) {
		free(out);
		return NULL;
	}
	out[len - (int)pad] = '\0';
	return (char *)out;
}

char *authfile_encode(const char *user, const char *password)
{
	char *both = xasprintf("%s:%s", user, password);
	size_t n = strlen(both);
	unsigned char *out = xcalloc(1, n / 3 * 4 + 5);

	EVP_EncodeBlock(out, (const unsigned char *)both, (int)n);
	credential_free_secret(both);
	return (char *)out;
}

struct entry {
	char *auth, *token, *user, *password;
};

#define AT(member) RECORD_AT(struct entry, member)

static const struct record_row entry_rows[] = {
	{ "auth", RECORD_TEXT, AT(auth) },
	{ "identitytoken", RECORD_TEXT, AT(token) },
	{ "username", RECORD_TEXT, AT(user) },
	{ "password", RECORD_TEXT, AT(password) },
	{ NULL },
};

static void entry_done(struct entry *e)
{
	credential_free_secret(e->auth);
	credential_free_secret(e->token);
	credential_free_secret(e->password);
	free(e->user);
}

static int read_entry(const json_t *v, struct credential *ret, struct mlr_error *err)
{
	const struct record_reader r = { .manner = RECORD_PRINTABLE | RECORD_SECRET, .err = err };
	auto_call(entry_done) struct entry e = { NULL };
	char *plain, *colon;

	TRY(record_read(&r, entry_rows, v, &e));
	if (e.auth && *e.auth)
		plain = decode(e.auth);
	else if (e.user && *e.user && e.password)
		plain = xasprintf("%s:%s", e.user, e.password);
	else if (e.token && *e.token)
		plain = xstrdup(":");
	else
		return 0;
	colon = plain ? strchr(plain, ':') : NULL;
	if (!colon || (colon == plain && !e.token)) {
		credential_free_secret(plain);
		return mlr_fail(err, EPROTO, "an \"auth\" is not base64 of user:password");
	}
	*colon = '\0';
	ret->user = xstrdup(plain);
	ret->password = xstrdup(colon + 1);
	ret->identity_token = e.token && *e.token ? take_ptr(&e.token) : NULL;
	*colon = ':';
	credential_free_secret(plain);
	return 1;
}

static int find_key(json_t *auths, const char *key, struct credential *ret, struct mlr_error *err)
{
	json_t *entry = json_object_get(auths, key);
	int r = entry ? read_entry(entry, ret, err) : 0;

	if (r < 0)
		mlr_wrap(err, "'%s'", key);
	return r;
}

/* Find the registry in one of Docker's spellings. */
static int find_spelt(
	json_t *auths, const char *registry, struct credential *ret, struct mlr_error *err)
{
	const char *key;
	json_t *entry;
	int r = 0;

	json_object_foreach(auths, key, entry) {
		auto_free char *name = normalize(key);

		if (r == 0 && strcmp(name, registry) == 0)
			r = find_key(auths, key, ret, err);
	}
	return r;
}

int authfile_find(const struct authfile *f, const char *registry, const char *repository,
	struct credential *ret, struct mlr_error *err)
{
	auto_free char *key = xasprintf("%s/%s", registry, repository);
	json_t *auths = json_object_get(f->root, "auths");
	char *slash;
	int r;

	if (!auths || json_is_null(auths))
		return 0;
	if (!json_is_object(auths))
		return mlr_fail(err, EPROTO, "auths: expected an object");
	do {
		r = find_key(auths, key, ret, err);
		slash = strrchr(key, '/');
		if (slash)
			*slash = '\0';
	} while (r == 0 && slash);
	return r == 0 ? find_spelt(auths, registry, ret, err) : r;
}

const char *authfile_helper(const struct authfile *f, const char *registry, int *is_default)
{
	json_t *helpers = json_object_get(f->root, "credHelpers"), *one;

	one = json_object_get(helpers, registry);
	if (!one)
		one = json_object_get(helpers, authfile_docker_key(registry));
	*is_default = !one;
	if (!one)
		one = json_object_get(f->root, "credsStore");
	return json_is_string(one) && *json_string_value(one) ? json_string_value(one) : NULL;
}

int authfile_unset(struct authfile *f, const char *key)
{
	json_t *auths = json_object_get(f->root, "auths"), *entry;
	const char *at;
	void *next;
	int n = 0;

	json_object_foreach_safe(auths, next, at, entry)
	{
		auto_free char *name = normalize(at);

		if (strcmp(name, key) == 0) {
			json_object_del(auths, at);
			n++;
		}
	}
	return n;
}

void authfile_set(struct authfile *f, const char *key, const struct credential *c)
{
	json_t *auths = json_object_get(f->root, "auths"), *entry = json_object();
	char *auth = authfile_encode(c->user, c->password);

	authfile_unset(f, key);
	if (!json_is_object(auths)) {
		auths = json_object();
		json_object_set_new(f->root, "auths", auths);
	}
	json_object_set_new(entry, "auth", json_string(auth));
	json_object_set_new(auths, key, entry);
	credential_free_secret(auth);
}

char *authfile_text(const struct authfile *f)
{
	char *dump = json_dumps(f->root, JSON_INDENT(4)), *text;

	if (!dump)
		mlr_oom();
	text = xasprintf("%s\n", dump);
	credential_free_secret(dump);
	return text;
}
