#include "exec/parts.h"

#include "runtime/accounts.h"

/* Directories that every image has, or gets. */
static const char *const usual[] = { "/dev", "/proc", "/sys", "/tmp", "/var/tmp" };

/* Does an earlier mount cover this target? */
static int is_covered(const struct plan *p, const char *target)
{
	for (size_t i = 0; i < p->n_mounts; i++)
		if (plan_kind_covers(p->mounts[i].kind) && path_below(target, p->mounts[i].target))
			return 1;
	return 0;
}

/* Cover the directory above a target with an empty one in memory, if it is empty too. Returns 1 if
 * it is covered. */
static int cover_parent(int root, const char *target, struct plan *p)
{
	auto_free char *path = xstrdup(target);
	auto_close int dir = -1;
	auto_strv struct strv names = STRV_INIT;

	while (dir < 0 && strrchr(path, '/') > path) {
		*strrchr(path, '/') = '\0';
		dir = file_open_in_root(root, path, O_RDONLY | O_DIRECTORY, 0);
	}
	return dir >= 0 && file_list(dir, ".", 0, &names) == 0 && names.n == 0 &&
		plan_mount_add(p, PLAN_TMPFS, NULL, path, 0, PLAN_FROM_DEFAULT, NULL) == 0;
}

/* Files of the host's, or in memory, are mounted: a copy would stay. */
static void mount_file(struct plan_mount *m)
{
	if (m->kind == PLAN_FILE)
		m->mode = 0644;
	if (m->kind == PLAN_FILE || m->kind == PLAN_COPY)
		m->flags |= PLAN_READONLY;
	if (m->kind == PLAN_COPY)
		m->kind = PLAN_BIND;
}

/* Returns 1 if the mount can be made, 0 if it is left out, or an error. */
static int find_place(int root, const struct plan_mount *m, struct plan *p, struct mlr_error *err)
{
	auto_close int there = file_open_in_root(root, m->target, O_PATH, 0);
	auto_free char *home = caller_home();
	int is_home = strcmp(m->target, p->id.home) == 0 ||
		(home && m->source && strcmp(m->target, home) == 0);

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (path_below(m->target, usual[i]))
			return 1;
	if (there >= 0 || is_covered(p, m->target) ||
		(m->origin != PLAN_FROM_DEFAULT && m->origin != PLAN_FROM_USER))
		return 1;
	if (m->kind != PLAN_COPY && m->kind != PLAN_FILE && cover_parent(root, m->target, p))
		return 1;
	if (m->origin == PLAN_FROM_DEFAULT || is_home) {
		plan_remark_add(p, PLAN_FROM_DEFAULT, "'%s' is not in the image, and not mounted",
			m->target);
		return 0;
	}
	mlr_fail(err, ENOENT, "mount on '%s': it is not in the image, which is written to",
		m->target);
	return mlr_hint(err, "mkdir -p '%s%s' makes a place for it", p->lowers.v[0], m->target);
}

/* The image's own files of users and groups stay as they are. */
static int mount_accounts(int root, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < ACCOUNTS_FILES; i++) {
		const struct accounts_file *f = &accounts_files[i];
		auto_close int dir = file_open_in_root(root, "/etc", O_PATH | O_DIRECTORY, 0);
		auto_free char *old = dir < 0 ? NULL : accounts_read(dir, basename(f->path));
		auto_free char *text = old ? f->make(old, &p->id) : NULL;

		if (text)
			TRY(plan_file_mount(
				p, text, strlen(text), 0644, f->path, PLAN_FROM_DEFAULT, err));
	}
	free(p->id.name);
	p->id.name = NULL;
	return 0;
}

int in_place_plan(struct plan *p, struct mlr_error *err)
{
	auto_close int root = open(p->lowers.v[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_call(plan_done) struct plan all;

	plan_init(&all);
	plan_mounts_move(p, &all);
	TRY(root < 0 ? mlr_fail_errno(err, "'%s'", p->lowers.v[0]) : mount_accounts(root, p, err));
	while (all.n_mounts > 0) {
		int r = find_place(root, &all.mounts[0], p, err);

		TRY(r);
		if (r == 0) {
			plan_mount_drop(&all, 0);
			continue;
		}
		mount_file(&all.mounts[0]);
		p->mounts = xgrow(p->mounts, p->n_mounts, sizeof(*p->mounts));
		p->mounts[p->n_mounts++] = all.mounts[0];
		memmove(all.mounts, all.mounts + 1, --all.n_mounts * sizeof(*all.mounts));
	}
	return 0;
}
