#include "load/answer.h"

void answer_begin(struct answer *a, int head)
{
	a->state = ANSWER_START;
	a->status = a->keeps_alive = a->old = a->has_length = a->chunked = a->closes = 0;
	a->no_body = head;
	a->left = a->seen = 0;
	a->kept = a->head = a->n_line = 0;
}

void answer_done(struct answer *a)
{
	free(a->line);
	free(a->body);
	a->line = a->body = NULL;
	a->n_line = a->room = a->kept = a->body_room = 0;
}

/* Room for n bytes more, of which the caller knows a ceiling. */
static void room_for(char **buf, size_t *room, size_t used, size_t n)
{
	while (*room < used + n) {
		*room = *room ? 2 * *room : 256;
		*buf = xreallocarray(*buf, *room, 1);
	}
}

/* --- lines ------------------------------------------------------------------------------ */

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK"; the reason may be missing (RFC 9112, 4). */
static int status_line(struct answer *a, const char *s, size_t n)
{
	if (n < 12 || memcmp(s, "HTTP/1.", 7) != 0 || (s[7] != '0' && s[7] != '1') || s[8] != ' ' ||
		!is_digit(s[9]) || !is_digit(s[10]) || !is_digit(s[11]) || (n > 12 && s[12] != ' '))
		return -EPROTO;
	a->old = s[7] == '0';
	a->status = (s[9] - '0') * 100 + (s[10] - '0') * 10 + (s[11] - '0');
	if (a->status < 100 || a->status > 599)
		return -EPROTO;
	a->state = ANSWER_HEADERS;
	return 0;
}

static int is_word(const char *s, size_t n, const char *word)
{
	return n == strlen(word) && strncasecmp(s, word, n) == 0;
}

/* Does a list of tokens, "keep-alive, Upgrade", have one? */
static int has_token(const char *s, size_t n, const char *word)
{
	while (n) {
		const char *comma = memchr(s, ',', n);
		size_t len = comma ? (size_t)(comma - s) : n, skip = comma ? len + 1 : len;

		while (len && (*s == ' ' || *s == '\t'))
			s++, len--, n--, skip--;
		while (len && (s[len - 1] == ' ' || s[len - 1] == '\t'))
			len--;
		if (is_word(s, len, word))
			return 1;
		s += skip;
		n -= skip;
	}
	return 0;
}

static int content_length(struct answer *a, const char *s, size_t n)
{
	uint64_t v = 0;

	if (!n || n > 19)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(s[i]))
			return -EPROTO;
		v = 10 * v + (uint64_t)(s[i] - '0');
	}
	if (a->has_length && v != a->left)
		return -EPROTO;
	a->has_length = 1;
	a->left = v;
	return v > ANSWER_BODY_MAX ? -EFBIG : 0;
}

static int header_line(struct answer *a, const char *s, size_t n)
{
	const char *colon = memchr(s, ':', n), *value;
	size_t name, len;

	if (!colon || colon == s || colon[-1] == ' ' || colon[-1] == '\t' || *s == ' ' ||
		*s == '\t')
		return -EPROTO;
	name = (size_t)(colon - s);
	value = colon + 1;
	len = n - name - 1;
	while (len && (*value == ' ' || *value == '\t'))
		value++, len--;
	while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		len--;
	if (is_word(s, name, "content-length"))
		return content_length(a, value, len);
	if (is_word(s, name, "transfer-encoding")) {
		if (a->chunked || !is_word(value, len, "chunked"))
			return -EPROTO; /* none was asked for but this, which every client reads */
		a->chunked = 1;
	} else if (is_word(s, name, "connection")) {
		a->closes |= has_token(value, len, "close");
		if (a->old && has_token(value, len, "keep-alive"))
			a->old = 0;
	}
	if (a->header && a->status >= 200) /* of the answer, not of an interim one */
		a->header(a->ctx, s, name, value, len);
	return 0;
}

/* The end of the headers: what follows (RFC 9112, 6.3). */
static int headers_end(struct answer *a)
{
	if (a->status < 200) { /* an interim answer; the real one follows */
		if (a->status == 101)
			return -EPROTO;
		answer_begin(a, a->no_body);
		return 0;
	}
	if (a->chunked && a->has_length)
		return -EPROTO;
	a->keeps_alive = !a->closes && !a->old;
	if (a->no_body || a->status == 204 || a->status == 304 || (a->has_length && !a->left))
		a->state = ANSWER_DONE;
	else if (a->chunked)
		a->state = ANSWER_CHUNK_SIZE;
	else if (a->has_length)
		a->state = ANSWER_BODY;
	else {
		a->state = ANSWER_BODY_TO_END;
		a->keeps_alive = 0;
	}
	a->head = 0; /* now counts trailers */
	return 0;
}

