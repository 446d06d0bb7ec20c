#include "store/prune.h"

#include "store/lease.h"
#include "store/removal.h"
#include "store/tree.h"

/* The directories of parts. */
static const char *const places[] = { "layers", "cover", "dir", "squash", "facts", "blobs/sha256" };

struct candidate {
	struct store_image image;
	int64_t last_use;
	int is_protected, goes, in_use;
	struct strv parts; /* only for max_size */
};

struct pruning {
	struct store *st;
	const struct store_prune_options *opt;
	struct candidate *v; /* n of them, the longest unused first */
	size_t n;
};

void store_prune_result_done(struct store_prune_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		store_image_done(&r->images[i].image);
	free(r->images);
	strv_done(&r->parts);
	*r = (struct store_prune_result)STORE_PRUNE_RESULT_INIT;
}

static void pruning_done(struct pruning *p)
{
	for (size_t i = 0; i < p->n; i++) {
		store_image_done(&p->v[i].image);
		strv_done(&p->v[i].parts);
	}
	free(p->v);
}

/* --- which images --------------------------------------------------------- */

static int by_last_use(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->last_use != y->last_use)
		return x->last_use < y->last_use ? -1 : 1;
	return strcmp(x->image.name, y->image.name);
}

static int load(struct pruning *p, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;

	TRY(store_image_list(p->st, &v, &n, err));
	p->v = xcalloc(n + 1, sizeof(*p->v));
	p->n = n;
	for (size_t i = 0; i < n; i++) {
		int64_t used = store_lease_last_use(p->st, v[i].manifest);

		p->v[i].image = v[i];
		p->v[i].last_use = used > v[i].pulled ? used : v[i].pulled;
	}
	free(v);
	sort_all(p->v, n, by_last_use);
	return 0;
}

/* The length of "quay.io/org/name" in a canonical name: a tag's ':' or a digest's '@' follows the
 * last '/'. */
static size_t repository_length(const char *name)
{
	const char *slash = strrchr(name, '/');

	return (size_t)(slash ? slash - name : 0) + strcspn(slash ? slash : name, ":@");
}

static int same_repository(const char *a, const char *b)
{
	size_t n = repository_length(a);

	return n == repository_length(b) && strncmp(a, b, n) == 0;
}

/* Protect the last used images of each repository. */
static void protect(struct pruning *p)
{
	for (size_t i = 0; i < p->n; i++) {
		int later = 0;

		for (size_t j = i + 1; j < p->n; j++)
			later += same_repository(p->v[i].image.name, p->v[j].image.name);
		p->v[i].is_protected = later < p->opt->keep_last;
	}
}

static void choose_by_age(struct pruning *p)
{
	const struct store_prune_options *o = p->opt;
	int64_t now = time(NULL);

	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].is_protected)
			continue;
		if (o->older_than >= 0)
			p->v[i].goes = now - p->v[i].last_use >= o->older_than;
		else
			p->v[i].goes = o->keep_last >= 0 && o->max_size < 0;
	}
}

/* A part of images. It counts once, however many of them need it. */
struct size {
	char *path;
	uint64_t bytes;
	int users;
};

struct sizes {
	struct size *v;
	size_t n;
	uint64_t sum; /* of the parts that images need */
};

static void sizes_done(struct sizes *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	free(s->v);
}

static void count_part(struct pruning *p, struct sizes *s, const char *path, int step)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->v[i].path, path) != 0)
		i++;
	if (i == s->n) {
		*xadd(s->v, s->n) = (struct size){ xstrdup(path), store_usage(p->st, path), 0 };
	}
	if (s->v[i].users == 0)
		s->sum += s->v[i].bytes;
	s->v[i].users += step;
	if (s->v[i].users == 0)
		s->sum -= s->v[i].bytes;
}

static void count_image(struct pruning *p, struct sizes *s, struct candidate *c, int step)
{
	for (size_t i = 0; i < c->parts.n; i++)
		count_part(p, s, c->parts.v[i], step);
}

/* Choose the longest unused images until the rest fits. */
static int choose_by_size(struct pruning *p, struct store_prune_result *ret, struct mlr_error *err)
{
	auto_call(sizes_done) struct sizes s = { NULL, 0, 0 };

	for (size_t i = 0; i < p->n; i++) {
		TRY(store_parts_add_image(p->st, &p->v[i].image, &p->v[i].parts, err));
		if (!p->v[i].goes)
			count_image(p, &s, &p->v[i], 1);
	}
	for (size_t i = 0; i < p->n && s.sum > (uint64_t)p->opt->max_size; i++) {
		struct candidate *c = &p->v[i];

		if (c->goes || c->is_protected || store_parts_in_use(p->st, c->image.manifest))
			continue;
		c->goes = 1;
		count_image(p, &s, c, -1);
	}
	ret->left = (int64_t)s.sum;
	return 0;
}

/* --- away with them ------------------------------------------------------- */

