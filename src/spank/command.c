#include "spank/command.h"

#include "base/config_value.h"

/* --- the image ----------------------------------------------------------------------------- */

/* A path on the node: a squashfs file, or a directory. */
static char *path_image(const char *path)
{
	struct stat st;

	return xasprintf(
		"%s:%s", stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? "rootfs" : "squashfs", path);
}

char *command_image(const char *text, struct mlr_error *err)
{
	const char *name = strncmp(text, "docker://", 9) == 0 ? text + 9 : text, *hash, *at;

	if (strncmp(text, "dockerd://", 10) == 0) {
		mlr_fail(err, EINVAL,
			"--container-image '%s': there is no Docker daemon on a node; docker save and "
			"mlrun import bring its images",
			text);
		return NULL;
	}
	hash = strchr(name, '#');
	/* [USER@]REGISTRY#IMAGE; mlrun finds the user's credentials by the registry. */
	at = hash ? memchr(name, '@', (size_t)(hash - name)) : NULL;
	if (at)
		name = at + 1;
	if (*text == '-' || *name == '-') {
		mlr_fail(err, EINVAL, "--container-image '%s': a name does not begin with '-'",
			text);
		return NULL;
	}
	if (*text == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0)
		return path_image(text);
	return hash ? xasprintf("%.*s/%s", (int)(hash - name), name, hash + 1) : xstrdup(name);
}

char *command_pinned(const char *image, const char *pin)
{
	size_t n = strlen(image);

	if (pin && strncmp(pin, image, n) == 0 && pin[n] == ' ' && pin[n + 1])
		return xstrdup(pin + n + 1);
	return xstrdup(image);
}

/* --- mounts --------------------------------------------------------------------------------- */

#define NOT_TAKEN "a mount of the container cannot be taken away"

static int bad_mount(const char *text, const char *why, struct mlr_error *err)
{
	return mlr_fail(err, EINVAL, "--container-mounts '%s': %s", text, why);
}

/* How a flag of Enroot's fstab is written for mlrun, or "" where mlrun does so anyway or it means
 * nothing in a namespace of the user's; NULL: it is no flag. */
static const char *flag_of(const char *flag, int is_tmpfs)
{
	static const char *const passed[] = { "ro", "rw", "nosuid", "nodev", "noexec" };
	static const char *const no_effect[] = { "", "rbind", "bind", "private", "rprivate",
		"slave", "rslave", "shared", "rshared", "unbindable", "runbindable", "suid", "dev",
		"exec", "atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime",
		"strictatime", "nostrictatime", "lazytime", "nolazytime", "sync", "async",
		"dirsync", "mand", "nomand", "silent", "loud", "defaults", "x-create=auto",
		"x-create=dir", "x-create=file" };
	static const char *const sizes[] = { "size=", "mode=", "huge=", "nr_inodes=" };

	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		if (strcmp(flag, passed[i]) == 0)
			return flag;
	for (size_t i = 0; is_tmpfs && i < ARRAY_LEN(sizes); i++)
		if (strncmp(flag, sizes[i], strlen(sizes[i])) == 0)
			return flag;
	for (size_t i = 0; i < ARRAY_LEN(no_effect); i++)
		if (strcmp(flag, no_effect[i]) == 0)
			return "";
	if (strcmp(flag, "nofail") == 0)
		return is_tmpfs ? "" : "optional";
	return NULL;
}

/* Flags separated by '+', as Enroot's fstab has them. */
static int add_flags(char *flags, int is_tmpfs, char **ret, const char *text, struct mlr_error *err)
{
	char *rest = flags, *flag;

	while ((flag = strsep(&rest, "+"))) {
		const char *ours = flag_of(flag, is_tmpfs);
		auto_free char *before = *ret;

		*ret = NULL;
		if (strcmp(flag, "x-detach") == 0)
			return bad_mount(text, NOT_TAKEN, err);
		if (!ours)
			return bad_mount(text,
				is_tmpfs
					? "flags are size=, mode=, huge=, ro, nosuid, nodev, noexec"
					: "flags are ro, rw, nosuid, nodev, noexec, rbind, nofail, "
					  "x-create=auto",
				err);
		*ret = xasprintf("%s%s%s", before, !*ours ? "" : *before ? "," : ":", ours);
	}
	return 0;
}

