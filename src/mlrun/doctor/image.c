#include "doctor/image.h"

#include "base/cleanup.h"
#include "base/elf.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/path.h"
#include "exec/parts.h"
#include "gpu/elf.h"
#include "rootfs/lookup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void tell(struct gpu_report *r, enum gpu_verdict verdict, const char *subject, char *text)
{
	gpu_report_add(r, verdict, subject, text, NULL);
}

/* --- labels ---------------------------------------------------------------------- */

static const struct {
	const char *name, *values; /* separated by '|' */
	const char *words;         /* the same, for people */
} labels[] = {
	{ LABEL_GPU, "auto|all|none", "auto, all or none" },
	{ LABEL_MPI, "auto|none", "auto or none" },
};

static int is_one_of(const char *values, const char *value)
{
	size_t len = strlen(value);

	for (const char *s = values; *s; s += strcspn(s, "|"), s += *s == '|')
		if (strcspn(s, "|") == len && strncmp(s, value, len) == 0)
			return 1;
	return 0;
}

static void check_label(const char *name, const char *value, struct gpu_report *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
		if (strcmp(labels[i].name, name) != 0)
			continue;
		if (is_one_of(labels[i].values, value))
			tell(ret, GPU_OK, "labels", xasprintf("%s=%s", name, value));
		else
			tell(ret, GPU_DOUBTFUL, "labels",
				xasprintf("%s='%s' is ignored: it is not %s", name, value,
					labels[i].words));
		return;
	}
	tell(ret, GPU_DOUBTFUL, "labels",
		xasprintf("%s is ignored: mlrun reads org.mlrun.gpu and org.mlrun.mpi", name));
}

/* --- the command ------------------------------------------------------------------ */

/* Is it a file that may be executed? Returns 1, 0 if it may not, or -errno. */
static int is_program(const struct plan *p, const char *path)
{
	auto_close int fd = *path == '/' ? rootfs_lookup(p, path, NULL) : -ENOENT;
	struct stat st;

	if (fd == -ENOTSUP) /* a squashfs file: modes are not seen */
		return rootfs_has(p, path) == 0 ? 1 : -ENOENT;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EACCES;
	return (st.st_mode & 0111) != 0;
}

/* The path of a command, as execvp(3) finds it in the container; NULL if it is not there. */
static char *find_program(const struct plan *p, const char *dir, const char *word)
{
	const char *path = plan_env_get(p, "PATH");
	auto_free char *copy = xstrdup(path ? path : OCI_DEFAULT_PATH);
	char *at = NULL;

	if (strchr(word, '/')) {
		auto_free char *whole =
			*word == '/' ? xstrdup(word) : xasprintf("%s/%s", dir, word);

		return is_program(p, whole) > 0 ? take_ptr(&whole) : NULL;
	}
	for (char *d = strtok_r(copy, ":", &at); d; d = strtok_r(NULL, ":", &at)) {
		auto_free char *whole = xasprintf("%s/%s", d, word);

		if (*d == '/' && is_program(p, whole) > 0)
			return take_ptr(&whole);
	}
	return NULL;
}

/* "#!/usr/bin/env python3": an interpreter and at most one argument, from 255 bytes, as execve(2)
 * reads it. The strings are part of line. */
static void read_interpreter(char *line, char **interpreter, char **argument)
{
	char *end;

	line[strcspn(line, "\n")] = '\0';
	if (strlen(line) > 255)
		line[255] = '\0';
	for (end = line + strlen(line); end > line && strchr(" \t", end[-1]); end--)
		end[-1] = '\0';
	*interpreter = line + 2 + strspn(line + 2, " \t");
	*argument = *interpreter + strcspn(*interpreter, " \t");
	if (**argument) {
		*(*argument)++ = '\0';
		*argument += strspn(*argument, " \t");
	}
}

static void tell_interpreter(const char *program, const char *name, struct gpu_report *ret)
{
	int has_cr = strchr(name, '\r') != NULL;

	gpu_report_add(ret, GPU_FAILS, "command",
		xasprintf("'%s' is a script for '%.*s', which the image does not have", program,
			(int)strcspn(name, "\r"), name),
		has_cr ? xstrdup("the script has Windows' line ends: dos2unix(1) removes them")
		       : NULL);
}