/* Does another image that stays have the same manifest? */
static int has_other_name(const struct pruning *p, const struct candidate *c)
{
	for (size_t i = 0; i < p->n; i++)
		if (&p->v[i] != c && (!p->v[i].goes || p->v[i].in_use) &&
			strcmp(p->v[i].image.manifest, c->image.manifest) == 0)
			return 1;
	return 0;
}

static int unname(struct pruning *p, struct removal *rm, struct mlr_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		struct candidate *c = &p->v[i];
		int last, r = 0;

		if (!c->goes)
			continue;
		last = !has_other_name(p, c);
		if (p->opt->dry_run)
			c->in_use = last && store_parts_in_use(p->st, c->image.manifest);
		else
			r = removal_unname(
				rm, &c->image, last ? REMOVAL_LAST_NAME : REMOVAL_ONE_NAME, 0, err);
		if (r == -EBUSY)
			c->in_use = 1;
		else if (r < 0)
			return r;
	}
	return 0;
}

/* Find the parts that the remaining images need. */
static int find_keep(struct pruning *p, struct strv *keep, struct mlr_error *err)
{
	auto_strv struct strv named = STRV_INIT, go = STRV_INIT;

	for (size_t i = 0; i < p->n; i++) {
		strv_add(&named, p->v[i].image.manifest);
		if (!p->v[i].goes || p->v[i].in_use)
			TRY(store_parts_add_image(p->st, &p->v[i].image, keep, err));
	}
	return store_parts_add_nameless(p->st, &named, keep, &go, err);
}

static int is_part(const char *place, const char *name)
{
	size_t hex = strspn(name, "0123456789abcdef");
	const char *end = strcmp(place, "facts") == 0 ? ".json"
		: strcmp(place, "squash") == 0        ? ".sqfs"
						      : "";

	return hex == 64 && strcmp(name + hex, end) == 0;
}

static int collect_place(struct pruning *p, const char *place, const struct strv *keep,
	const struct strv *spare, struct strv *go, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(p->st), place, 0);

	if (!d)
		return errno == ENOENT
			? 0
			: mlr_fail_errno(err, "open '%s/%s'", store_path(p->st), place);
	for (struct dirent *e; (e = file_next(d));) {
		auto_free char *path = xasprintf("%s/%s", place, e->d_name);

		if (is_part(place, e->d_name) && !strv_has(keep, path) &&
			!store_parts_spared(spare, path))
			strv_add(go, path);
	}
	return 0;
}

static int remove_parts(struct pruning *p, struct removal *rm, struct store_prune_result *ret,
	struct mlr_error *err)
{
	auto_strv struct strv keep = STRV_INIT;

	TRY(find_keep(p, &keep, err));
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		TRY(collect_place(p, places[i], &keep, &rm->spare, &ret->parts, err));
	for (size_t i = 0; i < ret->parts.n; i++) {
		ret->freed += store_usage(p->st, ret->parts.v[i]);
		if (!p->opt->dry_run)
			TRY(removal_throw_for_good(rm, ret->parts.v[i], err));
	}
	return 0;
}

static void tell(struct pruning *p, struct store_prune_result *ret)
{
	ret->images = xcalloc(p->n + 1, sizeof(*ret->images));
	for (size_t i = 0; i < p->n; i++) {
		struct candidate *c = &p->v[i];

		if (!c->goes)
			continue;
		ret->images[ret->n++] = (struct store_pruned){ c->image, c->last_use, c->in_use };
		c->image = (struct store_image){ 0 };
	}
}

static int prune_locked(struct pruning *p, struct removal *rm, struct store_prune_result *ret,
	struct mlr_error *err)
{
	TRY(load(p, err));
	protect(p);
	choose_by_age(p);
	if (p->opt->max_size >= 0)
		TRY(choose_by_size(p, ret, err));
	TRY(unname(p, rm, err));
	if (!p->opt->dry_run)
		file_sync_dir(store_fd(p->st), "images");
	TRY(remove_parts(p, rm, ret, err));
	tell(p, ret);
	return 0;
}

int store_prune(struct store *st, const struct store_prune_options *opt,
	struct store_prune_result *ret, struct mlr_error *err)
{
	auto_call(removal_done) struct removal rm = REMOVAL_INIT(st);
	auto_call(pruning_done) struct pruning p = { st, opt, NULL, 0 };
	auto_call(store_prune_result_done) struct store_prune_result result =
		STORE_PRUNE_RESULT_INIT;
	struct strv nothing = STRV_INIT;
	int r, e;

	/* A hold shows the file system's clock, by which the sweep judges leftovers of other hosts.
	 * On a full disk there is none. */
	store_hold_only(st, &nothing, NULL);
	r = removal_begin(&rm, err);
	if (r == 0)
		r = prune_locked(&p, &rm, &result, err);
	removal_end(&rm);
	e = removal_empty_trash(&rm, r < 0 ? NULL : err);
	if (r < 0 || e < 0)
		return r < 0 ? r : e;
	if (!opt->dry_run)
		store_sweep(st);
	*ret = take_struct(&result, STORE_PRUNE_RESULT_INIT);
	return 0;
}
