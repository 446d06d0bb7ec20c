#include "registry/token.h"

#include "oci/json.h"
#include "registry/answer.h"
#include "registry/authfile.h"
#include "registry/buffer.h"
#include "registry/url.h"

#define ANSWER_MAX (256u << 10) /* bytes; large sites have tokens of some 10 KiB */
#define LIFE_MAX_S (24 * 3600)
#define LIFE_MIN_S 10 /* a shorter rest means that the clocks differ */

void token_done(struct token *t)
{
	credential_free_secret(t->text);
	*t = (struct token){ 0 };
}

char *token_basic(const struct credential *c)
{
	char *text = authfile_encode(c->user, c->password), *ret = xasprintf("Basic %s", text);

	credential_free_secret(text);
	return ret;
}

/* The token becomes part of a header: it must not contain the header's end. */
static int check_token(const char *token)
{
	if (*token == '\0')
		return 0;
	for (; *token; token++)
		if ((unsigned char)*token <= 0x20 || (unsigned char)*token >= 0x7f)
			return 0;
	return 1;
}

/* The rest of a life that began at issued_at (RFC 3339, in UTC as all servers write it). */
static int64_t life_left(int64_t life, const char *issued_at)
{
	struct tm tm = { 0 };
	const char *end = issued_at ? strptime(issued_at, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	int64_t age = end ? (int64_t)time(NULL) - (int64_t)timegm(&tm) : 0;

	if (!end || strpbrk(end, "+-") || age <= 0 || life - age < LIFE_MIN_S)
		return life;
	return life - age;
}

struct answer {
	char *token, *access_token, *issued_at;
};

#define AT(member) RECORD_AT(struct answer, member)

static const struct record_row answer_rows[] = {
	{ "token", RECORD_TEXT, AT(token) },
	{ "access_token", RECORD_TEXT, AT(access_token) },
	{ "issued_at", RECORD_TEXT, AT(issued_at) },
	{ NULL },
};

static void answer_done(struct answer *a)
{
	credential_free_secret(a->token);
	credential_free_secret(a->access_token);
	free(a->issued_at);
}

int token_parse(const char *text, size_t len, struct token *ret, struct mlr_error *err)
{
	const struct record_reader r = { .manner = RECORD_PRINTABLE | RECORD_SECRET, .err = err };
	auto_call(answer_done) struct answer a = { NULL };
	json_auto_t *root = NULL;
	char **token;
	double seconds;
	int64_t life;

	TRY(oci_json_load(text, len, ANSWER_MAX, &root, err));
	TRY(record_read(&r, answer_rows, root, &a));
	token = a.token && *a.token ? &a.token : &a.access_token;
	if (!*token || !check_token(*token))
		return mlr_fail(err, EPROTO, "the answer holds no token");
	seconds = json_number_value(json_object_get(root, "expires_in")); /* or 0 */
	life = seconds < 1 ? TOKEN_LIFE_S : seconds > LIFE_MAX_S ? LIFE_MAX_S : (int64_t)seconds;
	ret->life_s = life_left(life, a.issued_at);
	ret->text = take_ptr(token);
	return 0;
}

/* Append a field to the query unless it is empty. *url becomes NULL if it is invalid. */
static void add_query(char **url, const char *name, const char *value)
{
	char *longer;

	if (!*url || !value || !*value)
		return;
	longer = url_add_query(*url, name, value);
	set_ptr(url, longer);
}

/* Each word of the scope is a parameter of its own (docs/spec/auth/token.md). */
static char *make_url(const struct token_request *q)
{
	char *url = xstrdup(q->realm);

	add_query(&url, "service", q->service);
	for (const char *s = q->scope ? q->scope : ""; *s;) {
		size_t n = strcspn(s, " ");
		auto_free char *word = xstrndup(s, n);

		add_query(&url, "scope", word);
		s += n + strspn(s + n, " ");
	}
	add_query(&url, "account", q->credential ? q->credential->user : NULL);
	return url;
}

static char *make_form(const struct token_request *q)
{
	char *form = NULL;

	url_add_field(&form, "grant_type", "refresh_token");
	url_add_field(&form, "client_id", "mlrun");
	if (q->service)
		url_add_field(&form, "service", q->service);
	if (q->scope)
		url_add_field(&form, "scope", q->scope);
	url_add_field(&form, "refresh_token", q->credential->identity_token);
	return form;
}

static int fail_refused(
	const struct token_request *q, const struct http_exchange *x, struct mlr_error *err)
{
	char code[ANSWER_CODE_SIZE], message[ANSWER_MESSAGE_SIZE];

	if (!q->credential)
		return mlr_fail(err, EACCES, "anonymous access is refused");
	answer_problem(x, code, message);
	mlr_fail(err, EACCES, "user '%s' is refused%s%s", q->credential->user, *message ? ": " : "",
		message);
	if (!q->credential->origin)
		return -EACCES;
	return mlr_hint(err, "the credentials are those in '%s'; mlrun login %s replaces them",
		q->credential->origin, q->registry);
}

static int judge(const struct token_request *q, const struct http_exchange *x,
	const struct buffer *b, struct token *ret, int *transient, struct mlr_error *err)
{
	/* RFC 6749, 5.2: an invalid refresh token is a bad request. */
	if (x->status == 401 || x->status == 403 || (x->status == 400 && q->credential))
		return fail_refused(q, x, err);
	if (x->status != 200) {
		*transient = x->status == 429 || x->status >= 500;
		return mlr_fail(err, x->status == 429 ? EBUSY : EIO, "HTTP status %d", x->status);
	}
	return token_parse(b->data ? b->data : "", b->len, ret, err);
}

static void drop_answer(struct buffer *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buffer_done(b);
}

int token_fetch(
	const struct token_request *q, struct token *ret, int *transient, struct mlr_error *err)
{
	auto_call(drop_answer) struct buffer answer = BUFFER_INIT(ANSWER_MAX);
	int by_form = q->credential && q->credential->identity_token;
	char *basic = q->credential && !by_form ? token_basic(q->credential) : NULL;
	char *form = by_form ? make_form(q) : NULL;
	auto_free char *url = by_form ? xstrdup(q->realm) : make_url(q);
	auto_call(http_exchange_done) struct http_exchange x = { .url = url,
		.base = q->base,
		.authorization = basic,
		.post = form,
		.total_ms = q->total_ms,
		.sink = buffer_put,
		.sink_ctx = &answer };
	int r;

	if (!url)
		r = mlr_fail(err, EPROTO, "the address is malformed");
	else
		r = http_perform(q->http, &x, err);
	*transient = r < 0 && x.transient;
	if (r == 0)
		r = judge(q, &x, &answer, ret, transient, err);
	credential_free_secret(basic);
	credential_free_secret(form);
	if (r < 0)
		mlr_wrap(err, "ask '%.200s' for a token", q->realm);
	return r;
}
