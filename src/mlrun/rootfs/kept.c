#include "rootfs/kept.h"

#include "oci/digest.h"
#include "oci/name.h"
#include "rootfs/rootfs.h"
#include "store/container.h"
#include "store/image.h"

/* The user's wish, and the findings. */
struct kept {
	const struct rootfs_kept_wish *wish;
	const char *text; /* the image as the user wrote it */
	struct oci_name image;
	struct stores all;
	struct store *made_own;     /* a store made for a user without one */
	struct store *own;          /* the user's; NULL if there is none */
	struct store_image found;   /* the image that its name means now; name is NULL if none */
	char *name;                 /* the container's */
	struct store_container was; /* the container's record; name is NULL if there is none */
};

static void kept_done(struct kept *k)
{
	oci_name_done(&k->image);
	stores_close(&k->all);
	store_close(k->made_own);
	store_image_done(&k->found);
	store_container_done(&k->was);
	free(k->name);
}

char *rootfs_kept_name(const struct oci_ref *ref)
{
	const char *base = path_base(ref->repository);
	size_t room = STORE_CONTAINER_NAME_MAX - 1;
	char *name;

	if (ref->tag && strcmp(ref->tag, "latest") != 0)
		name = xasprintf("%s-%s", base, ref->tag);
	else if (!ref->tag && ref->digest)
		name = xasprintf("%s-%.12s", base, oci_digest_hex(ref->digest));
	else
		name = xstrdup(base);
	if (strlen(name) > room)
		name[room] = '\0';
	return name;
}

const char *rootfs_kept_of(const char *image)
{
	static const char prefix[] = "container:";

	return strncmp(image, prefix, strlen(prefix)) == 0 && image[strlen(prefix)]
		? image + strlen(prefix)
		: NULL;
}

static int refuse_directory(const char *path, struct mlr_error *err)
{
	mlr_fail(err, ENOTSUP,
		"--write keeps what is written on top of an image, which stays as it is, and this is "
		"a plain directory");
	return mlr_hint(
		err, "tar -C '%s' -cf - . | mlrun import - NAME makes an image of it", path);
}

/* --- a squashfs file in place of an image of the store -------------------------------------- */

static const char *file_of(const char *image)
{
	const char *path;

	return oci_transport_of(image, &path) == OCI_SQUASHFS ? path : NULL;
}

/* Make a key in place of the digest of such a file, which would take seconds to hash: changes with
 * its size and time. */
