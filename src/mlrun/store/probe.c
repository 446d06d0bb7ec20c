#include "store/probe.h"

#include "base/base.h"
#include "store/json.h"
#include "store/process.h"

#define FILE_NAME "probe.json"

int store_probe_get(struct store *st, struct filesystem_probe *ret)
{
	struct filesystem_probe p = { .upper = -1 }; /* which older mlruns did not record */
	struct filesystem fs;
	json_auto_t *o = NULL;
	json_int_t type;

	/* A damaged file, or another version's, is replaced. */
	if (store_json_read(st, FILE_NAME, &o, NULL) < 0 ||
		json_unpack(o, "{s:I, s:b, s:b, s:b, s:i, s?i}", "fs_type", &type, "whiteouts",
			&p.whiteouts, "xattrs", &p.xattrs, "hard_links", &p.hard_links, "overlay",
			&p.overlay, "upper", &p.upper) < 0 ||
		filesystem_read(store_fd(st), &fs) < 0 || type != (json_int_t)fs.type)
		return -ENOENT;
	*ret = p;
	return 0;
}

static void put(struct store *st, const struct filesystem_probe *p)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct filesystem fs;
	json_auto_t *o = NULL;

	filesystem_read(store_fd(st), &fs);
	o = json_pack("{s:I, s:b, s:b, s:b, s:i, s:i}", "fs_type", (json_int_t)fs.type, "whiteouts",
		p->whiteouts, "xattrs", p->xattrs, "hard_links", p->hard_links, "overlay",
		p->overlay, "upper", p->upper);
	if (!o || store_json_write(st, FILE_NAME, o, &err) < 0)
		mlr_debug("probe: not recorded: %s", err.text);
}

/* The directory names its process, so that a killed process's can be swept. */
int store_probe_try(
	struct store *st, store_probe_fn probe, struct filesystem_probe *ret, struct mlr_error *err)
{
	auto_close int dir = -1;
	char path[STORE_WORK_PATH];
	int r;

	TRY(store_work_path("probe", path, err));
	if (mkdirat(store_fd(st), path, 0700) < 0)
		return mlr_fail_errno(err, "create directory '%s/%s'", store_path(st), path);
	dir = openat(store_fd(st), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir < 0 ? mlr_fail_errno(err, "open '%s/%s'", store_path(st), path)
		    : probe(dir, ret, err);
	file_remove_tree(store_fd(st), path, NULL);
	if (r == 0)
		put(st, ret);
	return r;
}
