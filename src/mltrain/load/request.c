#include "load/request.h"

#include "config.h"
#include "tensor/rng.h"

#include <openssl/evp.h>
#include <sys/random.h>

struct requests {
	const struct request_options *o;
	const char *method;
	char *head;                   /* all headers but those of the body */
	int has_type;                 /* the user gives a Content-Type */
	struct request_buffer *known; /* [n] */
	size_t n, next;
	char **also; /* whole requests, one for each of o->also */
	uint64_t random, number;
};

/* --- bytes ------------------------------------------------------------------------------ */

static void put(struct request_buffer *b, const void *bytes, size_t len)
{
	if (b->room - b->len < len) {
		b->room = 2 * b->room > b->len + len ? 2 * b->room : b->len + len;
		b->bytes = xreallocarray(b->bytes, b->room, 1);
	}
	if (len)
		memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
}

static void buffer_done(struct request_buffer *b)
{
	free(b->bytes);
}

static void put_number(struct request_buffer *b, uint64_t v)
{
	char text[24];

	put(b, text, (size_t)sprintf(text, "%" PRIu64, v));
}

/* --- bodies ----------------------------------------------------------------------------- */

/* The parts of a body. */
struct making {
	const struct picture *picture; /* NULL: none */
	uint64_t number;
	struct request_buffer *to;
	struct mlr_error *err;
};

static int put_unique(const struct making *m)
{
	put_number(m->to, m->number);
	return 0;
}

static int put_base64(const struct making *m)
{
	const struct picture *p = m->picture;
	auto_free unsigned char *text = malloc(4 * (p->len / 3 + 1) + 1);

	if (!text)
		return mlr_fail(m->err, ENOMEM, "no memory for a picture of %zu bytes", p->len);
	put(m->to, text, (size_t)EVP_EncodeBlock(text, p->file, (int)p->len));
	return 0;
}

static int put_pixels(const struct making *m)
{
	auto_free uint8_t *bytes = NULL;
	struct image_size size;

	TRY(picture_decode(m->picture, &size, &bytes, m->err));
	for (size_t i = 0; i < (size_t)size.channels * size.height * size.width; i++) {
		put(m->to, i ? "," : "[", 1);
		put_number(m->to, bytes[i]);
	}
	put(m->to, "]", 1);
	return 0;
}

static const struct placeholder {
	const char *text;
	int (*put)(const struct making *m);
	int of_picture;
} placeholders[] = { { "{unique}", put_unique, 0 }, { "{base64}", put_base64, 1 },
	{ "{pixels}", put_pixels, 1 } };

/* Find the first placeholder in bytes, or NULL. */
static const struct placeholder *placeholder_find(const char *bytes, size_t len, const char **at)
{
	const struct placeholder *found = NULL;

	for (size_t i = 0; i < ARRAY_LEN(placeholders); i++) {
		const char *p =
			memmem(bytes, len, placeholders[i].text, strlen(placeholders[i].text));

		if (p && (!found || p < *at)) {
			found = &placeholders[i];
			*at = p;
		}
	}
	return found;
}

static int has_placeholder(const struct request_body *b, int of_picture)
{
	for (size_t i = 0; i < ARRAY_LEN(placeholders); i++)
		if (placeholders[i].of_picture == of_picture &&
			memmem(b->bytes, b->len, placeholders[i].text,
				strlen(placeholders[i].text)))
			return 1;
	return 0;
}

static int body_put(const struct request_body *b, const struct making *m)
{
	const char *p = b->bytes, *end = b->bytes + b->len, *at = p;
	const struct placeholder *placeholder;

	while ((placeholder = placeholder_find(p, (size_t)(end - p), &at))) {
		put(m->to, p, (size_t)(at - p));
		TRY(placeholder->put(m));
		p = at + strlen(placeholder->text);
	}
	put(m->to, p, (size_t)(end - p));
	return 0;
}

static const char *body_type(const struct request_body *b)
{
	for (size_t i = 0; i < b->len && strchr(" \t\r\n{[", b->bytes[i]); i++)
		if (b->bytes[i] == '{' || b->bytes[i] == '[')
			return "application/json";
	return "application/octet-stream";
}

/* --- requests --------------------------------------------------------------------------- */

/* Make the whole request: the body first, as the headers have its length. */
static int request_make(const struct requests *q, size_t turn, uint64_t number,
	struct request_buffer *to, struct mlr_error *err)
{
	auto_call(buffer_done) struct request_buffer content = { 0 };
	struct picture varied = { 0 };
	const struct request_options *o = q->o;
	const struct request_body *body = o->n_bodies ? &o->bodies[turn % o->n_bodies] : NULL;
	const struct picture *picture = o->pictures ? &o->pictures->v[turn % o->pictures->n] : NULL;
	const char *type;
	char lines[160];
	int r = 0, n = 0;

