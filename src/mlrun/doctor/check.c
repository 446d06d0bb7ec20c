#include "doctor/check.h"

#include "base/config.h"
#include "base/spawn.h"
#include "exec/exec.h"
#include "runtime/runtime.h"

#define TEXT_MAX 65536 /* bytes read of a file of /proc */

void doctor_add(struct doctor_report *r, const char *check, enum doctor_verdict verdict,
	const char *fmt, ...)
{
	struct doctor_finding *f;
	va_list ap;

	f = xadd(r->v, r->n);
	*f = (struct doctor_finding){ .check = xstrdup(check), .verdict = verdict };
	va_start(ap, fmt);
	f->what = xvasprintf(fmt, ap);
	va_end(ap);
}

void doctor_because(struct doctor_report *r, const char *fmt, ...)
{
	struct doctor_finding *f = &r->v[r->n - 1];
	va_list ap;

	free(f->cause);
	va_start(ap, fmt);
	f->cause = xvasprintf(fmt, ap);
	va_end(ap);
}

void doctor_mend(struct doctor_report *r, enum doctor_who who, const char *fmt, ...)
{
	struct doctor_finding *f = &r->v[r->n - 1];
	va_list ap;

	free(f->fix);
	f->who = who;
	va_start(ap, fmt);
	f->fix = xvasprintf(fmt, ap);
	va_end(ap);
}

void doctor_add_error(struct doctor_report *r, const char *check, enum doctor_verdict verdict,
	const struct mlr_error *err, const char *otherwise)
{
	const char *hint = mlr_hint_of(err);

	doctor_add(r, check, verdict, "%.*s", MLR_SENTENCE(err));
	if (hint || otherwise)
		doctor_mend(r, DOCTOR_YOU, "%s", hint ? hint : otherwise);
}

int doctor_is_here(const struct doctor_machine *m)
{
	return !*m->root;
}

char *doctor_path(const struct doctor_machine *m, const char *path)
{
	return xasprintf("%s%s", m->root, path);
}

char *doctor_text(const struct doctor_machine *m, const char *path)
{
	auto_free char *full = doctor_path(m, path), *text = NULL;
	size_t len;

	if (file_read(AT_FDCWD, full, TEXT_MAX, &text, NULL, NULL) < 0)
		return NULL;
	len = strlen(text);
	if (len > 0 && text[len - 1] == '\n')
		text[len - 1] = '\0';
	return take_ptr(&text);
}

long doctor_number(const struct doctor_machine *m, const char *path)
{
	auto_free char *text = doctor_text(m, path);
	char *end;
	long n = text ? strtol(text, &end, 10) : -1;

	return text && end != text ? n : -1;
}

int doctor_has_filesystem(const struct doctor_machine *m, const char *name)
{
	auto_free char *text = doctor_text(m, "/proc/filesystems");
	char *at = NULL;

	for (char *line = text ? strtok_r(text, "\n", &at) : NULL; line;
		line = strtok_r(NULL, "\n", &at)) {
		const char *tab = strrchr(line, '\t');

		if (strcmp(tab ? tab + 1 : line, name) == 0)
			return 1;
	}
	return 0;
}

char *doctor_program(const struct doctor_machine *m, const char *name)
{
	const char *path = getenv("PATH");
	auto_free char *copy = xstrdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
	char *at = NULL;

	for (char *dir = strtok_r(copy, ":", &at); dir; dir = strtok_r(NULL, ":", &at)) {
		auto_free char *file = xasprintf("%s%s/%s", m->root, dir, name);
		struct stat sb;

		if (stat(file, &sb) == 0 && S_ISREG(sb.st_mode) && access(file, X_OK) == 0)
			return take_ptr(&file);
	}
	return NULL;
}

int doctor_is_filtered(const struct doctor_machine *m)
{
	auto_free char *text = doctor_text(m, "/proc/self/status");
	const char *line = text ? strstr(text, "\nSeccomp:") : NULL;

	return line && atoi(line + strlen("\nSeccomp:")) == 2;
}

/* --- a trial start ----------------------------------------------------------------- */

static int enter(const char *image, const char *store, struct mlr_error *err)
{
	static char *command[] = { "true", NULL };
	auto_call(config_done) struct config config = { 0 };
	auto_call(plan_done) struct plan p;
	struct exec_options o = { .image = image, .store = store, .command = command };

	plan_init(&p);
	TRY(config_load(&config, err));
	TRY(exec_defaults(&config, &o, err));
	TRY(exec_plan(&o, 0, &p, err));
	return runtime_enter(&p, err);
}

/* In the child, which ends in the container: the parent gets the error as it is. */
__attribute__((noreturn)) static void enter_and_tell(const char *image, const char *store, int to)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The descriptor stays open, above those that runtime_enter() leaves. */
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (enter(image, store, &err) < 0)
		file_write_all(to, &err, sizeof(err));
	_exit(0);
}

static int try_in_child(const char *image, const char *store, struct mlr_error *err)
{
	auto_close int from = -1, to = -1;
	struct mlr_error told;
	int pair[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	from = pair[0];
	to = pair[1];
	pid = fork();
	if (pid < 0)
		return mlr_fail_errno(err, "start a process");
	if (pid == 0)
		enter_and_tell(image, store, to);
	close(take_fd(&to));
	n = file_read_full(from, &told, sizeof(told));
	status = spawn_wait(pid);
	if (n == sizeof(told))
		return mlr_pass(err, told.code, told.text);
	if (status >= 0 && WIFSIGNALED(status))
		return mlr_fail(err, EIO, "the start ended by signal %d", WTERMSIG(status));
	return 0;
}

int doctor_try_start(const char *image, const char *store, struct mlr_error *err)
{
	char dir[] = "/tmp/mlrun-doctor-XXXXXX", tree[sizeof("rootfs:") + sizeof(dir)];
	int r;

	if (image)
		return try_in_child(image, store, err);
	if (!mkdtemp(dir))
		return mlr_fail_errno(err, "make a directory in /tmp");
	snprintf(tree, sizeof(tree), "rootfs:%s", dir);
	r = try_in_child(tree, store, err);
	rmdir(dir);
	return r;
}
