#include "pull/format.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/filesystem.h"
#include "base/log.h"
#include "base/memory.h"
#include "squashfs/writer.h"
#include "store/json.h"
#include "store/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PROBE_FILE "probe.json"

static char *why_not_layers(const struct filesystem *fs, const struct format_probe *p)
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
	const struct filesystem *fs, const struct format_probe *p, int can_write, char **why)
{
	*why = why_not_layers(fs, p);
	return *why && can_write ? STORE_FORMAT_SQUASHFS : STORE_FORMAT_LAYERS;
}

/* Read the earlier results, if they are of this very file system. */
static int recall(struct store *st, unsigned long fs_type, struct format_probe *ret)
{
	json_auto_t *o = NULL;
	int overlay;
	json_int_t type;

	/* If it is damaged or of another version, it is rewritten. */
	if (store_json_read(st, PROBE_FILE, &o, NULL) < 0 ||
		json_unpack(o, "{s:I, s:b, s:b, s:b, s:i}", "fs_type", &type, "whiteouts",
			&ret->whiteouts, "xattrs", &ret->xattrs, "hard_links", &ret->hard_links,
			"overlay", &overlay) < 0)
		return 0;
	ret->overlay = overlay;
	return (unsigned long)type == fs_type;
}

static void record(struct store *st, unsigned long fs_type, const struct format_probe *p)
{
	struct mlr_error err = MLR_ERROR_INIT;
	json_auto_t *o = json_pack("{s:I, s:b, s:b, s:b, s:i}", "fs_type", (json_int_t)fs_type,
		"whiteouts", p->whiteouts, "xattrs", p->xattrs, "hard_links", p->hard_links,
		"overlay", p->overlay);

	if (!o || store_json_write(st, PROBE_FILE, o, &err) < 0)
		mlr_debug("probe: not recorded: %s", err.text); /* try again next time */
}

/* Probe in a directory that names its process, so that a killed process's directory can be
 * swept. */
static int try_out(
	struct store *st, format_probe_fn probe, struct format_probe *ret, struct mlr_error *err)
{
	auto_close int dir = -1;
	char path[STORE_WORK_PATH];
	int r = store_work_path("probe", path, err);

	if (r < 0)
		return r;
	if (mkdirat(store_fd(st), path, 0700) < 0)
		return mlr_fail_errno(err, "create directory '%s/%s'", store_path(st), path);
	dir = openat(store_fd(st), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir < 0 ? mlr_fail_errno(err, "open '%s/%s'", store_path(st), path)
		    : probe(dir, ret, err);
	file_remove_tree(store_fd(st), path, NULL);
	return r;
}

static int find_out(struct store *st, format_probe_fn probe, unsigned long fs_type,
	struct format_probe *ret, struct mlr_error *err)
{
	int r = try_out(st, probe, ret, err);

	if (r < 0)
		return mlr_wrap(err, "try out the file system of '%s'", store_path(st));
	record(st, fs_type, ret);
	return 0;
}

int format_choose(struct store *st, format_probe_fn probe, enum store_format *ret, char **told,
	struct mlr_error *err)
{
	auto_free char *why = NULL;
	struct format_probe p = { 0 };
	struct filesystem fs;
	int known, r;

	*told = NULL;
	r = filesystem_read(store_fd(st), &fs);
	if (r < 0)
		return mlr_fail(err, -r, "ask for the file system of '%s': %s", store_path(st),
			strerror(-r));
	known = recall(st, fs.type, &p);
	if (!known) {
		r = find_out(st, probe, fs.type, &p, err);
		if (r < 0)
			return r;
	}
	*ret = format_judge(&fs, &p, squashfs_writer_available(), &why);
	if (why)
		mlr_debug("format %s for store '%s': %s", store_format_name(*ret), store_path(st),
			why);
	if (why && !known)
		*told = xasprintf(*ret == STORE_FORMAT_SQUASHFS
				? "store '%s' keeps images as one squashfs file each: %s"
				: "store '%s' would better keep images as squashfs files, which this mlrun was "
				  "built without: %s",
			store_path(st), why);
	return 0;
}