static int add_mount(const char *text, struct strv *argv, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text), *flags = xstrdup("");
	char *rest = copy, *src = strsep(&rest, ":"), *dst = strsep(&rest, ":");
	int is_tmpfs = strcmp(src, "tmpfs") == 0 && dst, r = 0;

	if (!*src || (dst && !*dst))
		return bad_mount(text, "expected SRC[:DST[:FLAG+FLAG]]", err);
	if (strcmp(src, "umount") == 0)
		return bad_mount(text, NOT_TAKEN, err);
	if (rest)
		r = add_flags(rest, is_tmpfs, &flags, text, err);
	TRY(r);
	if (is_tmpfs) {
		strv_add(argv, "--tmpfs");
		strv_addf(argv, "%s%s", dst, flags);
		return 0;
	}
	strv_add(argv, "-v");
	strv_addf(argv, "%s:%s%s", src, dst ? dst : src, flags);
	return 0;
}

static int add_mounts(const char *list, struct strv *argv, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(list);
	auto_strv struct strv seen = STRV_INIT;
	char *rest = copy, *one;

	while ((one = strsep(&rest, ","))) {
		int r = 0;

		if (!*one)
			return bad_mount(list, "an entry is empty", err);
		if (!strv_has(&seen, one)) /* the same entry twice is one */
			r = add_mount(one, argv, err);
		TRY(r);
		strv_add(&seen, one);
	}
	return 0;
}

/* --- the rest -------------------------------------------------------------------------------- */

static int add_env(const char *list, struct strv *argv, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(list);
	char *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		if (!*name)
			return mlr_fail(err, EINVAL, "--container-env '%s': a name is empty", list);
		strv_add_words(argv, "-e", name);
	}
	return 0;
}

static int add_unshare(const char *list, struct strv *argv, struct mlr_error *err)
{
	char host[256] = ""; /* the node's: its name is the container's, too */
	auto_free char *copy = xstrdup(list);
	char *rest = copy, *word;

	(void)gethostname(host, sizeof(host) - 1);
	while ((word = strsep(&rest, ","))) {
		if (strcmp(word, "net") == 0)
			strv_add(argv, "--net=none");
		else if (strcmp(word, "ipc") == 0)
			strv_add(argv, "--ipc=private");
		else if (strcmp(word, "uts") == 0)
			strv_addf(argv, "--hostname=%s", *host ? host : "container");
		else
			return mlr_fail(err, EINVAL,
				"--container-unshare '%s': namespaces are net, ipc and uts", list);
	}
	return 0;
}

#define NAME_MAX_LETTERS 128

/* A name of the store's, with room for the job's number and a node. */
static int check_name(const char *text, size_t len, struct mlr_error *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	if (len == 0 || len > NAME_MAX_LETTERS || strspn(text, letters) < len ||
		strchr("_.-", *text))
		return mlr_fail(err, EINVAL,
			"--container-name '%s': use up to 128 letters, digits, '_', '.' and '-', a letter or "
			"digit first",
			text);
	return 0;
}

/* Return the value of --write-if for NAME:WAY, or "". Two containers cannot write to one layer at
 * once, so that
 * ":no_exec" joins, too. */
static int read_way(const char *text, const char *way, const char **ret, struct mlr_error *err)
{
	static const char *const ways[][2] = { { ":auto", "" }, { ":create", "new" },
		{ ":exec", "running" }, { ":no_exec", "" } };

	*ret = "";
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		if (strcmp(way, ways[i][0]) == 0) {
			*ret = ways[i][1];
			return 0;
		}
	return *way == '\0'
		? 0
		: mlr_fail(err, EINVAL,
			  "--container-name '%s': expected NAME[:auto|create|exec|no_exec]", text);
}

