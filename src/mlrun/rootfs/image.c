#include "rootfs/image.h"

#include "layer/path.h"
#include "oci/config.h"
#include "oci/digest.h"
#include "oci/platform.h"
#include "rootfs/flatten.h"
#include "rootfs/layers.h"
#include "rootfs/place.h"
#include "store/blob.h"
#include "store/open_dirs.h"
#include "store/tree.h"

/* The contents of the layers below a given one at a path. */
enum below { NOTHING, DIRECTORY, OTHER };

/* Returns 1, 0 or -errno. */
static int is_opaque(const struct rootfs_layer *l, const char *path)
{
	auto_close int fd = openat(l->fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : layer_opaque_is(fd);
}

/* Does the layer itself hide the lower layers' entries at a path, by an opaque directory above
 * it? */
static int is_cut_off(const struct rootfs_layer *l, const char *path)
{
	char part[PATH_MAX];
	int r = 0;

	for (const char *s = strchr(path, '/'); s && r == 0; s = strchr(s + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
		r = is_opaque(l, part);
	}
	return r;
}

/*
 * Go down one name: of the n layers in at (topmost first) keep those whose directories overlayfs
 * merges there. Returns what the topmost one has.
 */
static int narrow(const struct rootfs_layers *l, const char *path, size_t *at, size_t *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < *n; i++) {
		const struct rootfs_layer *layer = &l->v[at[i]];
		struct stat sb;
		int r;

		if (fstatat(layer->fd, path, &sb, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		if (!S_ISDIR(sb.st_mode)) {
			if (kept == 0 && !layer_whiteout_is(&sb))
				return OTHER;
			break;
		}
		at[kept++] = at[i];
		TRY(r = is_opaque(layer, path));
		if (r)
			break;
	}
	*n = kept;
	return kept ? DIRECTORY : NOTHING;
}

/* Find what the layers below top have at path; at gets the *n layers whose directories are merged.
 */
static int look_below(
	const struct rootfs_layers *l, size_t top, const char *path, size_t *at, size_t *n)
{
	char part[PATH_MAX];
	int r = DIRECTORY;

	for (*n = 0; *n < top; (*n)++)
		at[*n] = top - 1 - *n;
	if (strcmp(path, ".") == 0)
		return DIRECTORY;
	for (const char *s = path; s && r == DIRECTORY; s = *s ? s : NULL) {
		s += *s == '/';
		s += strcspn(s, "/");
		snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
		r = narrow(l, part, at, n);
	}
	return r;
}

/*
 * The layer that gives a directory its mode and time when layers are applied: of the n in at
 * (topmost first, from look_below()) the topmost that named it; or a lower one, if the lowest of
 * them only hides the directory's former contents. Returns the topmost if no layer named it, or
 * -errno.
 */
static ssize_t find_namer(const struct rootfs_layers *l, const char *path, size_t *at, size_t n)
{
	size_t first = at[0], lowest;
	int r;

	for (;;) {
		for (size_t i = 0; i < n; i++)
			if (!rootfs_layer_implies(&l->v[at[i]], path))
				return (ssize_t)at[i];
		lowest = at[n - 1];
		r = is_cut_off(&l->v[lowest], path);
		if (r == 0)
			r = look_below(l, lowest, path, at, &n) == DIRECTORY && n > 0 ? 0 : 1;
		if (r != 0)
			return r < 0 ? r : (ssize_t)first;
	}
}

/* Judge a directory that a layer used without naming it: does overlayfs show another mode or time
 * than the layers below? */
static int judge_implicit(const struct rootfs_layers *l, size_t top, const char *path, size_t *at)
{
	struct stat mine, theirs;
	ssize_t from;
	size_t n;
	int r = is_cut_off(&l->v[top], path);

	if (r != 0)
		return r < 0 ? r : ROOTFS_AS_IS;
	r = look_below(l, top, path, at, &n);
	if (r != DIRECTORY || n == 0)
		return r < 0 ? r : r == OTHER ? ROOTFS_FLAT : ROOTFS_AS_IS;
	from = find_namer(l, path, at, n);
	TRY((int)from);
	if (rootfs_layer_implies(&l->v[from], path))
		return ROOTFS_AS_IS; /* no layer ever named it */
	if (fstatat(l->v[top].fd, path, &mine, AT_SYMLINK_NOFOLLOW) < 0 ||
		fstatat(l->v[from].fd, path, &theirs, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return mine.st_mode != theirs.st_mode || mine.st_mtim.tv_sec != theirs.st_mtim.tv_sec ||
			mine.st_mtim.tv_nsec != theirs.st_mtim.tv_nsec
		? ROOTFS_COVERED
		: ROOTFS_AS_IS;
}

/* Judge whiteouts in a directory that no lower layer has: overlayfs merges nothing there, so it
 * lists their names. */
static int judge_hiding(const struct rootfs_layers *l, size_t top, const char *path, size_t *at)
{
	size_t n;
	int r = is_cut_off(&l->v[top], path);

	if (r == 0)
		r = look_below(l, top, path, at, &n);
	else if (r > 0)
		return ROOTFS_COVERED;
	TRY(r);
	return r != DIRECTORY || n == 0 ? ROOTFS_COVERED : ROOTFS_AS_IS;
}

/* Combine two judgements into the worse one; remember a path that needs a cover. */
static int add_judgement(int so_far, int more, const char *path, struct strv *cover)
{
	if (more == ROOTFS_COVERED)
		strv_add(cover, path);
	return more < 0 || more > so_far ? more : so_far;
}

static int judge_layer(const struct rootfs_layers *l, size_t top, size_t *at, struct strv *cover)
{
	const struct rootfs_layer *layer = &l->v[top];
	/* overlayfs always merges the tops */
	int r = top > 0 ? layer_opaque_is(layer->fd) : 0;

	if (r > 0)
		r = ROOTFS_FLAT;
	for (size_t i = 0; r >= 0 && r < ROOTFS_FLAT && top > 0 && i < layer->implicit.n; i++) {
		const char *path = layer->implicit.v[i];

		if (strcmp(path, ".") != 0) /* the root's own are the container's */
			r = add_judgement(r, judge_implicit(l, top, path, at), path, cover);
	}
	for (size_t i = 0; r >= 0 && r < ROOTFS_FLAT && i < layer->hiding.n; i++)
		r = add_judgement(
			r, judge_hiding(l, top, layer->hiding.v[i], at), layer->hiding.v[i], cover);
	return r;
}

/* The paths and all their parent directories, each once, parents first. */
static void with_parents(const struct strv *paths, struct strv *ret)
{
	auto_strv struct strv all = STRV_INIT;

	for (size_t i = 0; i < paths->n; i++)
		for (const char *s = paths->v[i]; s; s = *s ? s : NULL) {
			s += *s == '/';
			s += strcspn(s, "/");
			strv_addf(&all, "%.*s", (int)(s - paths->v[i]), paths->v[i]);
		}
	strv_sort(&all);
	for (size_t i = 0; i < all.n; i++)
		if (strcmp(all.v[i], ".") != 0 && (i == 0 || strcmp(all.v[i], all.v[i - 1]) != 0))
			strv_add(ret, all.v[i]);
}

/* Choose the cover's directories: those of the paths and their parents that the image shows. */
static int choose_cover(
	const struct rootfs_layers *l, const struct strv *paths, size_t *at, struct strv *cover)
{
	auto_strv struct strv dirs = STRV_INIT;
	size_t n;
	int r = 0;

	with_parents(paths, &dirs);
	for (size_t i = 0; r >= 0 && i < dirs.n; i++) {
		r = look_below(l, l->n, dirs.v[i], at, &n);
		if (r == DIRECTORY && n > 0)
			strv_add(cover, dirs.v[i]);
	}
	return r < 0 ? r : ROOTFS_COVERED;
}

static int judge(const struct rootfs_layers *l, size_t *at, struct strv *cover)
{
	auto_strv struct strv paths = STRV_INIT;
	int all = ROOTFS_AS_IS;

	for (size_t i = 0; all < ROOTFS_FLAT && i < l->n; i++) {
		int r = judge_layer(l, i, at, &paths);

		TRY(r);
		all = r > all ? r : all;
	}
	return all == ROOTFS_COVERED ? choose_cover(l, &paths, at, cover) : all;
}

int rootfs_stacking(
	struct store *st, const struct strv *diff_ids, struct strv *cover, struct mlr_error *err)
{
	auto_call(rootfs_layers_done) struct rootfs_layers l = { 0 };
	auto_free size_t *at = xcalloc(diff_ids->n, sizeof(*at));
	int r;

	TRY(rootfs_layers_open(st, diff_ids, &l, err));
	r = judge(&l, at, cover);
	if (r == -EACCES) /* flattening can read them */
		return ROOTFS_FLAT;
	return mlr_result(err, r, "look into the layers");
}

static int finish_dir(const struct rootfs_layers *l, const char *path, size_t *at, int root,
	struct mlr_error *err)
{
	auto_close int from = -1, to = -1;
	struct timespec ts[2];
	struct stat sb;
	ssize_t namer;
	size_t n;
	int r = look_below(l, l->n, path, at, &n);

	namer = r < 0 ? r : find_namer(l, path, at, n);
	if (namer < 0)
		return mlr_fail(err, (int)-namer, "look at '%s': %s", path, strerror((int)-namer));
	from = openat(l->v[namer].fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	to = openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0 || to < 0 || fstat(from, &sb) < 0)
		return mlr_fail_errno(err, "open directory '%s'", path);
	rootfs_place_xattrs(from, to);
	ts[0] = ts[1] = sb.st_mtim;
	if (futimens(to, ts) < 0 || fchmod(to, sb.st_mode & 07777) < 0)
		return mlr_fail_errno(err, "set mode and time of directory '%s'", path);
	return 0;
}

static int fill_cover(
	const struct rootfs_layers *l, const struct strv *dirs, int root, struct mlr_error *err)
{
	auto_free size_t *at = xcalloc(l->n, sizeof(*at));

	for (size_t i = 0; i < dirs->n; i++)
		if (mkdirat(root, dirs->v[i], 0700) < 0)
			return mlr_fail_errno(err, "create directory '%s'", dirs->v[i]);
	/* Children before parents, since making entries changes a directory's time. */
	for (size_t i = dirs->n; i-- > 0;)
		TRY(finish_dir(l, dirs->v[i], at, root, err));
	return 0;
}

int rootfs_cover(struct store *st, const char *manifest, const struct strv *diff_ids,
	const struct strv *dirs, struct mlr_error *err)
{
	return rootfs_tree_make(st, STORE_COVER, manifest, diff_ids, fill_cover, dirs, err);
}

/* Make the extra trees that the layers need. */
static int stack(struct store *st, const char *manifest, int one_tree, struct store_facts *f,
	struct mlr_error *err)
{
	auto_strv struct strv cover = STRV_INIT;
	int r = rootfs_stacking(st, &f->config.diff_ids, &cover, err);

	TRY(r);
	if (r == ROOTFS_FLAT || one_tree) {
		mlr_debug("one tree is made of the layers");
		f->formats |= STORE_FORMAT_DIR;
		return rootfs_flatten(st, manifest, &f->config.diff_ids, err);
	}
	f->formats |= STORE_FORMAT_LAYERS;
	f->covered = r == ROOTFS_COVERED;
	return f->covered ? rootfs_cover(st, manifest, &f->config.diff_ids, &cover, err) : 0;
}

int rootfs_image_stack(struct store *st, const char *manifest, int one_tree, struct store_facts *f,
	struct mlr_error *err)
{
	TRY(stack(st, manifest, one_tree, f, err));
	return store_open_dirs(st, manifest, f, &f->open, err);
}

/* The OCI media type, even if the layers were named by other types. */
static const char *media_type(const struct oci_layer *l, const char *diff_id)
{
	/* A layer named by its diff ID is not compressed, whatever its type says. */
	int is_plain = strcmp(l->blob.digest, diff_id) == 0;

	return oci_compression_type(is_plain ? OCI_PLAIN : l->compression);
}

static char *make_manifest(const struct rootfs_image *im, const struct oci_config *c)
{
	static char config_type[] = "application/vnd.oci.image.config.v1+json";
	auto_free struct oci_descriptor *layers = xcalloc(im->n + 1, sizeof(*layers));
	char digest[OCI_DIGEST_SIZE];
	struct oci_descriptor config = { digest, config_type, strlen(im->config) };

	hash_digest(im->config, strlen(im->config), digest);
	for (size_t i = 0; i < im->n; i++) {
		layers[i] = im->layers[i].blob;
		layers[i].media_type = (char *)media_type(&im->layers[i], c->diff_ids.v[i]);
	}
	return oci_manifest_write(&config, layers, im->n, NULL, 0);
}

static int put_blob(struct store *st, const char *text, struct mlr_error *err)
{
	char digest[OCI_DIGEST_SIZE];

	hash_digest(text, strlen(text), digest);
	return store_blob_put(st, digest, text, strlen(text), err);
}

static int put_name(struct store *st, const char *name, const char *manifest,
	const struct rootfs_image *im, const struct store_facts *f, struct store_image *ret,
	struct mlr_error *err)
{
	struct oci_platform p;
	char platform[OCI_PLATFORM_SIZE];

	oci_platform_set(&p, f->config.os, f->config.architecture, f->config.variant);
	oci_platform_print(&p, platform);
	ret->name = xstrdup(name ? name : manifest);
	ret->manifest = xstrdup(manifest);
	ret->platform = xstrdup(platform);
	ret->source = im->source ? xstrdup(im->source) : NULL;
	ret->pulled = time(NULL);
	for (size_t i = 0; i < im->n; i++)
		ret->size += im->layers[i].blob.size;
	return name ? store_image_put(st, ret, err) : 0;
}

int rootfs_image_put(struct store *st, const char *name, const struct rootfs_image *im,
	struct store_image *ret, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_free char *manifest = NULL;
	char digest[OCI_DIGEST_SIZE];

	TRY(oci_config_parse(im->config, strlen(im->config), &f.config, err));
	if (f.config.diff_ids.n != im->n)
		return mlr_fail(err, EPROTO, "the manifest has %zu layers, the configuration %zu",
			im->n, f.config.diff_ids.n);
	manifest = make_manifest(im, &f.config);
	hash_digest(manifest, strlen(manifest), digest);
	TRY(put_blob(st, manifest, err));
	TRY(put_blob(st, im->config, err));
	TRY(rootfs_image_stack(st, digest, im->one_tree, &f, err));
	TRY(store_facts_put(st, digest, &f, err));
	return put_name(st, name, digest, im, &f, ret, err);
}
