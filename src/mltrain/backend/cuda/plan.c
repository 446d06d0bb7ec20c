#include "backend/cuda/plan.h"

size_t plan_take(struct plan *p, const char *what, size_t bytes, int from, int to)
{
	p->entries = xgrow(p->entries, p->n, sizeof(*p->entries));
	p->entries[p->n] = (struct plan_entry){ what,
		(bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN, 0, from, to };
	return p->n++;
}

static int by_size(const void *a, const void *b)
{
	const struct plan_entry *x = *(struct plan_entry *const *)a;
	const struct plan_entry *y = *(struct plan_entry *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y; /* qsort(3) is not stable, plans are to be the same each time */
}

/* placed[n] stand in the order of where they lie. */
static size_t insert(struct plan_entry **placed, size_t n, struct plan_entry *e)
{
	size_t i = n;

	for (; i > 0 && placed[i - 1]->at > e->at; i--)
		placed[i] = placed[i - 1];
	placed[i] = e;
	return n + 1;
}

void plan_place(struct plan *p)
{
	auto_free struct plan_entry **order = xcalloc(p->n + 1, sizeof(struct plan_entry *));
	auto_free struct plan_entry **placed = xcalloc(p->n + 1, sizeof(struct plan_entry *));
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		order[i] = &p->entries[i];
	qsort(order, p->n, sizeof(struct plan_entry *), by_size);
	p->bytes = 0;
	for (size_t i = 0; i < p->n; i++) {
		struct plan_entry *e = order[i];
		size_t at = 0;

		for (size_t k = 0; k < n; k++) {
			const struct plan_entry *o = placed[k];

			if (o->to < e->from || o->from > e->to || o->at + o->bytes <= at)
				continue;
			if (o->at >= at + e->bytes)
				break;
			at = o->at + o->bytes;
		}
		e->at = at;
		if (at + e->bytes > p->bytes)
			p->bytes = at + e->bytes;
		n = insert(placed, n, e);
	}
}

/* Bytes of all arrays of a name; 0 when an array before i has told them. */
static size_t bytes_of(const struct plan *p, size_t i)
{
	size_t bytes = 0;

	for (size_t k = 0; k < p->n; k++) {
		if (strcmp(p->entries[k].what, p->entries[i].what) != 0)
			continue;
		if (k < i)
			return 0;
		bytes += p->entries[k].bytes;
	}
	return bytes;
}

char *plan_text(const struct plan *p)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		mlr_oom();
	for (size_t i = 0; i < p->n; i++) {
		size_t bytes = bytes_of(p, i);

		if (bytes)
			fprintf(f, "%-24s %10.2f MiB\n", p->entries[i].what,
				(double)bytes / (1 << 20));
	}
	fprintf(f, "%-24s %10.2f MiB\n", "in all, places shared", (double)p->bytes / (1 << 20));
	fclose(f);
	return text;
}

void plan_done(struct plan *p)
{
	free(p->entries);
	*p = (struct plan){ 0 };
}
