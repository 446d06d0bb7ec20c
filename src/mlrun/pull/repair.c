#include "pull/repair.h"

#include "oci/name.h"
#include "store/facts.h"
#include "store/lease.h"
#include "store/removal.h"
#include "store/removal.h"
#include "store/guard.h"
#include "store/tree.h"

/* An image whose own file is readable, and all paths that it needs, including that file. */
struct patient {
	struct store_image image;
	struct strv parts;
};

struct ward {
	struct patient *v;
	size_t n;
};

static void ward_done(struct ward *w)
{
	for (size_t i = 0; i < w->n; i++) {
		store_image_done(&w->v[i].image);
		strv_done(&w->v[i].parts);
	}
	free(w->v);
}

/* Damaged facts do not name the layers, but are findings themselves. */
static void admit(struct ward *w, struct store *st, const char *path)
{
	struct store_image im = { 0 };
	struct patient *p;

	if (store_image_load(st, path, &im, NULL) < 0)
		return;
	p = xadd(w->v, w->n);
	*p = (struct patient){ im, STRV_INIT };
	strv_add(&p->parts, path);
	if (store_parts_add_image(st, &im, &p->parts, NULL) < 0)
		strv_addf(&p->parts, "facts/%.64s.json", strchr(im.manifest, ':') + 1);
}

static void load(struct ward *w, struct store *st)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "images", 0);

	for (struct dirent *e; (e = file_next(d));) {
		auto_free char *path = xasprintf("images/%s", e->d_name);

		if (strlen(e->d_name) == 64 + strlen(".json"))
			admit(w, st, path);
	}
}

void pull_repair_needed_by(struct store *st, const char *path, struct strv *names)
{
	auto_call(ward_done) struct ward w = { NULL, 0 };

	load(&w, st);
	for (size_t i = 0; i < w.n; i++)
		if (strv_has(&w.v[i].parts, path))
			strv_add(names, w.v[i].image.name);
}

/* The container would lose intact files. */
static int is_in_use(
	const struct ward *w, struct store *st, const char *path, const struct repair_watch *told)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct patient *p = &w->v[i];
		struct store_lease l;

		if (!strv_has(&p->parts, path) || !store_lease_held(st, p->image.manifest, &l) ||
			!l.is_running)
			continue;
		if (told->in_use)
			told->in_use(told->ctx, path, p->image.name, (long)l.pid);
		return 1;
	}
	return 0;
}

/* Was it made by mlrun commit? Then nothing can fetch it again. */
static int is_made_here(const struct store_image *im)
{
	return im->source && strncmp(im->source, "container:", 10) == 0;
}

/* Keep what is left of a broken image that cannot be fetched. */
static int cannot_come_back(const struct ward *w, const char *path, const struct repair_watch *told)
{
	const struct patient *p = NULL;
	struct mlr_error why = MLR_ERROR_INIT;

	for (size_t i = 0; i < w->n; i++) {
		if (!strv_has(&w->v[i].parts, path))
			continue;
		if (!is_made_here(&w->v[i].image))
			return 0;
		p = &w->v[i];
	}
	if (!p)
		return 0;
	mlr_fail(&why, ENOENT,
		"'%s' is damaged and stays: the image was made here, by mlrun commit, and cannot be "
		"fetched",
		path);
	mlr_hint(&why, "commit its container again, if that is still there");
	if (told->failed)
		told->failed(told->ctx, p->image.name, &why);
	return 1;
}

/* An intact image file only names what is missing: pulling restores that. */
static int is_only_a_name(const struct ward *w, const char *path)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->v[i].parts.v[0], path) == 0)
			return 1;
	return 0;
}

static int close_to_others(
	struct store *st, const char *path, const struct repair_watch *told, struct mlr_error *err)
{
	int r = store_tighten(st, path, err);

	if (r == 0 && told->closed)
		told->closed(told->ctx, path);
	return r;
}

static int remove_findings(const struct ward *w, struct store *st,
	const struct rootfs_report *report, const struct repair_watch *told, struct strv *gone,
	struct mlr_error *err)
{
	auto_call(removal_done) struct removal rm = REMOVAL_INIT(st);
	int r = removal_begin(&rm, err), e;

	for (size_t i = 0; r == 0 && i < report->n; i++) {
		const char *path = report->v[i].path;

		if (report->v[i].verdict == ROOTFS_OPEN) {
			r = close_to_others(st, path, told, err);
			continue;
		}
		if (is_in_use(w, st, path, told) || cannot_come_back(w, path, told))
			continue;
		strv_add(gone, path);
		if (is_only_a_name(w, path))
			continue;
		r = removal_throw_for_good(&rm, path, err);
		if (r == 0 && told->removed)
			told->removed(told->ctx, path);
	}
	removal_end(&rm);
	e = removal_empty_trash(&rm, r < 0 ? NULL : err);
	return r < 0 ? r : e;
}

