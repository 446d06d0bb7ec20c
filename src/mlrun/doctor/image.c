#include "doctor/image.h"

#include "base/config_value.h"
#include "base/machine.h"
#include "doctor/check.h"
#include "exec/parts.h"
#include "gpu/inject/linker.h"
#include "mpi/place.h"
#include "pull/space.h"
#include "rootfs/lookup.h"

/* --- labels ---------------------------------------------------------------------- */

static const struct {
	const char *name, *values;
	const char *words; /* the same, for people */
} labels[] = {
	{ LABEL_GPU, "auto|all|none", "auto, all or none" },
	{ LABEL_MPI, CONFIG_MPI_WORDS, "auto, none or host" },
};

static void check_label(const char *name, const char *value, struct doctor_report *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
		if (strcmp(labels[i].name, name) != 0)
			continue;
		if (config_is_among(labels[i].values, value))
			doctor_add(ret, "labels", DOCTOR_PASS, "%s=%s", name, value);
		else
			doctor_add(ret, "labels", DOCTOR_WARNING,
				"%s='%s' is ignored: it is not %s", name, value, labels[i].words);
		return;
	}
	doctor_add(ret, "labels", DOCTOR_WARNING,
		"%s is ignored: mlrun reads org.mlrun.gpu and org.mlrun.mpi", name);
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

static void tell_interpreter(const char *program, const char *name, struct doctor_report *ret)
{
	doctor_add(ret, "command", DOCTOR_FAILURE,
		"'%s' is a script for '%.*s', which the image does not have", program,
		(int)strcspn(name, "\r"), name);
	if (strchr(name, '\r'))
		doctor_mend(ret, DOCTOR_YOU,
			"the script has Windows' line ends: dos2unix(1) removes them");
}

static void check_interpreter(
	const struct plan *p, const char *program, char *head, struct doctor_report *ret)
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

static char *name_libc(const struct gpu_image *image)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;
	char text[GPU_VERSION_TEXT];

	gpu_image_libc_read(image, &l);
	if (!gpu_version_is_known(&l.version))
		return xstrdup("glibc");
	return xasprintf("glibc %s", gpu_version_print(&l.version, text));
}

static void check_loader(const struct plan *p, const struct gpu_image *image, const char *program,
	const char *loader, struct doctor_report *ret)
{
	auto_free char *libc = NULL;

	if (is_program(p, loader) <= 0) {
		doctor_add(ret, "loader", DOCTOR_FAILURE,
			"'%s' needs '%s', which the image does not have", program, loader);
		return;
	}
	libc = strstr(loader, "musl") ? xstrdup("musl") : name_libc(image);
	doctor_add(ret, "loader", DOCTOR_PASS, "%s (%s)", loader, libc);
}

static void check_program(const struct plan *p, const struct gpu_image *image, const char *program,
	struct doctor_report *ret)
{
	auto_close int fd = rootfs_open(p, program);
	char head[ELF_HEAD + 1] = "", loader[PATH_MAX];
	ssize_t n = fd < 0 ? 0 : file_read_full(fd, head, ELF_HEAD);

	if (n > 2 && strncmp(head, "#!", 2) == 0)
		check_interpreter(p, program, head, ret);
	else if (n > 0 && elf_interpreter(head, (size_t)n, loader))
		check_loader(p, image, program, loader, ret);
	else if (fd >= 0 && (n < 4 || memcmp(head, "\177ELF", 4) != 0))
		doctor_add(ret, "command", DOCTOR_FAILURE,
			"'%s' is neither a program nor a script that begins with #!", program);
}

static void check_command(const struct plan *p, const struct gpu_image *image,
	const struct oci_config *c, struct doctor_report *ret)
{
	const struct strv *words =
		c->entrypoint.n > 0 && *c->entrypoint.v[0] ? &c->entrypoint : &c->cmd;
	auto_free char *dir = xasprintf("/%s", c->working_dir ? c->working_dir : "");
	auto_free char *program = NULL;

	if (words->n == 0) {
		doctor_add(ret, "command", DOCTOR_PASS, "the image names none");
		return;
	}
	program = find_program(p, dir, words->v[0]);
	if (!program) {
		doctor_add(ret, "command", DOCTOR_FAILURE,
			"'%s' is not in the image, or may not be executed", words->v[0]);
		return;
	}
	doctor_add(ret, "command", DOCTOR_PASS, "%s", program);
	check_program(p, image, program, ret);
}

/* --- MPI ---------------------------------------------------------------------------- */

static void find_mpi(const struct gpu_image *files, const char *library_path, const char *path,
	struct mpi_place *ret)
{
	auto_call(mpi_tree_done) struct mpi_tree tree = { 0 };
	auto_strv struct strv usual = STRV_INIT;

	mpi_tree_begin(&tree, files, library_path);
	mpi_place_usual(path, &usual);
	mpi_place_find(&tree, &usual, NULL, ret);
}

