#include "gpu/nvidia/nvidia.h"

#include "gpu/elf.h"
#include "gpu/nvidia/table.h"

#include <elf.h>

#define WSL_LIB   "/usr/lib/wsl/lib"
#define WSL_STORE "/usr/lib/wsl/drivers"

#if defined(__x86_64__)
#define MACHINE_64 EM_X86_64
#define MACHINE_32 EM_386
#elif defined(__aarch64__)
#define MACHINE_64 EM_AARCH64
#define MACHINE_32 EM_ARM
#elif defined(__powerpc64__)
#define MACHINE_64 EM_PPC64
#define MACHINE_32 EM_PPC
#else
#define MACHINE_64 EM_NONE
#define MACHINE_32 EM_NONE
#endif

/* The search for libraries of one number of bits. m->files[first + i] needs needed[i]. */
struct search {
	const struct gpu_places *places;
	struct gpu_machine *m;
	int bits;
	size_t first;
	struct strv *needed;
	size_t n_needed;
	int changed; /* a file was added or gained a capability */
};

static void search_done(struct search *s)
{
	free_all(s->needed, s->n_needed, strv_done);
}

static int starts_with(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Does name end in "." version, like "libcuda.so.535.104.05"? */
static int ends_in_version(const char *name, const char *version)
{
	size_t len = strlen(name), v = strlen(version);

	return len > v + 1 && name[len - v - 1] == '.' && strcmp(name + len - v, version) == 0;
}

/* Read a library; refuse other machines' kinds. */
static int read_library(int fd, int bits, const char *path, struct gpu_elf *e)
{
	if (gpu_elf_read(fd, e) < 0) {
		mlr_debug("'%s' is not an ELF library, ignoring", path);
		return 0;
	}
	return e->bits == bits && e->machine == (bits == 32 ? MACHINE_32 : MACHINE_64);
}

static struct gpu_file *find_path(struct gpu_machine *m, const char *path)
{
	for (size_t i = 0; i < m->n_files; i++)
		if (m->files[i].kind == GPU_LIBRARY && strcmp(m->files[i].path, path) == 0)
			return &m->files[i];
	return NULL;
}

/* "libnvidia-ml.so" for "libnvidia-ml.so.535.104.05", to free(); NULL: nothing follows ".so". */
static char *without_numbers(const char *name)
{
	const char *end = strstr(name, ".so.");

	return end ? xstrndup(name, (size_t)(end + 3 - name)) : NULL;
}

/* Does name in a place link to this library? Most libraries have no link, or one from the SONAME,
 * and that is cheap to see. */
static int leads_to(const struct search *s, const struct gpu_place *at, const char *link,
	const char *real, const char *soname)
{
	auto_free char *path = NULL, *end = NULL;
	char text[PATH_MAX];
	ssize_t n = readlinkat(at->fd, link, text, sizeof(text) - 1);

	if (n < 0)
		return 0;
	text[n] = '\0';
	if (strcmp(text, path_base(real)) == 0 || (soname && strcmp(text, soname) == 0))
		return 1;
	path = xasprintf("%s/%s", at->path, link);
	end = gpu_dir_resolve(&s->places->dir, path, NULL);
	return end && strcmp(end, real) == 0;
}

/*
 * The name without numbers by which programs open a library, if the machine has it as a link to
 * this one (CDI: internal/discover/symlinks.go) or every machine should have it.
 */
static char *dev_link_of(const struct search *s, const char *real, const char *soname)
{
	const char *always = gpu_table_link(path_base(real));
	auto_free char *plain = without_numbers(path_base(real));

	if (always)
		return xstrdup(always);
	/* Debian has the links in another directory than the files. */
	for (size_t i = 0; plain && i < s->places->n; i++)
		if (s->places->v[i].bits == s->bits &&
			leads_to(s, &s->places->v[i], plain, real, soname))
			return take_ptr(&plain);
	return NULL;
}

static void bring_by(struct search *s, struct gpu_file *f, unsigned caps)
{
	s->changed |= (f->caps & caps) != caps;
	f->caps |= caps;
}

/* Add a library to the files. path is resolved and below the root; the file takes e's strings. */
static struct gpu_file *add(
	struct gpu_machine *m, const char *root, const char *path, unsigned caps, struct gpu_elf *e)
{
	struct gpu_file *f = gpu_machine_add_file(m);

	f->kind = GPU_LIBRARY;
	f->caps = caps;
	f->path = xasprintf("%s%s", root, path);
	f->bits = e->bits;
	f->soname = take_ptr(&e->soname);
	f->glibc = e->glibc;
	return f;
}

/* Take name from a place if it fits its rule. Returns whether it does, also when already taken. */
static int take(struct search *s, const struct gpu_place *at, const char *name, unsigned caps,
	enum gpu_library_rule rule)
{
	auto_free char *path = NULL, *full = NULL;
	auto_close int fd = gpu_place_open(s->places, at, name, &path);
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
	struct gpu_file *f;

	if (fd < 0 || !read_library(fd, s->bits, path, &e) ||
		(rule != GPU_BY_NAME && !ends_in_version(path, s->m->driver_text)))
		return 0;
	full = xasprintf("%s%s", s->places->root, path);
	f = find_path(s->m, full);
	if (f) {
		bring_by(s, f, caps);
		return 1;
	}
	s->changed = 1;
	f = add(s->m, s->places->root, path, caps, &e);
	f->dev_link = dev_link_of(s, path, f->soname);
	*xadd(s->needed, s->n_needed) = e.needed;
	e.needed = (struct strv)STRV_INIT;
	return 1;
}

/* Take it from the first place that has it. */
static int take_row(struct search *s, const struct gpu_library_row *row)
{
	auto_free char *name = row->rule == GPU_BY_NAME
		? xstrdup(row->name)
		: xasprintf("%s.%s", row->name, s->m->driver_text);
	auto_free char *below = row->below ? xasprintf("%s/%s", row->below, name) : NULL;

	for (size_t i = 0; i < s->places->n; i++) {
		const struct gpu_place *at = &s->places->v[i];

		if (at->bits == s->bits &&
			((below && take(s, at, below, row->caps, row->rule)) ||
				take(s, at, name, row->caps, row->rule)))
			return 1;
	}
	return 0;
}

/* Find a taken library by the name under which others need it. */
static struct gpu_file *find_needed(struct search *s, const char *name)
{
	for (size_t i = s->first; i < s->m->n_files; i++) {
		struct gpu_file *f = &s->m->files[i];

		if (strcmp(path_base(f->path), name) == 0 ||
			(f->soname && strcmp(f->soname, name) == 0))
			return f;
	}
	return NULL;
}

/* Find a library's row by the name under which others need it: "libcuda.so" by "libcuda.so.1". */
static const struct gpu_library_row *row_of(const char *name)
{
	for (const struct gpu_library_row *row = gpu_libraries; row->name; row++) {
		size_t len = strlen(row->name);

		if (strncmp(name, row->name, len) == 0 && (!name[len] || name[len] == '.'))
			return row;
	}
	return NULL;
}

/* Take a library of the driver that only others need. */
static void take_needed(struct search *s, const char *name, unsigned caps)
{
	const struct gpu_library_row *known = row_of(name);
	struct gpu_library_row row = { name, caps, GPU_BY_NAME, NULL };

	if (known) {
		row = *known;
		row.caps |= caps;
	} else if (strchr(name, '/') || !ends_in_version(name, s->m->driver_text)) {
		return;
	}
	take_row(s, &row);
}

/* Take the libraries of the driver that a library needs, with its capabilities. */
static void follow(struct search *s, size_t i)
{
	/* Taking one may move both arrays: index them anew. */
	for (size_t k = 0; k < s->needed[i].n; k++) {
		const char *name = s->needed[i].v[k];
		unsigned caps = s->m->files[s->first + i].caps;
		struct gpu_file *f = find_needed(s, name);

		if (f)
			bring_by(s, f, caps);
		else
			take_needed(s, name, caps);
	}
}

/* Repeat until nothing changes. This ends: the files are finite, and capabilities only grow. */
static void follow_all(struct search *s)
{
	do {
		s->changed = 0;
		for (size_t i = 0; i < s->n_needed; i++)
			follow(s, i);
	} while (s->changed);
}

static void find_for(const struct gpu_places *p, int bits, unsigned caps, struct gpu_machine *m)
{
	auto_call(search_done) struct search s = {
		.places = p, .m = m, .bits = bits, .first = m->n_files
	};

	if (!gpu_places_has(p, bits))
		return;
	for (const struct gpu_library_row *row = gpu_libraries; row->name; row++) {
		if (!(row->caps & caps))
			continue;
		if (!take_row(&s, row) && bits == 64)
			strv_add(&m->missing, row->name);
	}
	follow_all(&s);
}

void gpu_driver_libraries_find(const struct gpu_places *p, unsigned caps, struct gpu_machine *m)
{
	find_for(p, 64, caps, m);
	if (caps & GPU_COMPAT32)
		find_for(p, 32, caps, m);
}

/* Is there already a library with one of these names? */
static int is_known(const struct gpu_machine *m, const char *base, const char *soname)
{
	for (size_t i = 0; i < m->n_files; i++) {
		const struct gpu_file *f = &m->files[i];

		if (f->kind == GPU_LIBRARY &&
			(strcmp(path_base(f->path), base) == 0 ||
				(f->soname &&
					(strcmp(f->soname, base) == 0 ||
						(soname && strcmp(f->soname, soname) == 0)))))
			return 1;
	}
	return 0;
}

/* Add a library of the store. Libraries in /usr/lib/wsl/lib load the store's copies by path. */
static void add_stored(const struct gpu_dir *d, const char *path, struct gpu_machine *m)
{
	auto_close int fd = gpu_dir_open_file(d, path);
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
	struct gpu_file *f;

	if (fd < 0)
		return;
	if (gpu_elf_read(fd, &e) == 0 && !is_known(m, path_base(path), e.soname)) {
		f = add(m, "", path, 0, &e);
	} else {
		f = gpu_machine_add_file(m);
		f->kind = GPU_DATA;
		f->path = xstrdup(path);
	}
	f->target = xstrdup(path);
}

/* Add libraries, and data of CUDA's and OptiX's; the rest is for Windows. Returns whether CUDA is
 * among them. */
static int add_store(const struct gpu_dir *d, const char *dir, struct gpu_machine *m)
{
	auto_free char *cuda = xasprintf("%s/libcuda.so.1.1", dir),
		       *real = gpu_dir_resolve(d, cuda, NULL);
	auto_strv struct strv names = STRV_INIT;

	if (!real || gpu_dir_list(d, dir, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];
		auto_free char *path = xasprintf("%s/%s", dir, name);

		if ((starts_with(name, "lib") && strstr(name, ".so")) ||
			strcmp(name, "nvcubins.bin") == 0 || strcmp(name, "nvoptix.bin") == 0)
			add_stored(d, path, m);
	}
	return 1;
}

static void add_wsl_library(
	const struct gpu_dir *d, const struct gpu_library_row *row, struct gpu_machine *m)
{
	auto_free char *path = xasprintf("%s/%s", WSL_LIB, row->name), *real = NULL;
	auto_close int fd = gpu_dir_open_file(d, path);
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
	struct gpu_file *f;

	real = fd < 0 ? NULL : gpu_dir_path(d, fd);
	if (!real || !read_library(fd, 64, path, &e)) {
		strv_add(&m->missing, row->name);
		return;
	}
	if (find_path(m, real))
		return;
	f = add(m, "", real, row->caps, &e);
	/* WSL has copies instead of links. */
	f->dev_link = gpu_table_link(row->name) ? xstrdup(gpu_table_link(row->name))
						: without_numbers(row->name);
}

void gpu_wsl_libraries_find(const struct gpu_dir *d, unsigned caps, struct gpu_machine *m)
{
	auto_strv struct strv names = STRV_INIT;
	int found = 0;

	for (const struct gpu_library_row *row = gpu_wsl_libraries; row->name; row++)
		if (row->caps == 0 || (row->caps & caps))
			add_wsl_library(d, row, m);
	/* Each driver package has a directory: nv_dispi.inf_amd64_…, on notebooks nvlti.inf_…,
	 * nvmdi.inf_…. */
	gpu_dir_list(d, WSL_STORE, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *dir = xasprintf("%s/%s", WSL_STORE, names.v[i]);

		if (starts_with(names.v[i], "nv"))
			found += add_store(d, dir, m);
	}
	if (!found)
		strv_addf(&m->warnings,
			"WSL has no NVIDIA driver in '%s' (no nv*.inf_* with libcuda.so.1.1); install "
			"Windows' driver and restart WSL by 'wsl --shutdown'",
			WSL_STORE);
}
