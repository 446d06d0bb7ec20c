#include "cdi/cdi.h"

#include "cdi/hook.h"
#include "gpu/vendor.h"

/* The CDI files of a machine. A device in /var/run/cdi hides one of the same name in /etc/cdi. */

/* A file that could not be read. */
struct cdi_problem {
	char *text; /* "'/etc/cdi/x.yaml': line 3: …" */
	char *kind; /* a guess from its text; NULL: unknown */
};

struct cdi_dir {
	struct cdi_spec *v;
	size_t n;
	struct cdi_problem *problems;
	size_t n_problems;
};

#define MAX_FILES 1000 /* in one directory */
#define MAX_WORDS 300  /* bytes of one problem's text */

/* By priority, the lowest first (SPEC.md leaves it to pkg/cdi, spec-dirs_unix.go). */
static const char *const dirs[] = { "/etc/cdi", "/var/run/cdi" };

static void cdi_dir_done(struct cdi_dir *d)
{
	for (size_t i = 0; i < d->n; i++)
		cdi_spec_done(&d->v[i]);
	for (size_t i = 0; i < d->n_problems; i++) {
		free(d->problems[i].text);
		free(d->problems[i].kind);
	}
	free(d->v);
	free(d->problems);
	*d = (struct cdi_dir){ 0 };
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

	*xadd(d->problems, d->n_problems) = (struct cdi_problem){ words, guess_kind(bytes) };
}

static void read_one(struct cdi_dir *d, const struct gpu_dir *root, const char *file, int priority)
{
	auto_close int fd = gpu_dir_open_file(root, file);
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *text = NULL;
	struct cdi_spec s = { 0 };
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
	*xadd(d->v, d->n) = s;
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

/* Read all files below gpu_root(), at most 1000 in a directory. A missing directory is an empty
 * one. An invalid file becomes a problem; the others are read. */
static void cdi_dir_read(struct cdi_dir *ret)
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

/* List all names that can be found, sorted. twice, which may be NULL, gets the ambiguous ones. */
static void cdi_dir_names(const struct cdi_dir *d, struct strv *ret, struct strv *twice)
{
	struct place *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		for (size_t k = 0; k < d->v[i].n_devices; k++) {
			*xadd(v, n) = (struct place){ xasprintf("%s=%s", d->v[i].kind,
							      d->v[i].devices[k].name),
				d->v[i].priority };
		}
	sort_all(v, n, by_name);
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

/*
 * Find the device "vendor/class=device" and its file.
 *
 * Returns 0; -ENODEV when no file has it, naming devices that exist; -EEXIST when two files of one
 * directory have it, naming both; -EPROTO when it may be in an invalid file.
 */
static int cdi_dir_find(const struct cdi_dir *d, const char *name, const struct cdi_spec **spec,
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

/* The edits of one call in their order: a file's own before those of its first device. */
struct step {
	const struct cdi_edits *edits;
	char *what; /* names their owner in messages */
};

struct steps {
	struct step *v;
	size_t n;
};

static void steps_done(struct steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].what);
	free(s->v);
}

static void job_done(struct cdi_job *job)
{
	gpu_dir_close(&job->root);
	free(job->root_path);
	strv_done(&job->links);
}

int cdi_is_name(const char *text)
{
	const char *equals = strchr(text, '=');

	return equals && cdi_is_kind(text, (size_t)(equals - text)) && cdi_is_device(equals + 1);
}

int cdi_is_gpu(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && (strncmp(slash, "/gpu=", 5) == 0 || strncmp(name, "nvidia.com/", 11) == 0);
}

static void add_step(struct steps *s, const struct cdi_edits *e, char *what)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].edits == e) {
			free(what);
			return;
		}
	*xadd(s->v, s->n) = (struct step){ e, what };
}

static int find_steps(
	const struct cdi_dir *d, const struct strv *names, struct steps *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < names->n; i++) {
		const struct cdi_spec *s;
		const struct cdi_device *device;
		int r = cdi_dir_find(d, names->v[i], &s, &device, err);

		if (r < 0)
			return mlr_wrap(err, "'%s'", names->v[i]), r;
		add_step(ret, &s->edits, xasprintf("'%s'", s->file));
		add_step(ret, &device->edits, xasprintf("'%s': device '%s'", s->file, names->v[i]));
	}
	for (size_t i = 0; i < ret->n; i++) {
		int r = cdi_edits_check(ret->v[i].edits, err);

		if (r < 0)
			return mlr_wrap(err, "%s", ret->v[i].what), r;
	}
	return 0;
}

int cdi_check(const struct strv *names, struct mlr_error *err)
{
	auto_call(cdi_dir_done) struct cdi_dir d = { 0 };
	auto_call(steps_done) struct steps steps = { NULL, 0 };

	if (names->n == 0)
		return 0;
	cdi_dir_read(&d);
	return find_steps(&d, names, &steps, err);
}

/* Links come first, because the linker's cache lists them; the image's newer libraries last. */
static int hook_turn(const struct cdi_hook *h)
{
	if (strv_has(&h->args, "create-symlinks") || strv_has(&h->args, "create-soname-symlinks"))
		return 0;
	return strv_has(&h->args, "enable-cuda-compat") ? 2 : 1;
}

