#include "cdi/dir.h"

#include "base/base.h"
#include "gpu/gpu.h"
#include "gpu/root.h"

#define MAX_FILES 1000 /* in one directory */
#define MAX_WORDS 300  /* bytes of one problem's text */

/* By priority, the lowest first (SPEC.md leaves it to pkg/cdi, spec-dirs_unix.go). */
static const char *const dirs[] = { "/etc/cdi", "/var/run/cdi" };

void cdi_dir_done(struct cdi_dir *d)
{
	for (size_t i = 0; i < d->n; i++)
		cdi_spec_done(&d->v[i]);
	for (size_t i = 0; i < d->n_problems; i++) {
		free(d->problems[i].text);
		free(d->problems[i].kind);
	}
	free(d->v);
	free(d->problems);
	*d = (struct cdi_dir)GPU_CDI_DIR_INIT;
}

/* Find the word behind "kind" in an invalid file, to tell whether the file matters. */
static char *guess_kind(const char *text)
{
	const char *at = text ? strstr(text, "kind") : NULL;
	size_t n;

	if (!at)
		return NULL;
	at += strlen("kind");
	at += strspn(at, "\"': \t");
	n = strcspn(at, "\"', \t\r\n}");
	return cdi_is_kind(at, n) ? xstrndup(at, n) : NULL;
}

/* A quoted value may be long: cut the text, never the file's name. */
static void add_problem(struct cdi_dir *d, const char *file, const char *text, const char *bytes)
{
	size_t len = strlen(text);
	char *words = len > MAX_WORDS ? xasprintf("'%s': ...%s", file, text + len - MAX_WORDS)
				      : xasprintf("'%s': %s", file, text);

	d->problems = xgrow(d->problems, d->n_problems, sizeof(*d->problems));
	d->problems[d->n_problems++] = (struct cdi_problem){ words, guess_kind(bytes) };
}

static void read_one(struct cdi_dir *d, const struct gpu_dir *root, const char *file, int priority)
{
	auto_close int fd = gpu_dir_open_file(root, file);
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *text = NULL;
	struct cdi_spec s = GPU_CDI_SPEC_INIT;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0) {
		add_problem(d, file,
			fd == -ENODEV ? "not a regular file" : strerror(fd < 0 ? -fd : errno),
			NULL);
		return;
	}
	if (st.st_size > GPU_CDI_FILE_MAX) {
		add_problem(d, file, "it is larger than 4 MiB", NULL);
		return;
	}
	text = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(fd, text, (size_t)st.st_size);
	if (n < 0) {
		add_problem(d, file, strerror((int)-n), NULL);
		return;
	}
	text[n] = '\0';
	if (cdi_spec_parse(text, (size_t)n, &s, &err) < 0) {
		add_problem(d, file, err.text, text);
		return;
	}
	s.file = xstrdup(file);
	s.priority = priority;
	d->v = xgrow(d->v, d->n, sizeof(*d->v));
	d->v[d->n++] = s;
}

static int is_spec_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".yaml") == 0);
}

static void read_dir(struct cdi_dir *ret, const struct gpu_dir *root, int priority)
{
	auto_strv struct strv names = STRV_INIT;
	const char *dir = dirs[priority];
	size_t files = 0;
	int r = gpu_dir_list(root, dir, &names);

	if (r < 0 && r != -ENOENT)
		add_problem(ret, dir, strerror(-r), NULL);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *file = xasprintf("%s/%s", dir, names.v[i]);

		if (!is_spec_name(names.v[i]))
			continue;
		if (files++ == MAX_FILES) {
			auto_free char *text =
				xasprintf("more than %d files: ignored the rest", MAX_FILES);

			add_problem(ret, dir, text, NULL);
			return;
		}
		read_one(ret, root, file, priority);
	}
}

