#include "export/squash.h"

#include "base/base.h"
#include "export/outlet.h"
#include "export/view.h"
#include "oci/enroot.h"
#include "rootfs/kept.h"
#include "rootfs/rootfs.h"
#include "squashfs/writer.h"

void export_squashed_done(struct export_squashed *s)
{
	strv_done(&s->omitted);
}

/* Show a container's own layer as one more of the image's: nothing is written. */
static void look_only(struct plan *p)
{
	auto_free char *upper = p->kept ? xasprintf("%s/upper", p->kept) : NULL;
	auto_strv struct strv lowers = p->lowers;

	free(p->kept);
	free(p->share);
	p->kept = p->share = NULL;
	p->lowers = (struct strv)STRV_INIT;
	if (upper && access(upper, F_OK) == 0) /* else it was never started */
		strv_add(&p->lowers, upper);
	for (size_t i = 0; i < lowers.n; i++)
		strv_add(&p->lowers, lowers.v[i]);
	p->root = PLAN_ROOT_READ_ONLY;
	p->id = (struct plan_identity){
		.uid = 0, .host_uid = geteuid(), .gid = 0, .host_gid = getegid()
	};
	free(p->workdir);
	p->workdir = xstrdup("/");
}

static int plan_root(const char *store, const char *image, struct plan *p, struct store_facts *ret,
	struct mlr_error *err)
{
	const struct rootfs_kept_wish wish = { .name = rootfs_kept_of(image) };
	int r = wish.name ? rootfs_kept_plan(store, NULL, image, &wish, 1, p, ret, err)
			  : rootfs_plan(store, NULL, image, 1, p, ret, err);

	if (r == 0)
		look_only(p);
	return r;
}

/* The reader of the tar, which is asked often enough to notice a signal. */
struct source {
	struct view *view;
	const int *cancel;
};

static ssize_t source_read(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct source *s = ctx;

	if (s->cancel && __atomic_load_n(s->cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	return view_read(s->view, buf, len, err);
}

static int fill(struct source *from, int fd, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;
	auto_call(layer_result_done) struct layer_result result = LAYER_RESULT_INIT;
	struct squashfs_writer *s = NULL;
	int r = squashfs_writer_new(fd, 1, 0, &s, err);

	if (r == 0)
		r = squashfs_writer_layer(s, err);
	if (r == 0)
		r = layer_tar_read(source_read, from, OCI_PLAIN, &limits, &squashfs_writer_sink, s,
			&result, err);
	if (r == 0)
		r = squashfs_writer_apply(s, err);
	if (r == 0)
		r = squashfs_writer_finish(s, err);
	squashfs_writer_free(s);
	return r;
}

static int write_file(const struct plan *p, const struct oci_config *c, const char *path,
	const int *cancel, struct strv *omitted, struct mlr_error *err)
{
	auto_free char *rc = oci_enroot_rc(c, p->image),
		       *environment = oci_enroot_environment(c, omitted);
	const struct view_file files[] = { { OCI_ENROOT_ENVIRONMENT, environment },
		{ OCI_ENROOT_RC, rc } };
	auto_call(view_cleanup) struct view *view = NULL;
	auto_call(outlet_cleanup) struct outlet *out = NULL;
	struct source from = { .cancel = cancel };
	int r = outlet_open(path, OUTLET_FILE, 0, &out, err);

	if (r == 0)
		r = view_open(p, files, ARRAY_LEN(files), &view, err);
	from.view = view;
	if (r == 0)
		r = fill(&from, outlet_fd(out), err);
	return r < 0 ? r : outlet_finish(out, err);
}

int export_squash(const char *store, const char *image, const char *path, const int *cancel,
	struct export_squashed *ret, struct mlr_error *err)
{
	auto_call(plan_done) struct plan p;
	auto_call(store_facts_done) struct store_facts facts = STORE_FACTS_INIT;
	int r;

	plan_init(&p);
	r = plan_root(store, image, &p, &facts, err);
	if (r == 0)
		r = write_file(&p, &facts.config, path, cancel, &ret->omitted, err);
	ret->layers = facts.config.diff_ids.n;
	return r < 0 ? mlr_wrap(err, "export '%s'", image) : 0;
}