/* NAME[:HOW]: the container's name in the store. Each node has its own. */
static int container_name(const char *text, const struct spank_site *site,
	const struct command_task *task, char **ret, const char **write_if, struct mlr_error *err)
{
	size_t len = strcspn(text, ":");
	auto_free char *job = site->job_scope ? xasprintf(".%u", task->job) : xstrdup("");

	TRY(check_name(text, len, err));
	TRY(read_way(text, text + len, write_if, err));
	*ret = xasprintf("%.*s%s%s%s", (int)len, text, job, task->node ? "." : "",
		task->node ? task->node : "");
	return 0;
}

static int is_on(const char *value)
{
	return value && config_truth(value) == 1;
}

/* Variables may have any word. */
static int check_switches(const char *const *s, struct mlr_error *err)
{
	static const struct {
		enum spank_setting which;
		const char *name;
	} rows[] = { { SPANK_MOUNT_HOME, "MOUNT_HOME" }, { SPANK_REMAP_ROOT, "REMAP_ROOT" },
		{ SPANK_ENTRYPOINT, "ENTRYPOINT" }, { SPANK_ENTRYPOINT_LOG, "ENTRYPOINT_LOG" },
		{ SPANK_WRITABLE, "WRITABLE" } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (s[rows[i].which] && config_truth(s[rows[i].which]) < 0)
			return mlr_fail(err, EINVAL,
				"PYXIS_CONTAINER_%s takes y, n, 1 or 0, not '%s'", rows[i].name,
				s[rows[i].which]);
	return 0;
}

static int add_root(const char *const *s, const struct spank_site *site,
	const struct command_task *task, char **image, struct strv *argv, struct mlr_error *err)
{
	auto_free char *name = NULL, *plain = NULL;
	const char *write_if = "";

	TRY(s[SPANK_NAME] ? container_name(s[SPANK_NAME], site, task, &name, &write_if, err) : 0);
	if (s[SPANK_SAVE] && s[SPANK_SAVE][strlen(s[SPANK_SAVE]) - 1] == '/')
		return mlr_fail(err, EINVAL, "--container-save '%s': expected a file's path",
			s[SPANK_SAVE]);
	if (s[SPANK_SAVE] && s[SPANK_WRITABLE] && !is_on(s[SPANK_WRITABLE]))
		return mlr_fail(err, EINVAL,
			"--container-save and --container-readonly exclude each other: nothing is "
			"written that could be saved");
	if (s[SPANK_STAGE] && (*s[SPANK_STAGE] != '/' || name || !s[SPANK_IMAGE]))
		return *s[SPANK_STAGE] != '/'
			? mlr_fail(err, EINVAL, "--container-stage '%s': expected an absolute path",
				  s[SPANK_STAGE])
			: mlr_fail(err, EINVAL,
				  "--container-stage and --container-name exclude each other: a "
				  "copy is there for one step");
	if (name && s[SPANK_WRITABLE] && !is_on(s[SPANK_WRITABLE]))
		return mlr_fail(err, EINVAL,
			"--container-name and --container-readonly exclude each other: a named "
			"container keeps what is written");
	if (*write_if)
		strv_addf(argv, "--write-if=%s", write_if);
	if (s[SPANK_SAVE])
		strv_addf(argv, "--save=%s", s[SPANK_SAVE]);
	if (s[SPANK_IMAGE]) {
		plain = command_image(s[SPANK_IMAGE], err);
		if (!plain)
			return -EINVAL;
		/* A container stays with its image, whatever the tag means later. */
		*image = task->staged ? xasprintf("squashfs:%s", task->staged)
			: name        ? xstrdup(plain)
				      : command_pinned(plain, task->pin);
		if (name)
			strv_addf(argv, "--write=%s", name);
		if (name && site->job_scope)
			strv_add(argv, "--until-job-ends");
	} else {
		*image = xasprintf("container:%s", name);
	}
	return 0;
}

/* A relative one starts at the root. */
static void add_workdir(const char *const *s, struct strv *argv)
{
	if (s[SPANK_WORKDIR])
		strv_addf(argv, "--workdir=%s%s", *s[SPANK_WORKDIR] == '/' ? "" : "/",
			s[SPANK_WORKDIR]);
}

static void add_switches(const char *const *s, const struct spank_site *site, struct strv *argv)
{
	int entrypoint = s[SPANK_ENTRYPOINT] ? is_on(s[SPANK_ENTRYPOINT]) : site->runs_entrypoint;

	if (s[SPANK_MOUNT_HOME])
		strv_add(argv, is_on(s[SPANK_MOUNT_HOME]) ? "--home" : "--no-home");
	if (is_on(s[SPANK_REMAP_ROOT]))
		strv_add(argv, "--fakeroot");
	if (!entrypoint)
		strv_add(argv, "--entrypoint=");
	if (s[SPANK_WRITABLE] && !is_on(s[SPANK_WRITABLE]))
		strv_add(argv, "--read-only");
	if (s[SPANK_GPU])
		strv_addf(argv, "--gpu=%s", s[SPANK_GPU]);
	if (s[SPANK_MPI])
		strv_addf(argv, "--mpi=%s", s[SPANK_MPI]);
	add_workdir(s, argv);
}

/* --- the command ------------------------------------------------------------------------------ */

/* Is the rank in a list such as "0,4-7" or "*"? offset: its place in the list. */
static int is_in(const char *ranks, unsigned rank, unsigned *offset)
{
	const char *at = ranks;
	char *end;

	*offset = rank;
	if (strcmp(ranks, "*") == 0)
		return 1;
	*offset = 0;
	while (*at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (rank >= first && rank <= last) {
			*offset += rank - (unsigned)first;
			return 1;
		}
		*offset += (unsigned)(last - first + 1);
		at = *end == ',' ? end + 1 : "";
	}
	return 0;
}

/* Take the next word of a line, with '…', \, %t and %o as srun(1) has them; NULL: there is none. To
 * free().
 */
static char *next_word(const char **line, unsigned rank, unsigned offset)
{
	const char *s = *line + strspn(*line, " \t");
	char *word = NULL;
	int quoted = 0;
	size_t n;
	FILE *f = *s ? open_memstream(&word, &n) : NULL;

	for (; f && *s && (quoted || !strchr(" \t", *s)); s++)
		if (*s == '\'')
			quoted = !quoted;
		else if (s[0] == '%' && (s[1] == 't' || s[1] == 'o'))
			fprintf(f, "%u", *++s == 't' ? rank : offset);
		else
			putc(*s == '\\' && s[1] ? *++s : *s, f);
	*line = s;
	if (f && fclose(f) != 0)
		mlr_oom();
	return word;
}

int command_of_rank(const char *text, unsigned rank, struct strv *ret, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *line;

	while ((line = strsep(&rest, "\n"))) {
		const char *at = line + strspn(line, " \t");
		auto_free char *ranks = *at == '#' ? NULL : next_word(&at, 0, 0);
		unsigned offset;
		char *word;

		if (!ranks || !is_in(ranks, rank, &offset))
			continue;
		while ((word = next_word(&at, rank, offset)))
			strv_take(ret, word);
		if (ret->n > 0)
			return 0;
	}
	return mlr_fail(err, EINVAL, "--multi-prog: no line is for task %u", rank);
}

/* Shell code that does as Slurm does with a task prolog's output (srun(1), --task-prolog). */
#define WITH_PROLOG                                                                   \
	"said=$(\"$1\" </dev/null) || {\n"                                            \
	"echo \"mlrun: --task-prolog $1: exit status $?\" >&2; exit 125; }\n"         \
	"shift\n"                                                                     \
	"is_name() { case $1 in '' | [0-9]* | *[!A-Za-z0-9_]*) return 1 ;; esac; }\n" \
	"while IFS= read -r line; do case $line in\n"                                 \
	"\"export \"*=*) line=${line#export }\n"                                      \
	"is_name \"${line%%=*}\" && export \"$line\" ;;\n"                            \
	"\"unset \"*) is_name \"${line#unset }\" && unset \"${line#unset }\" ;;\n"    \
	"\"print \"*) printf '%s\\n' \"${line#print }\" ;;\n"                         \
	"esac; done <<END\n$said\nEND\n"                                              \
	"unset -f is_name; unset said line\n"                                         \
	"exec \"$@\""

static void add_command(const struct command_task *task, struct strv *ret)
{
	static const char *const shell[] = { "/bin/sh", "-c", WITH_PROLOG, "mlrun" };

	for (size_t i = 0; task->prolog && i < ARRAY_LEN(shell); i++)
		strv_add(ret, shell[i]);
	if (task->prolog)
		strv_add(ret, task->prolog);
	for (int i = 0; i < task->argc; i++)
		strv_add(ret, task->argv[i]);
}

static void add_file(const char *path, struct strv *argv)
{
	if (!path)
		return;
	strv_add(argv, "-v");
	strv_addf(argv, "%s:%s:ro", path, path);
}

/* Does the name mean the container of a running step of this job, which has no name: JOB.STEP?
 * Others are names, as of versions. */
static int is_step(const char *const *s, const struct command_task *task)
{
	unsigned job, step;
	int n = 0;

	return s[SPANK_NAME] && !s[SPANK_IMAGE] &&
		sscanf(s[SPANK_NAME], "%u.%u%n", &job, &step, &n) == 2 && job == task->job &&
		(!s[SPANK_NAME][n] || strcmp(s[SPANK_NAME] + n, ":exec") == 0);
}

/* The container is as it is: only variables and a working directory can be given. */
static int join_step(const char *const *s, const struct command_task *task, struct strv *ret,
	struct mlr_error *err)
{
	strv_addf(ret, "--join=%.*s", (int)strcspn(s[SPANK_NAME], ":"), s[SPANK_NAME]);
	add_workdir(s, ret);
	TRY(s[SPANK_ENV] ? add_env(s[SPANK_ENV], ret, err) : 0);
	strv_add(ret, "--");
	add_command(task, ret);
	return 0;
}

int command_make(const char *const *settings, const struct spank_site *site,
	const struct command_task *task, struct strv *ret, struct mlr_error *err)
{
	auto_free char *image = NULL;
	int r;

	TRY(check_switches(settings, err));
	if (settings[SPANK_MPI] && !config_is_among(CONFIG_MPI_WORDS, settings[SPANK_MPI]))
		return mlr_fail(err, EINVAL, "--container-mpi takes %s, not '%s'", CONFIG_MPI_WORDS,
			settings[SPANK_MPI]);
	strv_add_words(ret, "mlrun", "exec", "--dialect=pyxis");
	if (task->store)
		strv_addf(ret, "--store=%s", task->store);
	if (is_step(settings, task))
		return join_step(settings, task, ret, err);
	add_switches(settings, site, ret);
	add_file(task->script, ret);
	add_file(task->prolog, ret);
	r = settings[SPANK_MOUNTS] ? add_mounts(settings[SPANK_MOUNTS], ret, err) : 0;
	if (r == 0 && settings[SPANK_UNSHARE])
		r = add_unshare(settings[SPANK_UNSHARE], ret, err);
	if (r == 0 && settings[SPANK_ENV])
		r = add_env(settings[SPANK_ENV], ret, err);
	if (r == 0)
		r = add_root(settings, site, task, &image, ret, err);
	TRY(r);
	strv_add(ret, "--"); /* whatever variables of the job say, the image is no option */
	strv_add(ret, image);
	add_command(task, ret);
	return 0;
}