static int identify(const char *path, char ret[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	auto_free char *text = NULL;
	struct stat st;

	if (stat(path, &st) < 0)
		return mlr_fail_errno(err, "squashfs image '%s'", path);
	text = xasprintf("%lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec);
	memcpy(ret, "sha256:", 7);
	hash_name(text, ret + 7);
	return 0;
}

/* An overlay whose lower layer is another file than before would be damaged. */
static int plan_file(const struct kept *k, const char *image, const char *manifest, struct plan *p,
	struct store_facts *ret, struct mlr_error *err)
{
	char digest[OCI_DIGEST_SIZE];

	if (identify(file_of(image), digest, err) < 0)
		return mlr_wrap(err, "container '%s' is made of a file", k->name);
	if (strcmp(digest, manifest) != 0) {
		mlr_fail(err, ENXIO, "container '%s' is made of '%s', which has changed since",
			k->name, file_of(image));
		return mlr_hint(err,
			"bring the old file back, or give the new one another container; mlrun "
			"containers rm %s removes this one",
			k->name);
	}
	free(p->image);
	return rootfs_plan(NULL, NULL, image, 0, p, ret, err);
}

/* --- the image ------------------------------------------------------------------------------ */

static int open_stores(
	const char *dir, const struct config *c, int use, struct kept *k, struct mlr_error *err)
{
	int r = stores_open(dir, c, &k->all, err);

	if (r == -ENOENT && !rootfs_kept_of(k->text))
		return mlr_hint(
			err, "mlrun pull %s makes the store and fetches the image", k->text);
	TRY(r);
	if (k->all.has_own) {
		k->own = k->all.v[0];
	} else if (use) {
		r = store_open(dir, 1, &k->made_own, err);
		k->own = k->made_own;
	}
	return r;
}

/* Choose the container's name. If the image's name is gone while its container remains, the user
 * must give it. */
static int settle_name(struct kept *k, const char *name, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	int r;

	if (*name) {
		k->name = xstrdup(name);
		return store_container_name_check(name, err);
	}
	if (k->found.name)
		r = oci_ref_parse(k->found.name, &ref, err);
	else if (k->image.transport == OCI_REGISTRY)
		r = (oci_ref_copy(&k->image.ref, &ref), 0);
	else
		return rootfs_not_here(&k->all, k->text, err);
	if (r == 0)
		k->name = rootfs_kept_name(&ref);
	return r;
}

/* Did the user write the container's image name? */
static int names_it(const struct kept *k)
{
	auto_call(oci_ref_done) struct oci_ref local = { 0 };
	auto_free char *plain = NULL, *own = NULL;

	if (k->found.name && strcmp(k->found.name, k->was.image) == 0)
		return 1;
	if (k->image.transport != OCI_REGISTRY)
		return 0;
	plain = oci_ref_canonical(&k->image.ref);
	oci_ref_copy(&k->image.ref, &local);
	oci_ref_make_local(&local);
	own = oci_ref_canonical(&local);
	return strcmp(plain, k->was.image) == 0 || strcmp(own, k->was.image) == 0;
}

/* An existing container continues with its own image. */
static int check_image(const struct kept *k, struct plan *p, struct mlr_error *err)
{
	int same = k->found.name && strcmp(k->found.manifest, k->was.manifest) == 0;

	if (same)
		return 0;
	if (!names_it(k)) {
		mlr_fail(
			err, EEXIST, "container '%s' is made of image '%s'", k->name, k->was.image);
		return mlr_hint(err,
			"mlrun exec --write=OTHER-NAME %s makes another; mlrun containers rm %s "
			"removes this one",
			k->text, k->name);
	}
	if (k->found.name)
		strv_addf(&p->notes,
			"container '%s' keeps the image that it was made of, %.19s…; '%s' is another "
			"one by now",
			k->name, k->was.manifest, k->was.image);
	return 0;
}

/* A file that is to stand for an image of the store. */
static int find_file(const char *dir, const char *path, const char *name, int use, struct kept *k,
	struct plan *p, struct mlr_error *err)
{
	auto_free char *real = realpath(path, NULL);
	char digest[OCI_DIGEST_SIZE];
	int r;

	if (!*name)
		return mlr_fail(err, EINVAL, "--write=NAME: a file does not name a container");
	if (!real)
		return mlr_fail_errno(err, "squashfs image '%s'", path);
	TRY(identify(real, digest, err));
	TRY(store_container_name_check(name, err));
	k->image.transport = OCI_SQUASHFS;
	k->name = xstrdup(name);
	k->found.name = xasprintf("%s%s", oci_transport_prefix(OCI_SQUASHFS), real);
	k->found.manifest = xstrdup(digest);
	r = store_open(dir, use, &k->made_own, err); /* nothing need have been pulled into it */
	k->own = k->made_own;
	if (r == 0)
		r = store_container_get(k->own, name, &k->was, err);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : check_image(k, p, err);
}

/* "container:NAME": the container with its own image. */
static int find_itself(struct kept *k, const char *name, struct mlr_error *err)
{
	k->name = xstrdup(name);
	if (!k->own)
		return mlr_fail(err, ENOENT, "there is no container '%s'", name);
	return store_container_get(k->own, name, &k->was, err);
}

static int find(const char *dir, const struct config *c, const char *name, int use, struct kept *k,
	struct plan *p, struct mlr_error *err)
{
	struct store *st;
	int r;

	TRY(open_stores(dir, c, use, k, err));
	if (rootfs_kept_of(k->text))
		return find_itself(k, name, err);
	r = stores_find(&k->all, &k->image, &st, &k->found, err);

	if (r < 0 && r != -ENOENT)
		return r;
	TRY(settle_name(k, name, err));
	r = k->own ? store_container_get(k->own, k->name, &k->was, err) : -ENOENT;
	if (r == -ENOENT)
		return k->found.name ? 0 : rootfs_not_here(&k->all, k->text, err);
	return r < 0 ? r : check_image(k, p, err);
}

int rootfs_kept_hint(
	const char *image, const char *manifest, const char *options, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };

	if (oci_ref_parse(image, &ref, NULL) < 0 || strcmp(ref.registry, "localhost") == 0)
		return mlr_hint(err,
			"no registry has it: mlrun import %sFILE %s brings it from the file that it "
			"came from",
			options, image);
	return mlr_hint(
		err, "mlrun pull %s%s/%s@%s", options, ref.registry, ref.repository, manifest);
}

static int is_gone(const char *name, const char *image, const char *manifest, struct mlr_error *err)
{
	mlr_fail(err, ENXIO,
		"the image that container '%s' is made of, %s, is no longer in the store", name,
		manifest);
	return rootfs_kept_hint(image, manifest, "", err);
}

int rootfs_kept_image(const struct stores *all, const char *name, const char *image,
	const char *manifest, struct store **st, struct store_facts *ret, struct mlr_error *err)
{
	if (file_of(image)) {
		mlr_fail(err, ENOTSUP,
			"container '%s' is made of a file, not of an image of the store", name);
		return mlr_hint(
			err, "mlrun export --format=squashfs container:%s FILE saves it", name);
	}
	for (size_t i = 0; i < all->n; i++) {
		int r = store_facts_get(all->v[i], manifest, ret, err);

		if (r == 0)
			*st = all->v[i];
		if (r != -ENOENT)
			return r;
	}
	return is_gone(name, image, manifest, err);
}

/* Plan the image below the kept layer. */
static int plan_image(struct kept *k, const char *image, const char *manifest, int use,
	struct plan *p, struct store_facts *ret, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts look = { 0 };
	struct store *st;

	if (file_of(image))
		return plan_file(k, image, manifest, p, ret, err);
	TRY(rootfs_kept_image(&k->all, k->name, image, manifest, &st, &look, err));
	return rootfs_plan_stored(st, manifest, use, p, ret, err);
}

static int plan_share(struct kept *k, struct plan *p, struct mlr_error *err)
{
	struct stat st;

	if (fstat(store_fd(k->own), &st) < 0)
		return mlr_fail_errno(err, "store '%s'", store_path(k->own));
	/* Identify the container by inode: several paths may lead to the store. */
	set_ptr(&p->share,
		xasprintf("container %llu:%llu %s", (unsigned long long)st.st_dev,
			(unsigned long long)st.st_ino, k->name));
	p->kept = store_container_path(k->own, k->name);
	return 0;
}

/* Is it as the user said? */
static int check_how(const struct kept *k, struct mlr_error *err)
{
	const struct rootfs_kept_wish *w = k->wish;
	int is_ours = w->step && k->was.step && strcmp(w->step, k->was.step) == 0;

	if (w->how == ROOTFS_KEPT_NEW && k->was.name && !is_ours) {
		mlr_fail(err, EEXIST, "container '%s' exists already", k->name);
		return mlr_hint(err, "another name; or mlrun containers rm %s removes it", k->name);
	}
	if (w->how == ROOTFS_KEPT_RUNNING &&
		(!k->was.name || !store_container_is_joined(k->own, k->name))) {
		mlr_fail(err, ESRCH, "container '%s' is not running on this node", k->name);
		return mlr_hint(err, "mlrun ps lists what runs, mlrun containers what there is");
	}
	return 0;
}

static int open_container(struct kept *k, const char *image, const char *manifest, struct plan *p,
	struct mlr_error *err)
{
	const char *job = k->wish->job;
	const struct store_container new = { .image = (char *)image,
		.manifest = (char *)manifest,
		.job = job && *job ? (char *)job : NULL,
		.step = (char *)k->wish->step };
	auto_call(store_container_done) struct store_container c = { 0 };
	int made = 0;

	if (!k->was.name && k->wish->can_hold && !k->wish->can_hold(k->own)) {
		mlr_fail(err, ENOTSUP,
			"the file system of store '%s' cannot hold what a container writes, as NFS and Lustre cannot",
			store_path(k->own));
		return mlr_hint(err,
			"MLRUN_STORE or --store names a store on a local disk; without --write, what is written ends with the command");
	}
	TRY(store_container_open(k->own, k->name, &new, &c, &made, err));
	if (strcmp(c.manifest, manifest) != 0) { /* remade meanwhile */
		mlr_fail(err, EEXIST, "container '%s' is made of image '%s' since just now",
			k->name, c.image);
		return mlr_hint(err, "start again");
	}
	if (made && job && *job)
		plan_remark_add(p, PLAN_FROM_USER, "container '%s' ends with job %s", k->name, job);
	else if (made && !job)
		strv_addf(&p->notes, "container '%s' is new and keeps what is written", k->name);
	else
		plan_remark_add(p, PLAN_FROM_USER, "container '%s' keeps what is written", k->name);
	return 0;
}

int rootfs_kept_plan(const char *store_dir, const struct config *c, const char *image,
	const struct rootfs_kept_wish *wish, int use, struct plan *p, struct store_facts *ret,
	struct mlr_error *err)
{
	auto_call(kept_done) struct kept k = {
		.wish = wish, .text = image, .image = OCI_NAME_INIT, .all = { 0 }
	};
	const char *of, *manifest, *path;
	enum oci_transport t;
	int r;

	p->root = PLAN_ROOT_KEPT;
	p->image = xstrdup(image);
	t = oci_transport_of(image, &path);
	if (t == OCI_DIRECTORY)
		return refuse_directory(path, err);
	r = t == OCI_SQUASHFS || rootfs_kept_of(image) ? 0 : oci_name_parse(image, &k.image, err);
	if (r == 0 && t == OCI_SQUASHFS)
		r = find_file(store_dir, path, wish->name, use, &k, p, err);
	else if (r == 0)
		r = find(store_dir, c, wish->name, use, &k, p, err);
	if (r == 0 && use)
		r = check_how(&k, err);
	TRY(r);
	of = k.was.name ? k.was.image : k.found.name;
	manifest = k.was.name ? k.was.manifest : k.found.manifest;
	/* Lease the image before the container is made, which needs it. */
	r = plan_image(&k, of, manifest, use, p, ret, err);
	if (r == 0 && use)
		r = open_container(&k, of, manifest, p, err);
	return r == 0 && k.own ? plan_share(&k, p, err) : r;
}
