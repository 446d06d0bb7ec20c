/* The paths, and what answers them. */
#include "web/web.h"

#include "config.h"

#include "base/json.h"
#include "base/record.h"
#include "web/charts.h"

#include <math.h>

#define LIMIT_MAX 1000 /* runs in one answer */
#define JSON_TYPE "application/json"

const struct http_field api_fields[] = {
	{ "Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
		"require-trusted-types-for 'script'; trusted-types report" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Cache-Control", "no-store" },
	{ NULL, NULL },
};

/* A request on its way. */
struct call {
	const struct route *route;
	char id[RUN_ID_SIZE];
	const char *name; /* in the path; NULL: it has none */
	json_t *answer;
	int status;        /* of the answer; 0: 200, or that of the error */
	const char *field; /* of the body, which is wrong; NULL */
	json_t *now;       /* members of a conflict's answer; NULL */
	int is_done;       /* the slow part is over */
	struct http_request *q;
	struct http_reply *reply; /* while answer() runs in a thread of http */
	struct http_reading reading;
	struct stream stream;
	int is_stream;
	struct call *next; /* of web.streams */
};

const size_t api_state = sizeof(struct call);

enum {
	ROUTE_OPEN = 1,    /* needs no token */
	ROUTE_CHANGES = 2, /* is refused with --read-only; wants JSON */
	ROUTE_SLOW = 4,    /* answers from a thread of the readers */
	ROUTE_BODY = 8,    /* wants JSON */
};

struct route {
	const char *method, *path; /* "{id}" is a run, "{name}" one of its files */
	int flags;
	/* Sets c->answer, or fills c->reply unless it is slow. Returns 0, or negative with
	 * q->error. */
	int (*answer)(struct web *w, struct call *c);
	const char *type, *text; /* of a file of the page, in place of answer() */
};

/* --- answers ----------------------------------------------------------------------------- */

/* --- bodies ------------------------------------------------------------------------------ */

/* What bodies have. */
struct body {
	char *key; /* of a link */
	char *directory, *experiment, *name, *image;
	struct strv command;
	char *note;
	struct strv tags;
	struct body_was {
		char *note;
		struct strv tags;
	} was;
};

static const struct record_row was_rows[] = {
	{ "note", RECORD_TEXT, RECORD_AT(struct body_was, note) },
	{ "tags", RECORD_TEXTS, RECORD_AT(struct body_was, tags) },
	{ NULL },
};
static const struct record_row body_rows[] = {
	{ "key", RECORD_TEXT, RECORD_AT(struct body, key) },
	{ "directory", RECORD_TEXT, RECORD_AT(struct body, directory) },
	{ "experiment", RECORD_TEXT, RECORD_AT(struct body, experiment) },
	{ "name", RECORD_TEXT, RECORD_AT(struct body, name) },
	{ "image", RECORD_TEXT, RECORD_AT(struct body, image) },
	{ "command", RECORD_TEXTS, RECORD_AT(struct body, command) },
	{ "note", RECORD_TEXT, RECORD_AT(struct body, note) },
	{ "tags", RECORD_TEXTS, RECORD_AT(struct body, tags) },
	{ "was", RECORD_STRUCT, RECORD_AT(struct body, was), .rows = was_rows },
	{ NULL },
};

static void body_done(struct body *b)
{
	record_done(body_rows, b);
}

/* Read a body. On a failure the member that is wrong is the answer's field. */
static int read_body(struct call *c, struct body *ret)
{
	const struct record_reader reader = { .err = &c->q->error, .code = EINVAL };
	json_error_t why;
	json_t *o = json_loadb(c->q->body ? c->q->body : "", c->q->len, JSON_ALLOW_NUL, &why);
	int r = o ? record_read(&reader, body_rows, o, ret)
		  : mlr_fail(&c->q->error, EPROTO, "the body is no JSON: line %d: %s", why.line,
			    why.text);

	for (const struct record_row *row = body_rows; r < 0 && row->key; row++)
		if (strncmp(c->q->error.text, row->key, strlen(row->key)) == 0)
			c->field = row->key;
	json_decref(o);
	return r;
}

/* --- answers ----------------------------------------------------------------------------- */

static int session_open(struct web *w, struct call *c)
{
	auto_call(body_done) struct body b = { 0 };

	TRY(read_body(c, &b));
	if (!b.key || !server_key_take(w->keys, b.key))
		return mlr_fail(&c->q->error, EACCES, "this link was used already, or is too old");
	c->answer = json_pack("{ss}", "token", w->token[WEB_PAGES]);
	return 0;
}

static int session_tell(struct web *w, struct call *c)
{
	c->answer = json_pack("{so so ss sb so}", "node", mlr_json_text(w->node), "user",
		mlr_json_text(w->user), "version", PACKAGE_VERSION, "read_only", w->read_only,
		"directories", mlr_json_texts(&w->roots));
	return 0;
}

/* A whole number of the query, from 0 on. */
static size_t number_of(struct call *c, const char *name, size_t standard, size_t max)
{
	const char *text = http_argument(c->q, name);
	unsigned long long n =
		text && isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : standard;

	return n < max ? (size_t)n : max;
}

static int runs_list(struct web *w, struct call *c)
{
	auto_call(query_done) struct query q = { 0 };

	TRY(query_parse(http_argument(c->q, "q"), http_argument(c->q, "sort"), &q, &c->q->error));
	index_look(w->index, 0);
	index_lock(w->index);
	c->answer = index_list(w->index, &q, number_of(c, "offset", 0, SIZE_MAX),
		number_of(c, "limit", 100, LIMIT_MAX));
	index_unlock(w->index);
	return 0;
}

/* Find the run of the path; with the index's lock. NULL with q->error. */
static struct run *find(struct web *w, struct call *c)
{
	int was_there;
	struct run *r = index_find(w->index, c->id, &was_there);

	if (!r && was_there)
		mlr_fail(&c->q->error, ESTALE, "this run was removed");
	else if (!r)
		mlr_fail(&c->q->error, ENOENT, "there is no such run");
	return r;
}

/* Its files, without directories, links and devices. */
static json_t *files_of(const struct run *r)
{
	auto_strv struct strv names = STRV_INIT;
	auto_close int dir = open(r->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	json_t *list = json_array();

	if (dir >= 0)
		file_list(dir, ".", O_NOFOLLOW, &names);
	for (size_t i = 0; i < names.n && i < LIMIT_MAX; i++) {
		struct stat st;

		if (fstatat(dir, names.v[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			json_array_append_new(list,
				json_pack("{so sI sI}", "name", mlr_json_text(names.v[i]), "size",
					(json_int_t)st.st_size, "changed",
					(json_int_t)st.st_mtim.tv_sec));
	}
	return list;
}

static int run_tell(struct web *w, struct call *c)
{
	struct run *r;

	index_look(w->index, 0);
	index_lock(w->index);
	r = find(w, c);
	if (r) {
		auto_free char *line = act_line_of(r);

		c->answer = run_json(r);
		json_object_set_new(c->answer, "command", mlr_json_texts(&r->wish.command));
		json_object_set_new(c->answer, "line", mlr_json_text(line));
		json_object_set_new(c->answer, "log", mlr_json_text(r->log));
		json_object_set_new(c->answer, "notes", mlr_json_texts(&r->notes));
		json_object_set_new(c->answer, "files", files_of(r));
	}
	index_unlock(w->index);
	return r ? 0 : -c->q->error.code;
}

/* Open a file of the run. */
static int open_file(struct web *w, struct call *c, const char *name, struct stat *st)
{
	struct run *r;
	int fd = -1;

	index_lock(w->index);
	r = find(w, c);
	if (r) {
		name = name ? name : r->log;
		fd = name ? run_open(r, name, st) : -ENOENT;
		if (fd < 0)
			mlr_fail(&c->q->error, ENOENT, "the run has no file '%s'",
				name ? name : "log");
	}
	index_unlock(w->index);
	return fd;
}

static int run_log(struct web *w, struct call *c)
{
	const char *to = http_argument(c->q, "to");
	struct log_part part;
	struct stat st;
	auto_close int fd = open_file(w, c, NULL, &st);
	int r;

	if (fd < 0)
		return -c->q->error.code;
	r = log_before(fd, to ? strtoll(to, NULL, 10) : -1,
		number_of(c, "size", LOG_PART, (size_t)1 << 20), &part);
	if (r < 0)
		return mlr_result(&c->q->error, r, "read the log");
	c->answer =
		json_pack("{sI sI sI so}", "from", (json_int_t)part.from, "to", (json_int_t)part.to,
			"size", (json_int_t)part.size, "text", mlr_json_text(part.text));
	free(part.text);
	return 0;
}

/* Files are attachments, whatever is in them: no page of ours shows them as a page. */
static int run_file(struct web *w, struct call *c)
{
	struct stat st;
	int fd = open_file(w, c, c->name, &st);

	if (fd < 0)
		return -c->q->error.code;
	c->reply->type = "application/octet-stream";
	http_reply_add(c->reply, "Content-Disposition", "attachment");
	c->reply->fd = fd;
	c->reply->len = (uint64_t)st.st_size;
	return 0;
}

static int run_charts(struct web *w, struct call *c)
{
	struct stat st;
	auto_free char *name = NULL, *path = NULL;
	auto_close int fd = -1;
	struct run *r;

	index_lock(w->index);
	r = find(w, c);
	if (r && r->metrics) {
		name = xstrdup(r->metrics);
		path = xstrdup(r->directory);
		fd = run_open(r, name, &st);
	}
	index_unlock(w->index);
	if (!r)
		return -c->q->error.code;
	if (fd < 0) {
		c->answer = json_string("");
		return 0;
	}
	return charts_make(fd, st.st_size, path, &c->answer, &c->q->error);
}

static int events(struct web *w, struct call *c);

/* --- what changes ------------------------------------------------------------------------ */

static int read_wish(struct call *c, struct body *b, struct act_wish *ret)
{
	TRY(read_body(c, b));
	*ret = (struct act_wish){ b->directory, b->experiment, b->name, b->image, &b->command };
	return 0;
}

static int preview(struct web *w, struct call *c)
{
	auto_call(body_done) struct body b = { 0 };
	auto_free char *line = NULL;
	struct act_wish wish;

	TRY(read_wish(c, &b, &wish));
	line = act_line(w->act, &wish, &c->field, &c->q->error);
	if (!line)
		return -c->q->error.code;
	c->answer = json_pack("{so}", "line", mlr_json_text(line));
	return 0;
}

/* Answer with the run as it is now. */
static int tell_run(struct web *w, struct call *c, const char *id)
{
	struct run *r;
	int was_there;

	index_lock(w->index);
	r = index_find(w->index, id, &was_there);
	c->answer = r ? run_json(r) : NULL;
	index_unlock(w->index);
	return r ? 0 : mlr_fail(&c->q->error, ESTALE, "this run was removed");
}

static int run_start(struct web *w, struct call *c)
{
	auto_call(body_done) struct body b = { 0 };
	const char *key = http_header(c->q, "Idempotency-Key");
	struct act_wish wish;
	char id[RUN_ID_SIZE];

	TRY(read_wish(c, &b, &wish));
	TRY(act_start(w->act, &wish, key, id, &c->field, &c->q->error));
	c->status = 201;
	return tell_run(w, c, id);
}

static int run_stop(struct web *w, struct call *c)
{
	TRY(act_stop(w->act, c->id, &c->q->error));
	return tell_run(w, c, c->id);
}

/* What note and tags are now, for somebody who came too late. */
static void tell_note(struct web *w, struct call *c)
{
	struct run *r;
	int was_there;

	index_lock(w->index);
	r = index_find(w->index, c->id, &was_there);
	if (r)
		c->now = json_pack("{so so}", "note",
			mlr_json_text(r->wish.note ? r->wish.note : ""), "tags",
			mlr_json_texts(&r->wish.tags));
	index_unlock(w->index);
}

static int run_note(struct web *w, struct call *c)
{
	auto_call(body_done) struct body b = { 0 };
	int r;

	TRY(read_body(c, &b));
	r = act_note(w->act, c->id, b.note ? b.note : "", &b.tags, b.was.note ? b.was.note : "",
		&b.was.tags, &c->q->error);
	if (r == -EEXIST)
		tell_note(w, c);
	return r < 0 ? r : tell_run(w, c, c->id);
}

static int machine(struct web *w, struct call *c)
{
	c->answer = act_machine(w->act);
	return 0;
}

static const struct route routes[] = {
	{ "GET", "/", ROUTE_OPEN, NULL, "text/html; charset=utf-8", web_html },
	{ "GET", "/app.js", ROUTE_OPEN, NULL, "text/javascript; charset=utf-8", web_js },
	{ "GET", "/app.css", ROUTE_OPEN, NULL, "text/css; charset=utf-8", web_css },
	{ "GET", "/report.js", ROUTE_OPEN, NULL, "text/javascript; charset=utf-8", report_js },
	{ "GET", "/report.css", ROUTE_OPEN, NULL, "text/css; charset=utf-8", report_css },
	{ "POST", "/api/v1/session", ROUTE_OPEN | ROUTE_BODY, session_open },
	{ "GET", "/api/v1/session", 0, session_tell },
	{ "GET", "/api/v1/runs", 0, runs_list },
	{ "POST", "/api/v1/runs", ROUTE_CHANGES | ROUTE_SLOW, run_start },
	{ "POST", "/api/v1/preview", ROUTE_BODY, preview },
	{ "GET", "/api/v1/runs/{id}", 0, run_tell },
	{ "GET", "/api/v1/runs/{id}/charts", ROUTE_SLOW, run_charts },
	{ "GET", "/api/v1/runs/{id}/log", 0, run_log },
	{ "GET", "/api/v1/runs/{id}/files/{name}", 0, run_file },
	{ "POST", "/api/v1/runs/{id}/stop", ROUTE_CHANGES | ROUTE_SLOW, run_stop },
	{ "POST", "/api/v1/runs/{id}/note", ROUTE_CHANGES, run_note },
	{ "GET", "/api/v1/machine", ROUTE_SLOW, machine },
	{ "GET", "/api/v1/events", 0, events },
};

/* --- the way of a request ---------------------------------------------------------------- */

/* Does a path fit? Takes id and name. */
static int fits(const char *pattern, const char *path, struct call *c)
{
	while (*pattern) {
		size_t n = strcspn(path, "/");

		if (strncmp(pattern, "{id}", 4) == 0 && n == RUN_ID_SIZE - 1) {
			snprintf(c->id, sizeof(c->id), "%.16s", path);
			pattern += 4;
			path += n;
		} else if (strcmp(pattern, "{name}") == 0) {
			c->name = path;
			return n > 0 && !path[n];
		} else if (*pattern++ != *path++) {
			return 0;
		}
	}
	return !*path;
}

/* Find the route. Returns whether it is there, also for another method. */
static int find_route(struct http_request *q, struct call *c)
{
	int is_there = 0;

	for (size_t i = 0; i < ARRAY_LEN(routes) && !c->route; i++) {
		if (!fits(routes[i].path, q->path, c))
			continue;
		is_there = 1;
		if (strcmp(routes[i].method, q->method) == 0)
			c->route = &routes[i];
	}
	return is_there;
}

static int is_json(const char *type)
{
	size_t n = strlen(JSON_TYPE);

	return strncasecmp(type, JSON_TYPE, n) == 0 && (!type[n] || strchr("; ", type[n]));
}

void api_head(struct http_request *q)
{
	struct web *w = q->ctx;
	struct call *c = q->state;
	int is_there = find_route(q, c);

	c->q = q;
	w->asked_ms = mlr_now_ms();
	q->is_open = c->route && (c->route->flags & ROUTE_OPEN);
	if (!is_there)
		mlr_fail(&q->error, ENOENT, "there is no '%s'", q->path);
	else if (!c->route)
		mlr_fail(&q->error, EPERM, "'%s' takes no %s", q->path, q->method);
	else if (w->read_only && (c->route->flags & ROUTE_CHANGES))
		mlr_fail(&q->error, EROFS, "this server only shows runs: --read-only");
	else if ((c->route->flags & (ROUTE_CHANGES | ROUTE_BODY)) && !is_json(q->type))
		mlr_fail(&q->error, EMEDIUMTYPE, "expected Content-Type: " JSON_TYPE);
}

static void run_slow(struct http_reading *r)
{
	struct call *c = r->ctx;

	c->route->answer(c->q->ctx, c);
	c->is_done = 1;
	http_resume(c->q);
}

/* Put the answer into a reply. */
static void write_answer(struct call *c, struct http_reply *ret)
{
	if (!c->answer)
		return;
	ret->status = c->status ? c->status : 200;
	ret->type = json_is_string(c->answer) ? "text/html; charset=utf-8" : JSON_TYPE;
	ret->body = json_is_string(c->answer)
		? xstrdup(json_string_value(c->answer))
		: json_dumps(c->answer, JSON_COMPACT | JSON_REAL_PRECISION(15));
	ret->len = ret->body ? strlen(ret->body) : 0;
}

int api_answer(struct http_request *q, struct http_reply *ret)
{
	struct web *w = q->ctx;
	struct call *c = q->state;

	if (c->route->text) {
		ret->type = c->route->type;
		ret->content = c->route->text;
		ret->len = strlen(c->route->text);
		return 0;
	}
	if ((c->route->flags & ROUTE_SLOW) && !c->is_done) {
		c->reading = (struct http_reading){ run_slow, c, NULL };
		http_suspend(q);
		http_readers_put(w->readers, &c->reading);
		return HTTP_LATER;
	}
	c->reply = ret;
	if (!c->is_done)
		TRY(c->route->answer(w, c));
	write_answer(c, ret);
	return 0;
}

int api_fail(struct http_request *q, struct http_reply *ret)
{
	struct call *c = q->state;
	const char *hint = mlr_hint_of(&q->error);
	auto_free char *detail = xstrndup(q->error.text, strcspn(q->error.text, "\n"));
	json_t *o = json_pack("{ss si so so so}", "title", detail, "status", ret->status, "detail",
		mlr_json_text(detail), "hint", mlr_json_text(hint), "field",
		mlr_json_text(c ? c->field : NULL));

	if (c && c->now)
		json_object_update(o, c->now);
	ret->type = "application/problem+json";
	ret->body = mlr_json_print(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
	ret->len = strlen(ret->body);
	return 0;
}

/* --- streams ----------------------------------------------------------------------------- */

static ssize_t read_stream(struct http_request *q, char *to, size_t size)
{
	struct call *c = q->state;

	return events_read(q->ctx, &c->stream, to, size);
}

static int events(struct web *w, struct call *c)
{
	size_t n = 0, most = c->q->token == WEB_PAGES ? WEB_STREAMS_PAGES : WEB_STREAMS_SCRIPTS;

	pthread_mutex_lock(&w->lock);
	for (struct call *other = w->streams; other; other = other->next)
		n += other->q->token == c->q->token;
	if (n < most) {
		c->next = w->streams;
		w->streams = c;
		c->is_stream = 1;
	}
	pthread_mutex_unlock(&w->lock);
	if (n >= most)
		return mlr_fail(&c->q->error, EBUSY, "there are %zu streams already", n);
	events_open(w, c->q, &c->stream);
	c->reply->type = "text/event-stream";
	c->reply->read = read_stream;
	return 0;
}

void api_wake(struct web *w)
{
	pthread_mutex_lock(&w->lock);
	for (struct call *c = w->streams; c; c = c->next)
		http_stream_wake(c->q);
	pthread_mutex_unlock(&w->lock);
}

void api_done(struct http_request *q)
{
	struct web *w = q->ctx;
	struct call *c = q->state;

	if (c->is_stream) {
		pthread_mutex_lock(&w->lock);
		for (struct call **at = &w->streams; *at; at = &(*at)->next)
			if (*at == c) {
				*at = c->next;
				break;
			}
		pthread_mutex_unlock(&w->lock);
		events_close(w, &c->stream);
	}
	json_decref(c->answer);
	json_decref(c->now);
}
