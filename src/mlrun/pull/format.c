#include "pull/format.h"

#include "squashfs/writer.h"

static char *why_not_layers(const struct filesystem *fs, const struct filesystem_probe *p)
{
	if (fs->quirks & FILESYSTEM_SERVERS)
		return xasprintf("it lies on %s", fs->name);
	if (!p->whiteouts)
		return xstrdup("its file system allows no whiteouts (character devices 0:0)");
	if (!p->xattrs)
		return xstrdup("its file system keeps no user extended attributes");
	if (p->overlay == 0)
		return xstrdup("its file system cannot be a layer of overlayfs");
	return NULL;
}

enum store_format format_judge(
	const struct filesystem *fs, const struct filesystem_probe *p, int can_squash, char **why)
{
	*why = why_not_layers(fs, p);
	if (*why && can_squash)
		return STORE_FORMAT_SQUASHFS;
	/* One tree needs neither an overlay nor FUSE. */
	return p->whiteouts && p->xattrs && p->overlay != 0 ? STORE_FORMAT_LAYERS
							    : STORE_FORMAT_DIR;
}

static char *tell(const struct store *st, enum store_format f, const char *why)
{
	if (f == STORE_FORMAT_SQUASHFS)
		return xasprintf("store '%s' keeps images as one squashfs file each: %s",
			store_path(st), why);
	return xasprintf("store '%s' keeps images as %s: %s, and %s", store_path(st),
		f == STORE_FORMAT_DIR ? "one tree each" : "layers", why,
		squashfs_writer_available() ? "/dev/fuse, which squashfs files need, is closed here"
					    : "this mlrun was built without squashfs");
}

int format_choose(struct store *st, store_probe_fn probe, enum store_format *ret, char **told,
	struct mlr_error *err)
{
	auto_free char *why = NULL;
	struct filesystem_probe p = { 0 };
	struct filesystem fs;
	int r = filesystem_read(store_fd(st), &fs), known;

	*told = NULL;
	if (r < 0)
		return mlr_result(err, r, "ask for the file system of '%s'", store_path(st));
	known = store_probe_get(st, &p) == 0;
	if (!known)
		r = store_probe_try(st, probe, &p, err);
	if (r < 0)
		return mlr_wrap(err, "try out the file system of '%s'", store_path(st));
	*ret = format_judge(&fs, &p,
		squashfs_writer_available() && access("/dev/fuse", R_OK | W_OK) == 0, &why);
	if (why)
		mlr_debug("format %s for store '%s': %s", store_format_name(*ret), store_path(st),
			why);
	if (why && !known)
		*told = tell(st, *ret, why);
	return 0;
}
