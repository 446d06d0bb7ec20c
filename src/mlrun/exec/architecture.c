#include "exec/parts.h"

#include "base/machine.h"
#include "oci/name.h"
#include "oci/platform.h"

#define ENTRY_MAX 4096 /* bytes; the kernel prints less than a page about an emulator */

/* Decode "7f454c46…"; returns the number of bytes. */
static size_t unhex(const char *s, unsigned char *out, size_t max)
{
	size_t n = 0;

	for (; n < max && strspn(s, "0123456789abcdef") >= 2; s += 2) {
		char two[3] = { s[0], s[1], '\0' };

		out[n++] = (unsigned char)strtoul(two, NULL, 16);
	}
	return n;
}

/* The rest of the line that begins with key, terminated there; NULL if missing. */
static char *line_of(char *text, const char *key)
{
	char *s = strstr(text, key);

	return s && (s == text || s[-1] == '\n')
		? xstrndup(s + strlen(key), strcspn(s, "\n") - strlen(key))
		: NULL;
}

/*
 * Does this entry (kernel, Documentation/admin-guide/binfmt-misc.rst) run programs of machine m?
 * Its interpreter must have been opened at registration ("F"), because the container lacks it.
 */
static int emulates(char *text, const struct machine *m)
{
	auto_free char *magic = line_of(text, "magic "), *flags = line_of(text, "flags: ");
	auto_free char *offset = line_of(text, "offset ");
	unsigned char head[MACHINE_ELF_HEAD] = { 0 };

	if (strncmp(text, "enabled", 7) != 0 || !magic || !flags || !strchr(flags, 'F') ||
		(offset && atoi(offset) != 0))
		return 0;
	return machine_of_elf(head, unhex(magic, head, sizeof(head))) == m;
}

/* The name of an emulator for m, to free(). */
static char *find_emulator(const char *root, const struct machine *m)
{
	auto_free char *path =
		xasprintf("%s/proc/sys/fs/binfmt_misc", strcmp(root, "/") == 0 ? "" : root);
	auto_dir DIR *dir = opendir(path);
	char *found = NULL;

	for (struct dirent *e; dir && !found && (e = readdir(dir));) {
		auto_free char *text = NULL;

		if (e->d_name[0] == '.' || strcmp(e->d_name, "register") == 0 ||
			strcmp(e->d_name, "status") == 0)
			continue;
		if (file_read(dirfd(dir), e->d_name, ENTRY_MAX, &text, NULL, NULL) == 0 &&
			emulates(text, m))
			found = xstrdup(e->d_name);
	}
	return found;
}

int architecture_check(const char *root, struct plan *p, struct mlr_error *err)
{
	struct oci_platform image, host;
	char here[OCI_PLATFORM_SIZE];
	const struct machine *m;

	if (!p->platform || oci_platform_parse(p->platform, &image, NULL) < 0 ||
		strcmp(image.os, "unknown") == 0)
		return 0;
	oci_platform_host(&host);
	oci_platform_print(&host, here);
	if (strcmp(image.os, "linux") != 0)
		return mlr_fail(err, ENOEXEC,
			"the image is for %s, whose programs a Linux machine does not run",
			p->platform);
	m = machine_of_arch(image.arch);
	if (!m || machine_is_native(m))
		return 0;

	auto_free char *emulator = find_emulator(root, m);

	if (emulator) {
		plan_remark_add(p, PLAN_FROM_IMAGE,
			"the image is for %s and runs by the emulator '%s'", p->platform, emulator);
		return 0;
	}
	mlr_fail(err, ENOEXEC, "the image is for %s, this machine is %s", p->platform, here);
	if (oci_transport_is_root(oci_transport_of(p->image, NULL)))
		return -ENOEXEC;
	return mlr_hint(err,
		"mlrun pull --platform %s %s fetches the right variant, if there is one", here,
		p->image);
}
