#include "rootfs/verify.h"

#include "base/tighten.h"
#include "layer/record.h"
#include "oci/config.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "rootfs/layers.h"
#include "rootfs/verify_tree.h"
#include "store/blob.h"
#include "store/facts.h"
#include "store/image.h"
#include "store/guard.h"
#include "store/tree.h"

struct verification {
	struct store *st;
	const struct rootfs_verify_options *opt;
	struct rootfs_report *report;
	const char *path; /* of what is being verified, below the store's top */
};

void rootfs_report_done(struct rootfs_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].path);
		free(r->v[i].why);
		strv_done(&r->v[i].files);
	}
	free(r->v);
	*r = (struct rootfs_report){ 0 };
}

static int is_cancelled(void *ctx)
{
	const struct verification *v = ctx;

	return v->opt->cancel && __atomic_load_n(v->opt->cancel, __ATOMIC_RELAXED);
}

static void begin(struct verification *v, const char *path)
{
	v->path = path;
	v->report->checked++;
	if (v->opt->tick)
		v->opt->tick(v->opt->ctx, path);
}

/* Add a finding, unless the path was removed meanwhile. Empties files. */
static void find(
	struct verification *v, enum rootfs_verdict verdict, const char *why, struct strv *files)
{
	struct rootfs_report *r = v->report;

	if (faccessat(store_fd(v->st), v->path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return;
	*xadd(r->v, r->n) = (struct rootfs_finding){ verdict, xstrdup(v->path), xstrdup(why),
		files ? take_struct(files, STRV_INIT) : (struct strv)STRV_INIT };
}

/* files: the names that differ, or NULL. */
static void find_broken(struct verification *v, const struct mlr_error *why, struct strv *files)
{
	auto_free char *text = xasprintf("%.*s", MLR_SENTENCE(why));

	find(v, ROOTFS_BROKEN, text, files);
}

/* List the names below a directory that consist of 64 hexadecimal digits and this ending. */
static int list(struct verification *v, const char *dir, const char *end, struct strv *ret,
	struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(v->st), dir, 0);

	if (!d && errno == ENOENT) /* missing in a store of an older format */
		return 0;
	if (!d)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(v->st), dir);
	for (struct dirent *e; (e = file_next(d));)
		if (strspn(e->d_name, "0123456789abcdef") == 64 && strcmp(e->d_name + 64, end) == 0)
			strv_add(ret, e->d_name);
	return 0;
}

/* --- blobs and files ------------------------------------------------------ */