static void check_interpreter(
	const struct plan *p, const char *program, char *head, struct gpu_report *ret)
{
	char *interpreter, *argument;
	auto_free char *found = NULL;

	read_interpreter(head, &interpreter, &argument);
	if (is_program(p, interpreter) <= 0) {
		tell_interpreter(program, interpreter, ret);
		return;
	}
	/* env(1) searches for its argument, the whole of it. */
	if (strcmp(path_base(interpreter), "env") != 0 || !*argument || *argument == '-' ||
		strchr(argument, '='))
		return;
	found = find_program(p, "/", argument);
	if (!found)
		tell_interpreter(program, argument, ret);
}

/* --- the loader and the C library --------------------------------------------------- */

static char *glibc_version(const struct plan *p)
{
	static const char *const places[] = { "/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib64/libc.so.6",
		"/lib/libc.so.6", "/usr/lib/libc.so.6" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		auto_close int fd = rootfs_open(p, places[i]);
		auto_call(gpu_elf_done) struct gpu_elf e = GPU_ELF_INIT;
		char text[GPU_VERSION_TEXT];

		if (fd >= 0 && gpu_elf_read(fd, &e) == 0 && gpu_version_is_known(&e.defines))
			return xasprintf("glibc %s", gpu_version_print(&e.defines, text));
	}
	return xstrdup("glibc");
}

static void check_loader(
	const struct plan *p, const char *program, const char *loader, struct gpu_report *ret)
{
	auto_free char *libc = NULL;

	if (is_program(p, loader) <= 0) {
		tell(ret, GPU_FAILS, "loader",
			xasprintf(
				"'%s' needs '%s', which the image does not have", program, loader));
		return;
	}
	libc = strstr(loader, "musl") ? xstrdup("musl") : glibc_version(p);
	tell(ret, GPU_OK, "loader", xasprintf("%s (%s)", loader, libc));
}

static void check_program(const struct plan *p, const char *program, struct gpu_report *ret)
{
	auto_close int fd = rootfs_open(p, program);
	char head[ELF_HEAD + 1] = "", loader[PATH_MAX];
	ssize_t n = fd < 0 ? 0 : file_read_full(fd, head, ELF_HEAD);

	if (n > 2 && strncmp(head, "#!", 2) == 0)
		check_interpreter(p, program, head, ret);
	else if (n > 0 && elf_interpreter(head, (size_t)n, loader))
		check_loader(p, program, loader, ret);
	else if (fd >= 0 && (n < 4 || memcmp(head, "\177ELF", 4) != 0))
		tell(ret, GPU_FAILS, "command",
			xasprintf("'%s' is neither a program nor a script that begins with #!",
				program));
}

static void check_command(const struct plan *p, const struct oci_config *c, struct gpu_report *ret)
{
	const struct strv *words =
		c->entrypoint.n > 0 && *c->entrypoint.v[0] ? &c->entrypoint : &c->cmd;
	auto_free char *dir = xasprintf("/%s", c->working_dir ? c->working_dir : "");
	auto_free char *program = NULL;

	if (words->n == 0) {
		tell(ret, GPU_OK, "command", xstrdup("the image names none"));
		return;
	}
	program = find_program(p, dir, words->v[0]);
	if (!program) {
		tell(ret, GPU_FAILS, "command",
			xasprintf("'%s' is not in the image, or may not be executed", words->v[0]));
		return;
	}
	tell(ret, GPU_OK, "command", xasprintf("%s", program));
	check_program(p, program, ret);
}

/* --- MPI ---------------------------------------------------------------------------- */

enum mpi_family { MPI_NONE, MPI_OPEN, MPI_MPICH };

static const char *const families[] = { "no MPI", "Open MPI", "MPICH or a relative of it" };

/* Lists a directory of an image or a machine. */
struct lister {
	const struct plan *p; /* NULL: the machine */
	const char *root;
};

static void list(const struct lister *l, const char *dir, struct strv *ret)
{
	auto_free char *path = l->p ? NULL : xasprintf("%s%s", l->root, dir);
	auto_dir DIR *d = path ? file_open_dir(AT_FDCWD, path, 0) : NULL;
	struct dirent *e;

	if (l->p)
		rootfs_list(l->p, dir, ret);
	while (d && (e = readdir(d)))
		strv_add(ret, e->d_name);
}

