#include "store/probe.h"

#include "store/json.h"
#include "store/process.h"

#define FILE_NAME "probe.json"

struct kept {
	uint64_t type; /* the file system's */
	struct filesystem_probe p;
};

#define AT(member) RECORD_AT(struct kept, member)

static const struct record_row rows[] = {
	{ "fs_type", RECORD_NUMBER, AT(type), .flags = RECORD_MUST },
	{ "whiteouts", RECORD_FLAG, AT(p.whiteouts), .flags = RECORD_MUST },
	{ "xattrs", RECORD_FLAG, AT(p.xattrs), .flags = RECORD_MUST },
	{ "hard_links", RECORD_FLAG, AT(p.hard_links), .flags = RECORD_MUST },
	{ "overlay", RECORD_NUMBER, AT(p.overlay), .flags = RECORD_MUST, .min = -1 },
	{ "upper", RECORD_NUMBER, AT(p.upper), .min = -1 },
	{ NULL },
};

int store_probe_get(struct store *st, struct filesystem_probe *ret)
{
	struct kept k = { .p = { .upper = -1 } }; /* which older mlruns did not record */
	struct filesystem fs;

	/* A damaged file, or another version's, is replaced. */
	if (store_json_take(st, FILE_NAME, rows, &k, NULL) < 0 ||
		filesystem_read(store_fd(st), &fs) < 0 || k.type != fs.type)
		return -ENOENT;
	*ret = k.p;
	return 0;
}

static void put(struct store *st, const struct filesystem_probe *p)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct filesystem fs;
	struct kept k = { .p = *p };

	filesystem_read(store_fd(st), &fs);
	k.type = fs.type;
	if (store_json_put(st, FILE_NAME, rows, &k, &err) < 0)
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