/* Find an image's source: files, or a repository (another one, if the name was given by tag) at the
 * old digest. */
static int origin(const struct store_image *im, struct oci_name *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name from = OCI_NAME_INIT;
	auto_free char *text = NULL;

	if (is_made_here(im))
		return mlr_fail(err, ENOENT, "it was made here, by mlrun commit");
	TRY(oci_name_parse(im->source ? im->source : im->name, &from, err));
	if (from.transport != OCI_REGISTRY)
		text = oci_name_print(&from);
	else
		text = xasprintf("%s/%s@%s", from.ref.registry, from.ref.repository,
			im->index ? im->index : im->manifest);
	return oci_name_parse(text, ret, err);
}

/* The formats to fetch: those that lost something, else all that it has. */
static unsigned formats_of(struct store *st, const struct patient *p, const struct strv *gone)
{
	static const struct {
		const char *dir;
		enum store_format format;
	} places[] = { { "layers/", STORE_FORMAT_LAYERS }, { "cover/", STORE_FORMAT_LAYERS },
		{ "dir/", STORE_FORMAT_DIR }, { "squash/", STORE_FORMAT_SQUASHFS } };
	auto_call(store_facts_done) struct store_facts f = { 0 };
	unsigned lost = 0;

	for (size_t i = 0; i < gone->n; i++)
		for (size_t j = 0; j < ARRAY_LEN(places); j++)
			if (strv_has(&p->parts, gone->v[i]) &&
				strncmp(gone->v[i], places[j].dir, strlen(places[j].dir)) == 0)
				lost |= places[j].format;
	if (store_facts_get(st, p->image.manifest, &f, NULL) == 0) {
		for (unsigned bit = 1; bit < 1u << STORE_FORMATS; bit <<= 1)
			if ((f.formats & bit) &&
				!store_facts_whole(st, p->image.manifest, &f, bit, NULL))
				lost |= bit;
		return lost ? lost : f.formats;
	}
	if (!lost && store_tree_exists(st, STORE_SQUASH, p->image.manifest))
		lost = STORE_FORMAT_SQUASHFS;
	return lost;
}

static int fetch(struct store *st, const struct store_image *im, unsigned format,
	const struct pull_options *base, const struct pull_watch *watch, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref name = { 0 };
	auto_call(oci_name_done) struct oci_name what = OCI_NAME_INIT;
	auto_call(pull_result_done) struct pull_result result = { 0 };
	struct pull_options opt = *base;

	TRY(oci_ref_parse(im->name, &name, err));
	TRY(origin(im, &what, err));
	opt.platform = im->platform;
	opt.as = &name;
	opt.format = format;
	return pull_image(st, &what, &opt, watch, &result, err);
}

static int fetch_all(struct store *st, const struct patient *p, const struct strv *gone,
	const struct pull_options *opt, const struct pull_watch *watch, struct mlr_error *err)
{
	unsigned formats = formats_of(st, p, gone);
	int r = formats ? 0 : fetch(st, &p->image, 0, opt, watch, err);

	for (unsigned bit = 1; r == 0 && bit < 1u << STORE_FORMATS; bit <<= 1)
		if (formats & bit)
			r = fetch(st, &p->image, bit, opt, watch, err);
	return r;
}

static int needs_any(const struct patient *p, const struct strv *gone)
{
	for (size_t i = 0; i < gone->n; i++)
		if (strv_has(&p->parts, gone->v[i]))
			return 1;
	return 0;
}

int pull_repair(struct store *st, const struct rootfs_report *report,
	const struct pull_options *opt, const struct pull_watch *watch,
	const struct repair_watch *told, struct mlr_error *err)
{
	auto_call(ward_done) struct ward w = { NULL, 0 };
	auto_strv struct strv gone = STRV_INIT;
	int r;

	load(&w, st);
	r = remove_findings(&w, st, report, told, &gone, err);
	for (size_t i = 0; r == 0 && i < w.n; i++) {
		struct mlr_error why = MLR_ERROR_INIT;

		if (opt->cancel && __atomic_load_n(opt->cancel, __ATOMIC_RELAXED))
			return mlr_fail(err, ECANCELED, "interrupted");
		if (!needs_any(&w.v[i], &gone))
			continue;
		if (fetch_all(st, &w.v[i], &gone, opt, watch, &why) < 0) {
			if (told->failed)
				told->failed(told->ctx, w.v[i].image.name, &why);
		} else if (told->fetched) {
			told->fetched(told->ctx, w.v[i].image.name);
		}
	}
	return r;
}