void cdi_dir_read(struct cdi_dir *ret)
{
	auto_call(gpu_dir_close) struct gpu_dir root = GPU_DIR_INIT;

	if (gpu_dir_open(gpu_root(), &root) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		read_dir(ret, &root, (int)i);
}

static const struct cdi_device *device_of(const struct cdi_spec *s, const char *name)
{
	size_t kind = strlen(s->kind);

	if (strncmp(s->kind, name, kind) != 0 || name[kind] != '=')
		return NULL;
	for (size_t i = 0; i < s->n_devices; i++)
		if (strcmp(s->devices[i].name, name + kind + 1) == 0)
			return &s->devices[i];
	return NULL;
}

struct place {
	char *name;
	int priority;
};

/* By name, then the highest priority first. */
static int by_name(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : y->priority - x->priority;
}

void cdi_dir_names(const struct cdi_dir *d, struct strv *ret, struct strv *twice)
{
	struct place *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		for (size_t k = 0; k < d->v[i].n_devices; k++) {
			v = xgrow(v, n, sizeof(*v));
			v[n++] = (struct place){ xasprintf("%s=%s", d->v[i].kind,
							 d->v[i].devices[k].name),
				d->v[i].priority };
		}
	if (n)
		qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0, next; i < n; i = next) {
		for (next = i + 1; next < n && strcmp(v[next].name, v[i].name) == 0;)
			next++;
		/* Two in one directory are ambiguous. */
		if (next == i + 1 || v[i + 1].priority < v[i].priority)
			strv_add(ret, v[i].name);
		else if (twice)
			strv_add(twice, v[i].name);
	}
	for (size_t i = 0; i < n; i++)
		free(v[i].name);
	free(v);
}

/* Fail for a missing device; hint at others of its kind, else at all, else at what to do. */
static int not_there(const struct cdi_dir *d, const char *name, struct mlr_error *err)
{
	size_t kind = strcspn(name, "=") + 1;
	auto_strv struct strv all = STRV_INIT, told = STRV_INIT;
	auto_free char *list = NULL;

	for (size_t i = 0; i < d->n_problems; i++)
		if (!d->problems[i].kind ||
			(strlen(d->problems[i].kind) == kind - 1 &&
				strncmp(d->problems[i].kind, name, kind - 1) == 0))
			return mlr_fail(err, EPROTO, "it may be in this invalid file: %s",
				d->problems[i].text);
	cdi_dir_names(d, &all, NULL);
	for (int same = 1; same >= 0 && told.n == 0; same--)
		for (size_t i = 0; i < all.n && told.n < 12; i++)
			if (!same || strncmp(all.v[i], name, kind) == 0)
				strv_add(&told, all.v[i]);
	mlr_fail(err, ENODEV, "no file in %s and %s describes it", dirs[0], dirs[1]);
	if (all.n == 0)
		return mlr_hint(err,
			"an administrator can write one: mlrun gpu cdi -o /etc/cdi/nvidia.json");
	list = strv_join(&told, told.n, ", ");
	return mlr_hint(err, "available: %s%s", list, told.n < all.n ? ", …" : "");
}

int cdi_dir_find(const struct cdi_dir *d, const char *name, const struct cdi_spec **spec,
	const struct cdi_device **device, struct mlr_error *err)
{
	const struct cdi_spec *found = NULL, *other = NULL;
	const struct cdi_device *which = NULL;

	for (size_t i = 0; i < d->n; i++) {
		const struct cdi_device *here = device_of(&d->v[i], name);

		if (!here || (found && d->v[i].priority < found->priority))
			continue;
		other = found && d->v[i].priority == found->priority ? found : NULL;
		found = &d->v[i];
		which = here;
	}
	if (!found)
		return err ? not_there(d, name, err) : -ENODEV;
	if (other)
		return mlr_fail(
			err, EEXIST, "'%s' and '%s' both describe it", other->file, found->file);
	*spec = found;
	*device = which;
	return 0;
}