	if (number && picture) {
		r = picture_vary(picture, (uint32_t)number, &varied, err);
		picture = &varied;
	}
	type = body ? body_type(body) : picture ? picture->type : NULL;
	if (r == 0 && body)
		r = body_put(body, &(struct making){ picture, number, &content, err });
	else if (r == 0 && picture)
		put(&content, picture->file, picture->len);
	free(varied.file);
	if (r < 0)
		return r;
	to->len = 0;
	put(to, q->head, strlen(q->head));
	if (type && !q->has_type)
		n = sprintf(lines, "Content-Type: %s\r\n", type);
	if (type || strcmp(q->method, "POST") == 0 || strcmp(q->method, "PUT") == 0)
		n += sprintf(lines + n, "Content-Length: %zu\r\n", content.len);
	n += sprintf(lines + n, "\r\n");
	put(to, lines, (size_t)n);
	put(to, content.bytes, content.len);
	return 0;
}

/* Count the turns until bodies and pictures come together as in the beginning. */
static size_t turns(const struct request_options *o)
{
	size_t bodies = o->n_bodies ? o->n_bodies : 1, pictures = o->pictures ? o->pictures->n : 1;
	size_t a = bodies, b = pictures;

	while (b) {
		size_t rest = a % b;

		a = b;
		b = rest;
	}
	return bodies / a * pictures;
}

static int make_known(struct requests *q, struct mlr_error *err)
{
	size_t all = 0;

	q->n = turns(q->o);
	q->known = xcalloc(q->n, sizeof(*q->known));
	for (size_t i = 0; i < q->n; i++) {
		TRY(request_make(q, i, 0, &q->known[i], err));
		all += q->known[i].room;
		if (all > REQUEST_BYTES_MAX)
			return mlr_fail(err, EFBIG,
				"all requests together are more than %zu MB: give fewer pictures or bodies",
				REQUEST_BYTES_MAX >> 20);
	}
	return 0;
}

/* --- headers ---------------------------------------------------------------------------- */

static int is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= ' ' || s[i] >= 0x7f ||
			strchr("()<>@,;:\\\"/[]?={}", s[i]))
			return 0;
	return n > 0;
}

/* Does the user give this header? */
static int is_given(const struct request_options *o, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < o->headers->n; i++)
		if (strncasecmp(o->headers->v[i], name, n) == 0 && o->headers->v[i][n] == ':')
			return 1;
	return 0;
}

static int check_headers(const struct request_options *o, struct mlr_error *err)
{
	static const char *const own[] = { "Content-Length", "Transfer-Encoding", "Connection",
		"Expect", "Upgrade" };

	for (size_t i = 0; i < o->headers->n; i++) {
		const char *h = o->headers->v[i], *colon = strchr(h, ':');

		if (!colon || !is_token(h, (size_t)(colon - h)) || strpbrk(h, "\r\n"))
			return mlr_fail(err, EINVAL,
				"header '%s' is not one line such as 'Name: value'", h);
	}
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (is_given(o, own[i]))
			return mlr_fail(err, EINVAL, "the header %s is not yours to set", own[i]);
	if (o->token && is_given(o, "Authorization"))
		return mlr_fail(err, EINVAL, "both a token and a header Authorization are given");
	return 0;
}

static void put_line(struct request_buffer *b, const char *a, const char *c, const char *d)
{
	put(b, a, strlen(a));
	put(b, c, strlen(c));
	put(b, d, strlen(d));
}

/* Make a request's first line and headers, as a string. */
static char *make_head(const struct requests *q, const char *method, const char *path)
{
	const struct request_options *o = q->o;
	struct request_buffer b = { 0 };

	put_line(&b, method, " ", path);
	put_line(&b, " HTTP/1.1\r\n", "", "");
	if (!is_given(o, "Host"))
		put_line(&b, "Host: ", o->target->authority, "\r\n");
	if (!is_given(o, "User-Agent"))
		put_line(&b, "User-Agent: mltrain/", PACKAGE_VERSION, "\r\n");
	if (!is_given(o, "Accept"))
		put_line(&b, "Accept: */*", "\r\n", "");
	if (o->token)
		put_line(&b, "Authorization: Bearer ", o->token, "\r\n");
	if (o->close)
		put_line(&b, "Connection: close", "\r\n", "");
	for (size_t i = 0; i < o->headers->n; i++)
		put_line(&b, o->headers->v[i], "\r\n", "");
	put(&b, "", 1);
	return b.bytes;
}