static void find_machines_mpi(const char *root, struct mpi_place *ret)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	struct gpu_image machine;

	if (gpu_dir_open(*root ? root : "/", &d) < 0)
		return;
	mpi_tree_of(&d, &machine);
	find_mpi(&machine, getenv("LD_LIBRARY_PATH"), NULL, ret);
}

/* A recorded machine is a directory with the names of its libraries. */
static int open_nothing(void *ctx, const char *path)
{
	return -ENOENT;
}

static int list_names(void *ctx, const char *path, struct strv *ret)
{
	const struct strv *names = ctx;

	strv_add_all(ret, names);
	return 0;
}

static void find_recorded_mpi(const struct strv *libs, struct mpi_place *ret)
{
	const struct gpu_image recorded = {
		.open = open_nothing, .list = list_names, .ctx = (struct strv *)libs
	};

	find_mpi(&recorded, NULL, NULL, ret);
}

static void compare_mpi(const struct mpi_place *image, const struct mpi_place *host,
	const char *machine, struct doctor_report *ret)
{
	if (image->family == host->family) {
		doctor_add(ret, "mpi", DOCTOR_PASS, "%s (%s), as %s has (%s)",
			mpi_family_name(image->family), image->name, machine, host->name);
		return;
	}
	doctor_add(ret, "mpi", DOCTOR_WARNING,
		"the image has %s (%s), %s %s (%s): its mpirun starts no ranks of the image",
		mpi_family_name(image->family), image->name, machine, mpi_family_name(host->family),
		host->name);
	doctor_mend(ret, DOCTOR_YOU,
		"start ranks with srun --mpi=pmix, or mpirun in the image on one node");
}

static void look_at_mpi(const struct plan *p, const struct gpu_image *files, const char *root,
	const struct strv *libs, struct doctor_report *ret)
{
	auto_call(mpi_place_done) struct mpi_place image = MPI_PLACE_INIT, host = MPI_PLACE_INIT;

	find_mpi(files, plan_env_get(p, "LD_LIBRARY_PATH"), plan_env_get(p, "PATH"), &image);
	if (root)
		find_machines_mpi(root, &host);
	else if (libs)
		find_recorded_mpi(libs, &host);
	if (image.family == MPI_NONE)
		doctor_add(ret, "mpi", DOCTOR_NOT_NEEDED, "the image carries no MPI");
	else if (host.family == MPI_NONE)
		doctor_add(ret, "mpi", DOCTOR_PASS, "%s (%s); %s", mpi_family_name(image.family),
			image.name,
			root           ? "this machine has none, srun --mpi=pmix starts ranks"
				: libs ? "that machine has none in its linker's cache, srun "
					 "--mpi=pmix starts ranks"
				       : "the profile does not tell the machine's");
	else
		compare_mpi(&image, &host, root ? "this machine" : "that machine", ret);
}

/* Room for more where the image lies: the nodes of a cluster see the same store. */
static void check_space(const struct plan *p, struct doctor_report *ret)
{
	auto_close int fd =
		open(p->squashfs ? p->squashfs : p->lowers.v[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	enum doctor_verdict verdict;
	struct space_room room;

	if (fd < 0 || space_room(fd, &room, NULL) < 0)
		return;
	verdict = room.bytes < SPACE_FEW_BYTES || room.inodes < SPACE_FEW_INODES ? DOCTOR_WARNING
										 : DOCTOR_PASS;
	if (room.inodes < SPACE_FEW_INODES)
		doctor_add(ret, "space", verdict,
			"room for %llu more files is left beside the image (%s)",
			(unsigned long long)room.inodes, room.inodes_by);
	else
		doctor_add(ret, "space", verdict, "%llu MB are left beside the image (%s)",
			(unsigned long long)room.bytes / 1000000, room.bytes_by);
	if (verdict == DOCTOR_WARNING)
		doctor_mend(ret, DOCTOR_YOU, "mlrun prune --older-than 30d");
}

void doctor_image(const struct plan *p, const struct gpu_image *image, const struct oci_config *c,
	const char *root, const struct strv *libs, struct doctor_report *ret)
{
	for (size_t i = 0; i + 1 < c->labels.n; i += 2)
		if (strncmp(c->labels.v[i], "org.mlrun.", 10) == 0)
			check_label(c->labels.v[i], c->labels.v[i + 1], ret);
	check_command(p, image, c, ret);
	look_at_mpi(p, image, root, libs, ret);
	check_space(p, ret);
}

void doctor_image_start(const char *image, const char *store, struct doctor_report *ret)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (doctor_try_start(image, store, &err) == 0)
		doctor_add(ret, "start", DOCTOR_PASS, "a container of it starts here");
	else
		doctor_add_error(ret, "start", DOCTOR_FAILURE, &err, NULL);
}