static int plan_hooks(struct cdi_job *job, const struct steps *steps)
{
	for (int turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < steps->n; i++) {
			const struct cdi_edits *e = steps->v[i].edits;

			for (size_t k = 0; k < e->n_hooks; k++) {
				int r = hook_turn(&e->hooks[k]) == turn
					? cdi_hook_plan(job, &e->hooks[k])
					: 0;

				if (r < 0)
					return mlr_wrap(job->err, "%s", steps->v[i].what), r;
			}
		}
	return 0;
}

static int plan_steps(struct cdi_job *job, const struct steps *steps)
{
	size_t first = job->p->n_mounts;
	int r = 0;

	for (size_t i = 0; r == 0 && i < steps->n; i++) {
		r = cdi_edits_plan(job, steps->v[i].edits, steps->v[i].what);
		if (r < 0)
			return mlr_wrap(job->err, "%s", steps->v[i].what), r;
	}
	TRY(r);
	plan_mounts_sort(job->p, first);
	r = plan_hooks(job, steps);
	plan_mounts_into_image(job->p, first);
	return r;
}

static int has_some(const struct strv *names, const char *vendor)
{
	size_t len = strlen(vendor);

	for (size_t i = 0; i < names->n; i++)
		if (strncmp(names->v[i], vendor, len) == 0 && cdi_is_gpu(names->v[i]) &&
			strcmp(strchr(names->v[i], '='), "=all") != 0)
			return 1;
	return 0;
}

static int has_all(const struct strv *names, const char *vendor)
{
	auto_free char *all = xasprintf("%s/gpu=all", vendor);

	return strv_has(names, all);
}

static void drop_number(
	const struct strv *names, const char *vendor, const char *variable, struct plan *p)
{
	const char *value = plan_env_get(p, variable);

	if (!value || plan_env_origin(p, variable) != PLAN_FROM_CALLER ||
		value[strspn(value, "0123456789,. ")] || !has_some(names, vendor) ||
		has_all(names, vendor))
		return;
	plan_remark_add(p, PLAN_FROM_CDI, "ignored %s=%s: its numbers count the machine's GPUs",
		variable, value);
	plan_env_unset(p, variable);
}

/*
 * A job's numbers count the machine's GPUs, but programs inside count those of the container: with
 * some of the GPUs, a number would select a wrong one or none. UUIDs stay, and what the user has
 * set.
 */
static void drop_numbers(const struct strv *names, struct plan *p)
{
	for (int v = 0; v < GPU_VENDORS; v++) {
		const struct gpu_vendor_row *row = &gpu_vendors[v];
		auto_free char *vendor = xasprintf("%s.com", row->name);

		drop_number(names, vendor, row->visible, p);
		for (const char *const *name = row->within; *name; name++)
			drop_number(names, vendor, *name, p);
		if (row->borrowed)
			drop_number(names, vendor, row->borrowed, p);
	}
	drop_number(names, "intel.com", "ZE_AFFINITY_MASK", p);
}

int cdi_plan(const struct strv *names, const struct gpu_image *image, struct plan *p,
	struct mlr_error *err)
{
	auto_call(cdi_dir_done) struct cdi_dir d = { 0 };
	auto_call(steps_done) struct steps steps = { NULL, 0 };
	auto_call(job_done) struct cdi_job job = {
		.root = GPU_DIR_INIT, .image = image, .p = p, .err = err
	};

	if (names->n == 0)
		return 0;
	cdi_dir_read(&d);
	TRY(find_steps(&d, names, &steps, err));
	TRY(mlr_result(err, gpu_dir_open(gpu_root(), &job.root), "'%s'", gpu_root()));
	job.root_path = job.root.is_machine ? xstrdup("") : realpath(gpu_root(), NULL);
	if (!job.root_path)
		return mlr_fail_errno(err, "'%s'", gpu_root());
	for (size_t i = 0; i < steps.n; i++)
		plan_remark_add(p, PLAN_FROM_CDI, "edits of %s", steps.v[i].what);
	for (size_t i = 0; i < d.n_problems; i++)
		plan_remark_add(
			p, PLAN_FROM_CDI, "ignored an invalid file: %s", d.problems[i].text);
	drop_numbers(names, p);
	return plan_steps(&job, &steps);
}

/* Two files with one name in common usually share many: report the first. */
static void add_twice(const struct cdi_dir *d, const struct strv *twice, struct strv *problems)
{
	const struct cdi_spec *spec;
	const struct cdi_device *device;
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *others =
		twice->n > 1 ? xasprintf(" and %zu more", twice->n - 1) : xstrdup("");

	if (twice->n && cdi_dir_find(d, twice->v[0], &spec, &device, &err) < 0)
		strv_take(problems, xasprintf("'%s'%s: %s", twice->v[0], others, err.text));
}

void cdi_list(struct strv *ret, struct strv *problems)
{
	auto_call(cdi_dir_done) struct cdi_dir d = { 0 };
	auto_strv struct strv twice = STRV_INIT;

	cdi_dir_read(&d);
	cdi_dir_names(&d, ret, &twice);
	for (size_t i = 0; i < d.n_problems; i++)
		strv_add(problems, d.problems[i].text);
	add_twice(&d, &twice, problems);
}