/* Make the requests that come before each other one. */
static int make_also(struct requests *q, struct mlr_error *err)
{
	const struct strv *also = q->o->also;
	size_t n = also ? also->n : 0;

	q->also = xcalloc(n + 1, sizeof(*q->also));
	for (size_t i = 0; i < n; i++) {
		const char *path = also->v[i];

		if (*path != '/' || strpbrk(path, " \t\r\n"))
			return mlr_fail(err, EINVAL, "'%s' is not a path such as /health", path);
		auto_free char *head = make_head(q, "GET", path);

		q->also[i] = xasprintf("%s\r\n", head);
	}
	return 0;
}

static int check_bodies(const struct request_options *o, struct mlr_error *err)
{
	for (size_t i = 0; i < o->n_bodies; i++) {
		const struct request_body *b = &o->bodies[i];

		if (has_placeholder(b, 1) && !o->pictures)
			return mlr_fail(err, EINVAL,
				"body %zu has a place for a picture, but --images names none",
				i + 1);
		if (o->pictures && !has_placeholder(b, 1))
			return mlr_fail(err, EINVAL,
				"body %zu has no place for a picture: {base64} or {pixels}", i + 1);
		if (o->cache_rate < 1 && !o->pictures && !has_placeholder(b, 0)) {
			mlr_fail(err, EINVAL,
				"a cache rate wants bodies that can differ, but body %zu is always the same",
				i + 1);
			return mlr_hint(err, "write {unique} where a number may stand");
		}
	}
	if (o->cache_rate < 1 && !o->n_bodies && !o->pictures)
		return mlr_fail(err, EINVAL, "a cache rate wants bodies: --body or --images");
	return 0;
}

int requests_new(const struct request_options *o, struct requests **ret, struct mlr_error *err)
{
	auto_call(requests_free) struct requests *q = xcalloc(1, sizeof(*q));
	uint32_t start = 0;

	q->o = o;
	q->method = o->method ? o->method : o->n_bodies || o->pictures ? "POST" : "GET";
	if (!is_token(q->method, strlen(q->method)))
		return mlr_fail(err, EINVAL, "'%s' is not a method such as POST", q->method);
	TRY(check_headers(o, err));
	TRY(check_bodies(o, err));
	q->has_type = is_given(o, "Content-Type");
	q->head = make_head(q, q->method, o->target->path);
	TRY(make_also(q, err));
	q->random = o->seed;
	/* Runs have different numbers: an earlier run's answers may still be in a cache. With the
	 * counter on top they stay below 2^53, which JSON's readers accept. */
	if (o->cache_rate < 1 && getrandom(&start, sizeof(start), 0) != sizeof(start))
		return mlr_fail_errno(err, "read random bytes");
	q->number = ((uint64_t)start << 20) + 1;
	if (o->pictures)
		q->number = start;
	TRY(make_known(q, err));
	*ret = take_ptr(&q);
	return 0;
}

void requests_free(struct requests **p)
{
	struct requests *q = take_ptr(p);

	if (!q)
		return;
	for (size_t i = 0; q->known && i < q->n; i++)
		free(q->known[i].bytes);
	for (size_t i = 0; q->also && q->also[i]; i++)
		free(q->also[i]);
	free(q->also);
	free(q->known);
	free(q->head);
	free(q);
}

int requests_next(struct requests *q, struct request_buffer *buffer, struct request *ret,
	struct mlr_error *err)
{
	const char *also = q->also[buffer->turn];
	size_t turn = q->next;
	double drawn;
	int r;

	buffer->turn = also ? buffer->turn + 1 : 0;
	if (also) {
		*ret = (struct request){ .bytes = also, .len = strlen(also), .is_also = 1 };
		return 0;
	}
	q->next = turn + 1 == q->n ? 0 : turn + 1;
	drawn = (double)(rng_mix(q->random += 0x9e3779b97f4a7c15) >> 11) * 0x1p-53;
	if (drawn < q->o->cache_rate) {
		*ret = (struct request){ q->known[turn].bytes, q->known[turn].len };
		return 0;
	}
	/* 0 is the number of known bodies. */
	q->number += 1;
	if (q->o->pictures && !(uint32_t)q->number)
		q->number = 1;
	r = request_make(q, turn, q->number, buffer, err);
	*ret = (struct request){ buffer->bytes, buffer->len, .is_unique = 1 };
	return r;
}

const char *requests_method(const struct requests *q)
{
	return q->method;
}