/* "1a3f" with extensions after ';', which mean nothing here. */
static int chunk_size(struct answer *a, const char *s, size_t n)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < n && i < 16; i++) {
		const char *digits = "0123456789abcdef", *d = memchr(digits, s[i] | 0x20, 16);

		if (!d || s[i] < '0')
			break;
		v = 16 * v + (uint64_t)(d - digits);
	}
	if (!i || (i < n && s[i] != ';' && s[i] != ' ' && s[i] != '\t'))
		return -EPROTO;
	if (v > ANSWER_BODY_MAX)
		return -EFBIG;
	a->left = v;
	a->state = v ? ANSWER_CHUNK : ANSWER_TRAILERS;
	return 0;
}

static int take_line(struct answer *a, const char *s, size_t n)
{
	if (n && s[n - 1] == '\r')
		n--;
	if (memchr(s, '\0', n) || memchr(s, '\r', n))
		return -EPROTO;
	switch (a->state) {
	case ANSWER_START:
		return status_line(a, s, n);
	case ANSWER_HEADERS:
		return n ? header_line(a, s, n) : headers_end(a);
	case ANSWER_CHUNK_SIZE:
		return chunk_size(a, s, n);
	case ANSWER_CHUNK_END:
		a->state = ANSWER_CHUNK_SIZE;
		return n ? -EPROTO : 0;
	default: /* trailers, which nobody asked for */
		if (!n)
			a->state = ANSWER_DONE;
		return 0;
	}
}

/* The beginning of something that cannot become a status line is garbage at once: no line may come
 * of it for long. */
static int starts_wrong(const struct answer *a, const char *s, size_t n)
{
	static const char start[] = "HTTP/1.";
	size_t len = n < sizeof(start) - 1 ? n : sizeof(start) - 1;

	return a->state == ANSWER_START && memcmp(s, start, len) != 0;
}

/* Take bytes to the end of the line, or all. Sets what was taken. */
static int some_line(struct answer *a, const char *s, size_t n, size_t *took)
{
	const char *end = memchr(s, '\n', n);
	size_t len = end ? (size_t)(end - s) : n;

	*took = end ? len + 1 : n;
	a->head += a->state == ANSWER_CHUNK_SIZE || a->state == ANSWER_CHUNK_END ? 0 : *took;
	if (a->n_line + len > ANSWER_LINE_MAX || a->head > ANSWER_HEAD_MAX)
		return -EFBIG;
	if (end && !a->n_line)
		return take_line(a, s, len);
	room_for(&a->line, &a->room, a->n_line, len);
	memcpy(a->line + a->n_line, s, len);
	a->n_line += len;
	if (!end)
		return starts_wrong(a, a->line, a->n_line) ? -EPROTO : 0;
	len = a->n_line;
	a->n_line = 0;
	return take_line(a, a->line, len);
}

/* --- bodies ----------------------------------------------------------------------------- */

static int some_body(struct answer *a, const char *s, size_t n, size_t *took)
{
	size_t kept;

	*took = a->state == ANSWER_BODY_TO_END || n < a->left ? n : (size_t)a->left;
	kept = a->keep_max - a->kept < *took ? a->keep_max - a->kept : *took;
	if (kept) {
		room_for(&a->body, &a->body_room, a->kept, kept);
		memcpy(a->body + a->kept, s, kept);
		a->kept += kept;
	}
	a->seen += *took;
	if (a->seen > ANSWER_BODY_MAX)
		return -EFBIG;
	if (a->state == ANSWER_BODY_TO_END)
		return 0;
	a->left -= *took;
	if (!a->left)
		a->state = a->state == ANSWER_BODY ? ANSWER_DONE : ANSWER_CHUNK_END;
	return 0;
}

int answer_read(struct answer *a, const char *bytes, size_t n, size_t *used)
{
	size_t took;
	int r = 0;

	*used = 0;
	while (r == 0 && *used < n && a->state != ANSWER_DONE) {
		const char *s = bytes + *used;

		if (a->state == ANSWER_BODY || a->state == ANSWER_BODY_TO_END ||
			a->state == ANSWER_CHUNK)
			r = some_body(a, s, n - *used, &took);
		else
			r = some_line(a, s, n - *used, &took);
		*used += took;
	}
	return r < 0 ? r : a->state == ANSWER_DONE;
}

int answer_end(struct answer *a)
{
	if (a->state != ANSWER_BODY_TO_END)
		return 0;
	a->state = ANSWER_DONE;
	return 1;
}