static int hash_file(struct verification *v, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	auto_close int fd =
		openat(store_fd(v->st), v->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int r;

	if (fd < 0)
		return mlr_fail_errno(err, "open");
	r = hash_fd(fd, is_cancelled, v, hex, NULL);
	if (r == -ECANCELED)
		return mlr_fail(err, ECANCELED, "interrupted");
	return mlr_result(err, r, "read");
}

static int verify_blob(struct verification *v, const char *name, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	char hex[HASH_HEX_SIZE];
	int r = hash_file(v, hex, &why);

	if (r == -ECANCELED)
		return mlr_fail(err, ECANCELED, "interrupted");
	if (r == 0 && strcmp(hex, name) != 0)
		r = mlr_fail(&why, EBADMSG, "its bytes hash to sha256:%s", hex);
	if (r < 0)
		find_broken(v, &why, NULL);
	return 0;
}

/* --- layers --------------------------------------------------------------- */

static int compare_layer(
	struct verification *v, const char *diff_id, struct strv *files, struct mlr_error *why)
{
	auto_close int tree = -1, fd = -1;

	TRY(store_tree_check(v->st, STORE_LAYER, diff_id, why));
	TRY(tree = store_tree_open(v->st, STORE_LAYER, diff_id, why));
	fd = rootfs_layer_record(v->st, diff_id, why);
	if (fd < 0)
		return fd == -ENOENT ? 1 : fd;
	TRY(rootfs_verify_layer(diff_id, fd, tree, files, why));
	return rootfs_layer_notes_check(v->st, diff_id, why);
}

/* --- who may write -------------------------------------------------------- */

#define FILES_MAX 20

struct open_names {
	struct strv files;
	uid_t owner; /* the owner of the tree */
	int foreign;
};

static void add_open(void *ctx, const char *path, const struct stat *st)
{
	struct open_names *o = ctx;
	int foreign = st->st_uid != o->owner;

	o->foreign |= foreign;
	if (o->files.n == FILES_MAX)
		strv_add(&o->files, "…");
	else if (o->files.n < FILES_MAX && foreign)
		strv_addf(&o->files, "%s: belongs to user %ld", path, (long)st->st_uid);
	else if (o->files.n < FILES_MAX)
		strv_addf(&o->files, "%s: has mode %o", path, (unsigned)st->st_mode & 07777);
}

/* Check the write permissions of an otherwise correct tree. If another user has put something
 * there, only pulling again repairs it. */
static void verify_tight(struct verification *v)
{
	auto_free char *tree = xasprintf("%s/tree", v->path);
	struct open_names o = { .owner = 0 };
	struct stat sb;

	if (!store_is_tight(v->st) || fstatat(store_fd(v->st), tree, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	o.owner = sb.st_uid;
	if (tighten_find(store_fd(v->st), tree, add_open, &o, NULL) == 0 && o.files.n > 0)
		find(v, o.foreign ? ROOTFS_BROKEN : ROOTFS_OPEN,
			"others than its owner may write there, or run programs with his rights",
			&o.files);
	strv_done(&o.files);
}

static int verify_layer(struct verification *v, const char *name, struct mlr_error *err)
{
	auto_strv struct strv files = STRV_INIT;
	auto_free char *diff_id = xasprintf("sha256:%s", name);
	struct mlr_error why = MLR_ERROR_INIT;
	int r = compare_layer(v, diff_id, &files, &why);

	if (r == 1) {
		find(v, ROOTFS_UNKNOWN, "cannot be verified: made by an older mlrun", NULL);
	} else if (r < 0) {
		find_broken(v, &why, &files);
	} else {
		verify_tight(v);
	}
	return 0;
}

/* --- facts and images ----------------------------------------------------- */

static int same_list(const struct strv *a, const struct strv *b)
{
	if (a->n != b->n)
		return 0;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return 0;
	return 1;
}

static int same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static int same_config(const struct oci_config *a, const struct oci_config *b)
{
	return same_text(a->os, b->os) && same_text(a->architecture, b->architecture) &&
		same_text(a->variant, b->variant) && same_text(a->user, b->user) &&
		same_text(a->working_dir, b->working_dir) &&
		same_list(&a->diff_ids, &b->diff_ids) && same_list(&a->env, &b->env) &&
		same_list(&a->cmd, &b->cmd) && same_list(&a->entrypoint, &b->entrypoint);
}

static int parse_config(
	struct store *st, const char *manifest, struct oci_config *ret, struct mlr_error *why)
{
	auto_call(oci_document_done) struct oci_document doc = { 0 };
	auto_free char *text = NULL, *config = NULL;
	size_t len;

	TRY(store_blob_get(st, manifest, &text, &len, why));
	TRY(oci_document_parse(text, len, NULL, NULL, &doc, why));
	TRY(store_blob_get(st, doc.config.digest, &config, &len, why));
	return oci_config_parse(config, len, ret, why);
}

static int verify_facts(struct verification *v, const char *name, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_call(oci_config_done) struct oci_config c = { 0 };
	auto_free char *manifest = xasprintf("sha256:%.64s", name);
	struct mlr_error why = MLR_ERROR_INIT;
	int r = store_facts_get(v->st, manifest, &f, &why);

	if (r == 0)
		r = parse_config(v->st, manifest, &c, &why);
	if (r == 0 && !same_config(&f.config, &c))
		r = mlr_fail(&why, EBADMSG, "it differs from the image's configuration");
	if (r < 0)
		find_broken(v, &why, NULL);
	return 0;
}

/* A named index must exist; manifest and configuration are examined with the facts. */
static int whole_image(struct verification *v, struct store_image *im, struct mlr_error *why)
{
	auto_free char *index = NULL;

	TRY(store_image_load(v->st, v->path, im, why));
	TRY(store_image_check(v->st, im, why));
	return im->index ? store_blob_get(v->st, im->index, &index, NULL, why) : 0;
}

static int verify_image(struct verification *v, const char *name, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	struct mlr_error why = MLR_ERROR_INIT;

	(void)name, (void)err;
	if (whole_image(v, &im, &why) < 0)
		find_broken(v, &why, NULL);
	return 0;
}

/* --- trees of whole images ------------------------------------------------ */

static int verify_dir(struct verification *v, const char *name, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_strv struct strv files = STRV_INIT;
	auto_free char *manifest = xasprintf("sha256:%s", name);
	struct mlr_error why = MLR_ERROR_INIT;
	int r = store_tree_check(v->st, STORE_DIR, manifest, &why);

	if (r == 0 && store_facts_get(v->st, manifest, &f, NULL) < 0)
		return 0; /* belongs to no image; prune removes it */
	if (r == 0)
		r = rootfs_verify_tree(v->st, manifest, &f.config.diff_ids, &files, &why);
	if (r < 0)
		find_broken(v, &why, &files);
	else
		verify_tight(v);
	return 0;
}

static int verify_cover(struct verification *v, const char *name, struct mlr_error *err)
{
	auto_free char *manifest = xasprintf("sha256:%s", name);
	struct mlr_error why = MLR_ERROR_INIT;
	int r = store_tree_check(v->st, STORE_COVER, manifest, &why);

	if (r == 0)
		r = rootfs_verify_cover(v->st, manifest, &why);
	if (r < 0)
		find_broken(v, &why, NULL);
	else
		verify_tight(v);
	return 0;
}

static int verify_squash(struct verification *v, const char *name, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_free char *manifest = xasprintf("sha256:%.64s", name);
	struct mlr_error why = MLR_ERROR_INIT;
	char hex[HASH_HEX_SIZE];
	int r = store_tree_check(v->st, STORE_SQUASH, manifest, &why);

	if (store_facts_get(v->st, manifest, &f, NULL) < 0 || !f.squash_digest)
		return 0; /* belongs to no image; prune removes it */
	if (r == 0)
		r = hash_file(v, hex, &why);
	if (r == -ECANCELED)
		return mlr_fail(err, ECANCELED, "interrupted");
	if (r == 0 && strcmp(hex, oci_digest_hex(f.squash_digest)) != 0)
		r = mlr_fail(&why, EBADMSG, "its bytes hash to sha256:%s, not to %s", hex,
			f.squash_digest);
	if (r < 0)
		find_broken(v, &why, NULL);
	return 0;
}

/* --- everything ----------------------------------------------------------- */

static const struct {
	const char *dir, *end;
	int (*verify)(struct verification *v, const char *name, struct mlr_error *err);
} places[] = {
	{ "blobs/sha256", "", verify_blob },
	{ "layers", "", verify_layer },
	{ "cover", "", verify_cover },
	{ "dir", "", verify_dir },
	{ "squash", ".sqfs", verify_squash },
	{ "facts", ".json", verify_facts },
	{ "images", ".json", verify_image },
};

static int verify_place(struct verification *v, size_t i, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;

	TRY(list(v, places[i].dir, places[i].end, &names, err));
	for (size_t j = 0; j < names.n; j++) {
		auto_free char *path = xasprintf("%s/%s", places[i].dir, names.v[j]);

		if (is_cancelled(v))
			return mlr_fail(err, ECANCELED, "interrupted");
		begin(v, path);
		TRY(places[i].verify(v, names.v[j], err));
	}
	return 0;
}

int rootfs_verify(struct store *st, const struct rootfs_verify_options *opt,
	struct rootfs_report *ret, struct mlr_error *err)
{
	auto_call(rootfs_report_done) struct rootfs_report report = { 0 };
	struct verification v = { st, opt, &report };

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		TRY(verify_place(&v, i, err));
	*ret = take_struct(&report, { 0 });
	return 0;
}
