
#include "oci/json.h"
#include "registry/buffer.h"
#include "registry/header.h"
#include "registry/request.h"

#define PAGE      1000       /* tags requested at once; registries may send fewer */
#define PAGE_MAX  (8u << 20) /* bytes of one response */
#define PAGES_MAX 10000
#define ALL_MAX   (32u << 20) /* bytes of all responses */

/* A page of the list (distribution-spec, "Content Discovery"); next: the query of the one after it.
 */
struct page {
	struct buffer b;
	char *next;
};

static int end_page(void *ctx, struct http_exchange *x, struct mlr_error *err)
{
	struct page *p = ctx;

	set_ptr(&p->next, x->link ? header_next_query(x->link) : NULL);
	return 0;
}

static void page_done(struct page *p)
{
	buffer_done(&p->b);
	free(p->next);
}

static int read_page(struct registry *r, const char *query, char **next, size_t *bytes,
	struct strv *ret, struct mlr_error *err)
{
	auto_call(page_done) struct page p = { .b = BUFFER_INIT(PAGE_MAX) };
	auto_call(http_exchange_done) struct http_exchange x = { 0 };
	auto_free char *path = xasprintf("tags/list?%s", query);
	struct request q = { .path = path,
		.what = "list of tags",
		.no_mirrors = 1,
		.begin = buffer_begin,
		.end = end_page,
		.sink = buffer_put,
		.ctx = &p };
	static const struct record_row rows[] = {
		{ "tags", RECORD_TEXTS, .size = sizeof(*ret) },
		{ NULL },
	};

	TRY(request_run(r, &q, &x, err));
	if (oci_json_read(p.b.data ? p.b.data : "", p.b.len, PAGE_MAX, rows, ret, err) < 0)
		return mlr_wrap(err, "'%s': the list of tags", r->name);
	*next = take_ptr(&p.next);
	*bytes += p.b.len;
	return 0;
}

int registry_tags(struct registry *r, struct strv *ret, struct mlr_error *err)
{
	auto_free char *query = xasprintf("n=%d", PAGE);
	auto_strv struct strv tags = STRV_INIT;
	size_t bytes = 0;

	for (int i = 0; query; i++) {
		char *next = NULL;

		if (i == PAGES_MAX || bytes > ALL_MAX)
			return mlr_fail(err, EPROTO, "'%s': the list of tags has no end", r->name);
		TRY(read_page(r, query, &next, &bytes, &tags, err));
		if (next && strcmp(next, query) == 0) {
			free(next);
			return mlr_fail(
				err, EPROTO, "'%s': the list of tags runs in a circle", r->name);
		}
		set_ptr(&query, next);
	}
	strv_add_all(ret, &tags);
	return 0;
}
