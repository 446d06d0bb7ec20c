#include "rootfs/rootfs.h"

#include "oci/enroot.h"
#include "oci/name.h"
#include "oci/platform.h"
#include "rootfs/lookup.h"
#include "sif/sif.h"
#include "store/image.h"
#include "store/lease.h"
#include "store/probe.h"
#include "store/tree.h"

#define ENROOT_MAX (1u << 20) /* bytes of a file of Enroot's */
#define CONFIG_MAX (1u << 20) /* bytes of a SIF file's configuration */
#define TREES      (STORE_FORMAT_DIR | STORE_FORMAT_LAYERS)

static int plan_directory(const char *path, struct plan *p, struct mlr_error *err)
{
	auto_free char *real = realpath(path, NULL);
	struct stat st;

	if (!real)
		return mlr_fail_errno(err, "root directory '%s'", path);
	if (stat(real, &st) == 0 && !S_ISDIR(st.st_mode))
		return mlr_fail(err, ENOTDIR, "root directory '%s' is not a directory", path);
	strv_take(&p->lowers, take_ptr(&real));
	return 0;
}

/* A stranger may have written it; what is no configuration counts as missing. */
static void read_config(int fd, const struct sif_place *at, struct oci_config *ret)
{
	auto_free char *text = at->config_size <= CONFIG_MAX ? xmalloc(at->config_size + 1) : NULL;

	if (text &&
		pread(fd, text, at->config_size, (off_t)at->config_at) == (ssize_t)at->config_size)
		(void)oci_config_read_run(text, at->config_size, ret, NULL);
}

/* Plan a squashfs or SIF file that any user may have made. */
static int plan_file(
	const char *path, struct plan *p, struct oci_config *ret, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	auto_free char *skip = NULL;
	struct sif_place at;

	p->squashfs = fd < 0 ? NULL : realpath(path, NULL);
	if (!p->squashfs)
		return mlr_fail_errno(err, "squashfs image '%s'", path);
	TRY(sif_find(fd, path, &at, err));
	if (at.at > 0) {
		p->part = xasprintf("%" PRIu64 "+%" PRIu64, at.at, at.size);
		skip = xasprintf("-o %" PRIu64 " ", at.at);
	}
	read_config(fd, &at, ret);
	p->platform = at.architecture ? xasprintf("linux/%s", at.architecture) : NULL;
	if (at.is_signed)
		plan_remark_add(p, PLAN_FROM_IMAGE, "signatures in '%s' are not checked", path);
	p->as_trees = xasprintf(
		"make a tree of files of it: unsquashfs %s-d DIR %s && mlrun exec rootfs:DIR",
		skip ? skip : "", path);
	return 0;
}

/* The configuration that Enroot keeps in the files. Where they cannot be read, the start tells why.
 */
static void read_enroot(const struct plan *p, struct oci_config *ret)
{
	auto_free char *rc = NULL, *environment = NULL;

	if (rootfs_read(p, "/" OCI_ENROOT_RC, ENROOT_MAX, &rc, NULL) < 0 || !oci_enroot_is_rc(rc))
		return;
	oci_enroot_read_rc(rc, ret);
	if (rootfs_read(p, "/" OCI_ENROOT_ENVIRONMENT, ENROOT_MAX, &environment, NULL) == 0)
		oci_enroot_read_environment(environment, ret);
}

/* Plan a root that is not in a store. */
static int plan_path(enum oci_transport t, const char *path, struct plan *p, struct oci_config *ret,
	struct mlr_error *err)
{
	TRY(t == OCI_DIRECTORY ? plan_directory(path, p, err) : plan_file(path, p, ret, err));
	read_enroot(p, ret);
	return 0;
}

static int add_lower(struct store *st, enum store_tree_kind kind, const char *key, struct plan *p,
	struct mlr_error *err)
{
	auto_free char *rel = store_tree_relpath(kind, key);
	auto_free char *path = xasprintf("%s/%s", store_path(st), rel);

	TRY(store_tree_check(st, kind, key, err));
	/* An image may have one layer twice, but overlayfs rejects a directory that is given twice.
	 * The topmost hides the other. */
	if (!strv_has(&p->lowers, path))
		strv_take(&p->lowers, take_ptr(&path));
	return 0;
}

static int add_squash(struct store *st, const char *manifest, struct plan *p, struct mlr_error *err)
{
	auto_free char *rel = store_tree_relpath(STORE_SQUASH, manifest);

	TRY(store_tree_check(st, STORE_SQUASH, manifest, err));
	p->squashfs = xasprintf("%s/%s", store_path(st), rel);
	p->as_trees = xasprintf(
		"keep the image as a tree of files: mlrun pull --format=dir %s", p->image);
	return 0;
}

/* "1777 /var/tmp" */
static void add_open(const struct store_facts *f, struct plan *p)
{
	for (size_t i = 0; i < f->open.n; i++) {
		char *path;
		unsigned long mode = strtoul(f->open.v[i], &path, 8);

		if (strncmp(path, " /", 2) == 0)
			plan_open_add(p, path + 1, (mode_t)mode & 01777);
	}
}

