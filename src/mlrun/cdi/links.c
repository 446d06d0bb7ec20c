#include "cdi/links.h"

#include "base/base.h"
#include "gpu/elf.h"

/* internal/discover/ldconfig.go */
static int is_library(const char *name)
{
	const char *so = strstr(name, ".so");

	return strncmp(name, "lib", 3) == 0 && so > name + 3 && (!so[3] || so[3] == '.');
}

static char *dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash > path ? xstrndup(path, (size_t)(slash - path)) : xstrdup("/");
}

/* The topmost entry that covers path. */
static const struct plan_mount *top_at(const struct plan *p, const char *path)
{
	const struct plan_mount *top = NULL;

	for (size_t i = 0; i < p->n_mounts; i++)
		if (plan_kind_covers(p->mounts[i].kind) && path_below(path, p->mounts[i].target))
			top = &p->mounts[i];
	return top;
}

/* Does path lie in a directory bound from the host, where nothing is created? */
static int is_on_host(struct cdi_job *job, const struct plan_mount *on, const char *path)
{
	auto_free char *host =
		on && on->source ? xasprintf("%s%s", on->source, path + strlen(on->target)) : NULL;
	struct stat st;

	if (!host || on->kind == PLAN_TMPFS)
		return 0;
	if (lstat(host, &st) < 0)
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"cannot make the link '%s' in the host's '%s'", path, on->source);
	return 1;
}

int cdi_link_add(struct cdi_job *job, const char *text, const char *where)
{
	auto_free char *absolute = xasprintf("/%s", where), *path = path_clean(absolute);

	strv_add(&job->links, path);
	strv_add(&job->links, text);
	if (is_on_host(job, top_at(job->p, path), path) ||
		cdi_is_planned(job->p, PLAN_SYMLINK, text, path))
		return 0;
	return plan_mount_add(
		job->p, PLAN_SYMLINK, text, path, PLAN_REPLACE, PLAN_FROM_CDI, job->err);
}

static int has_link(const struct cdi_job *job, const char *path)
{
	for (size_t i = 0; i < job->links.n; i += 2)
		if (strcmp(job->links.v[i], path) == 0)
			return 1;
	return 0;
}

/* Does the entry mount a host's library directly in folder? */
static int is_library_in(const struct plan_mount *m, const char *folder)
{
	auto_free char *dir = dir_of(m->target);

	return m->kind == PLAN_BIND && m->origin == PLAN_FROM_CDI && strcmp(dir, folder) == 0 &&
		is_library(path_base(m->target));
}

/* Add the link from a library's SONAME to its file, as ldconfig(8) would. */
static int add_soname_link(struct cdi_job *job, const struct plan_mount *m)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = GPU_ELF_INIT;
	auto_close int fd = open(m->source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* Copies: adding moves the entries. */
	auto_free char *dir = dir_of(m->target), *name = xstrdup(path_base(m->target)),
		       *path = NULL;

	if (fd < 0 || gpu_elf_read(fd, &elf) < 0 || !elf.soname || strchr(elf.soname, '/') ||
		strcmp(elf.soname, name) == 0)
		return 0;
	path = xasprintf("%s/%s", dir, elf.soname);
	return has_link(job, path) ? 0 : cdi_link_add(job, name, path);
}

int cdi_soname_links_add(struct cdi_job *job, const char *folder)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < job->p->n_mounts; i++)
		if (is_library_in(&job->p->mounts[i], folder))
			r = add_soname_link(job, &job->p->mounts[i]);
	return r;
}

/* Add a host's library, mounted at path, to the linker's cache. */
static void add_library(struct cdi_job *job, const char *source, const char *path)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = GPU_ELF_INIT;
	auto_close int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && gpu_elf_read(fd, &elf) == 0)
		plan_library_add(job->p, elf.soname ? elf.soname : path_base(path), path, elf.bits,
			PLAN_FROM_CDI);
}

/* Add the libraries in folder, which a mounted directory contains. */
static void add_libraries_below(struct cdi_job *job, const struct plan_mount *m, const char *folder)
{
	auto_free char *host = xasprintf("%s%s", m->source, folder + strlen(m->target));
	auto_call(gpu_dir_close) struct gpu_dir dir = GPU_DIR_INIT;
	auto_strv struct strv names = STRV_INIT;

	if (gpu_dir_open(host, &dir) < 0 || gpu_dir_list(&dir, "/", &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *source = xasprintf("%s/%s", host, names.v[i]);
		auto_free char *path = xasprintf("%s/%s", folder, names.v[i]);

		if (is_library(names.v[i]))
			add_library(job, source, path);
	}
}

/* Find one of the plan's libraries by its file name or SONAME; NULL. */
static const struct plan_library *find_library(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_libraries; i++)
		if (strcmp(path_base(p->libraries[i].path), name) == 0 ||
			strcmp(p->libraries[i].name, name) == 0)
			return &p->libraries[i];
	return NULL;
}

static void add_links(struct cdi_job *job, const char *folder)
{
	for (size_t i = 0; i < job->links.n; i += 2) {
		auto_free char *dir = dir_of(job->links.v[i]);
		const struct plan_library *l = strcmp(dir, folder) == 0
			? find_library(job->p, path_base(job->links.v[i + 1]))
			: NULL;

		if (l) {
			/* A copy: adding may move l. */
			auto_free char *path = xstrdup(l->path);

			plan_library_add(
				job->p, path_base(job->links.v[i]), path, l->bits, PLAN_FROM_CDI);
		}
	}
}

void cdi_libraries_add(struct cdi_job *job, const char *folder)
{
	for (size_t i = 0; i < job->p->n_mounts; i++) {
		const struct plan_mount *m = &job->p->mounts[i];

		if (is_library_in(m, folder))
			add_library(job, m->source, m->target);
		else if (m->kind == PLAN_BIND && m->origin == PLAN_FROM_CDI &&
			path_below(folder, m->target))
			add_libraries_below(job, m, folder);
	}
	add_links(job, folder);
}