/* By the library's names: Open MPI 1.10 has MPICH's number, but libraries of its own as well. */
static enum mpi_family family_of(const struct strv *names, char **name)
{
	enum mpi_family family = MPI_NONE;
	int is_open = 0;

	for (size_t i = 0; i < names->n; i++) {
		const char *n = names->v[i];

		is_open |= strncmp(n, "libopen-pal.so", 14) == 0;
		if (strncmp(n, "libmpi.so.", 10) != 0 && strncmp(n, "libmpich.so.", 12) != 0)
			continue;
		/* Not libmpi.so.40.30.4, but libmpi.so.40. */
		if (!*name || strlen(n) < strlen(*name)) {
			free(*name);
			*name = xstrdup(n);
		}
		family = strcmp(n, "libmpi.so.12") == 0 || strncmp(n, "libmpich", 8) == 0
			? MPI_MPICH
			: MPI_OPEN;
	}
	return family == MPI_MPICH && is_open ? MPI_OPEN : family;
}

static enum mpi_family family_in(const struct lister *l, const char *dir, char **name)
{
	auto_strv struct strv names = STRV_INIT;

	list(l, dir, &names);
	return family_of(&names, name);
}

static enum mpi_family find_mpi(const struct lister *l, const char *more, char **name)
{
	static const char places[] =
		"/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/usr/local/lib:"
		"/usr/lib64/openmpi/lib:/usr/lib64/mpich/lib:/usr/local/openmpi/lib:/usr/local/mpi/lib:"
		"/opt/openmpi/lib:/opt/mpich/lib:/opt/hpcx/ompi/lib";
	auto_free char *all = xasprintf("%s:%s", more ? more : "", places);
	char *at = NULL;

	for (char *d = strtok_r(all, ":", &at); d; d = strtok_r(NULL, ":", &at)) {
		enum mpi_family f = *d == '/' ? family_in(l, d, name) : MPI_NONE;

		if (f != MPI_NONE)
			return f;
	}
	return MPI_NONE;
}

static void check_mpi(
	const struct plan *p, const char *root, const struct strv *libs, struct gpu_report *ret)
{
	const struct lister inside = { .p = p }, outside = { .root = root };
	auto_free char *name = NULL, *host_name = NULL;
	enum mpi_family image = find_mpi(&inside, plan_env_get(p, "LD_LIBRARY_PATH"), &name);
	enum mpi_family host = root ? find_mpi(&outside, getenv("LD_LIBRARY_PATH"), &host_name)
		: libs              ? family_of(libs, &host_name)
				    : MPI_NONE;
	const char *machine = root ? "this machine" : "that machine";

	if (image == MPI_NONE)
		tell(ret, GPU_NOT_NEEDED, "mpi", xstrdup("the image carries no MPI"));
	else if (host == MPI_NONE)
		tell(ret, GPU_OK, "mpi",
			xasprintf("%s (%s); %s", families[image], name,
				root ? "this machine has none, srun --mpi=pmix starts ranks"
					: libs
					? "that machine has none in its linker's cache, srun "
					  "--mpi=pmix starts ranks"
					: "the profile does not tell the machine's"));
	else if (host == image)
		tell(ret, GPU_OK, "mpi",
			xasprintf("%s (%s), as %s has (%s)", families[image], name, machine,
				host_name));
	else
		gpu_report_add(ret, GPU_DOUBTFUL, "mpi",
			xasprintf(
				"the image has %s (%s), %s %s (%s): its mpirun starts no ranks of "
				"the image",
				families[image], name, machine, families[host], host_name),
			xstrdup("start ranks with srun --mpi=pmix, or mpirun in the image on one node"));
}

void doctor_image(const struct plan *p, const struct oci_config *c, const char *root,
	const struct strv *libs, struct gpu_report *ret)
{
	for (size_t i = 0; i + 1 < c->labels.n; i += 2)
		if (strncmp(c->labels.v[i], "org.mlrun.", 10) == 0)
			check_label(c->labels.v[i], c->labels.v[i + 1], ret);
	check_command(p, c, ret);
	check_mpi(p, root, libs, ret);
}