/* Has a pull found that overlayfs rejects trees on this file system? */
static int overlay_fails(struct store *st)
{
	struct filesystem_probe p;

	return store_probe_get(st, &p) == 0 && p.overlay == 0;
}

/* Open the device: access(2) does not see that a mount or a cgroup forbids it. */
static int fuse_opens(void)
{
	auto_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	return fd >= 0;
}

static char *tell(enum store_format choice, const char *why, unsigned formats)
{
	auto_free char *others = store_format_names(formats & ~choice, ", ");

	return xasprintf("format %s%s%s%s", store_format_name(choice), why,
		*others ? "; also there: " : "", others);
}

/*
 * Choose among the formats in which the store keeps an image. Trees come before the squashfs file:
 * they start and read faster, and a store with both has them because the user asked for trees, too.
 * The squashfs file comes first if the store's file system cannot be a layer of overlayfs, unless
 * this user cannot open FUSE.
 *
 *   told  the choice in words, to free()
 */
static enum store_format choose(struct store *st, unsigned formats, char **told)
{
	enum store_format choice = formats & STORE_FORMAT_DIR ? STORE_FORMAT_DIR
		: formats & STORE_FORMAT_LAYERS               ? STORE_FORMAT_LAYERS
							      : STORE_FORMAT_SQUASHFS;
	const char *why = "";

	if ((formats & TREES) && (formats & STORE_FORMAT_SQUASHFS) && overlay_fails(st)) {
		if (fuse_opens()) {
			choice = STORE_FORMAT_SQUASHFS;
			why = ", as the store's file system cannot be a layer of overlayfs";
		} else {
			why = ", as /dev/fuse is closed to this user";
		}
	}
	*told = tell(choice, why, formats);
	return choice;
}

/* Add the trees of the root, topmost first. */
static int add_lowers(struct store *st, const char *manifest, const struct store_facts *f,
	struct plan *p, struct mlr_error *err)
{
	enum store_format format = choose(st, f->formats, &p->root_choice);

	if (format == STORE_FORMAT_SQUASHFS)
		return add_squash(st, manifest, p, err);
	add_open(f, p);
	if (format == STORE_FORMAT_DIR)
		return add_lower(st, STORE_DIR, manifest, p, err);
	if (f->covered)
		TRY(add_lower(st, STORE_COVER, manifest, p, err));
	for (size_t i = f->config.diff_ids.n; i-- > 0;)
		TRY(add_lower(st, STORE_LAYER, f->config.diff_ids.v[i], p, err));
	return 0;
}

int rootfs_plan_stored(struct store *st, const char *manifest, int lease, struct plan *p,
	struct store_facts *ret, struct mlr_error *err)
{
	const struct oci_config *c = &ret->config;
	struct oci_platform platform;
	char text[OCI_PLATFORM_SIZE];

	/* Take the lease first, so that nothing is removed while the facts are read. */
	if (lease)
		TRY(store_lease_take(st, manifest, err));
	TRY(store_facts_get(st, manifest, ret, err));
	TRY(add_lowers(st, manifest, ret, p, err));
	oci_platform_set(&platform, c->os, c->architecture, c->variant);
	oci_platform_print(&platform, text);
	p->platform = xstrdup(text);
	p->image_user = c->user && *c->user ? xstrdup(c->user) : NULL;
	return 0;
}

int rootfs_not_here(const struct stores *all, const char *image, struct mlr_error *err)
{
	mlr_fail(err, ENOENT, "not in the store '%s'%s", store_path(all->v[0]),
		all->n > 1 ? " nor in the additional ones" : "");
	if (strncmp(image, "sha256:", strlen("sha256:")) == 0)
		mlr_hint(err,
			"it had no registry's name, and went when its own had moved to another image");
	else
		mlr_hint(err, "mlrun pull %s", image);
	return -ENOENT;
}

static int plan_image(const struct stores *all, const struct oci_name *name, const char *text,
	int lease, struct plan *p, struct store_facts *ret, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	struct store *st;
	int r = stores_find(all, name, &st, &im, err);

	if (r == -ENOENT)
		return rootfs_not_here(all, text, err);
	return r < 0 ? r : rootfs_plan_stored(st, im.manifest, lease, p, ret, err);
}

int rootfs_plan(const char *store_dir, const struct config *c, const char *image, int lease,
	struct plan *p, struct store_facts *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(stores_close) struct stores all = { 0 };
	enum oci_transport t;
	const char *path;
	int r;

	p->image = xstrdup(image);
	t = oci_transport_of(image, &path);
	if (oci_transport_is_root(t))
		return plan_path(t, path, p, &ret->config, err);

	TRY(oci_name_parse(image, &name, err));
	r = stores_open(store_dir, c, &all, err);
	if (r == -ENOENT)
		return mlr_hint(err, "mlrun pull %s makes the store and fetches the image", image);
	TRY(r);
	return plan_image(&all, &name, image, lease, p, ret, err);
}
