/* Where the containers of RUN write: in the store, or on a local disk where the store's file system
 * cannot hold an overlay's upper layer, as NFS, Lustre and FUSE cannot. */
#include "build/parts.h"
#include "exec/exec.h"
#include "runtime/probe.h"
#include "store/process.h"

#define PREFIX "mlrun-build."

/* Remove what killed builds left. */
static void sweep(const char *base, struct store *st, const struct store_process *self)
{
	auto_strv struct strv names = STRV_INIT;

	file_list(AT_FDCWD, base, 0, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("%s/%s", base, names.v[i]);
		struct store_process p;
		struct stat sb;

		if (strncmp(names.v[i], PREFIX, strlen(PREFIX)) == 0 &&
			store_process_parse(names.v[i] + strlen(PREFIX), &p) == 0 &&
			store_process_judge(st, &p, self) == 0 && lstat(path, &sb) == 0 &&
			sb.st_uid == geteuid())
			file_remove_tree(AT_FDCWD, path, NULL);
	}
}

static int try_place(struct build *b, const char *base, const struct store_process *self)
{
	char name[STORE_PROCESS_NAME];
	auto_free char *path = NULL;
	auto_close int dir = -1;
	struct filesystem_probe p;

	sweep(base, b->o->st, self);
	store_process_name(self, name);
	path = xasprintf("%s/" PREFIX "%s", base, name);
	if (mkdir(path, 0700) < 0)
		return -errno;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || runtime_probe(dir, &p, NULL) < 0 || p.upper == 0 ||
		store_open(path, 1, &b->containers, NULL) < 0) {
		file_remove_tree(AT_FDCWD, path, NULL);
		return -ENOTSUP;
	}
	mlr_debug("RUN writes in '%s', as the store's file system holds no upper layer", path);
	return 0;
}

int build_places_open(struct build *b, struct mlr_error *err)
{
	/* Other containers of the user's have /tmp and /dev/shm. */
	const char *const bases[] = { getenv("TMPDIR"), "/var/tmp", "/tmp", "/dev/shm" };
	struct store_process self;

	b->containers = b->o->st;
	if (exec_store_keeps(b->o->st) || store_process_self(&self) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(bases); i++)
		if (bases[i] && bases[i][0] == '/' && try_place(b, bases[i], &self) == 0)
			return 0;
	mlr_fail(err, ENOTSUP,
		"neither store '%s' nor $TMPDIR, /var/tmp, /tmp and /dev/shm can hold what a RUN writes",
		store_path(b->o->st));
	return mlr_hint(err, "set TMPDIR to a directory on a local disk");
}

void build_places_close(struct build *b)
{
	if (!b->containers || b->containers == b->o->st)
		return;

	auto_free char *path = xstrdup(store_path(b->containers));

	store_close(b->containers);
	file_remove_tree(AT_FDCWD, path, NULL);
}
