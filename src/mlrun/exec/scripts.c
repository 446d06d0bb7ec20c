/*
 * The scripts that Apptainer keeps in its images, in /.singularity.d: env/NAME.sh set variables,
 * one after the other, and runscript is what runs without a command. A stranger wrote them: they
 * run in the container only, in a shell of its own, which then becomes the command.
 */
#include "exec/parts.h"

#include "base/escape.h"
#include "oci/enroot.h"
#include "oci/name.h"
#include "rootfs/lookup.h"

#define PLACE     "/.singularity.d"
#define RUNSCRIPT PLACE "/runscript"
#define TEXT_MAX  (1u << 20) /* bytes of a script */

/* Could the image have scripts? Looking into a squashfs file of a store takes a process, so one has
 * them only if its configuration names them. */
static int may_have(const struct plan *p, const struct oci_config *c)
{
	struct stat st;

	if (p->squashfs)
		return oci_transport_is_root(oci_transport_of(p->image, NULL)) ||
			(c->entrypoint.n && path_below(c->entrypoint.v[0], PLACE));
	for (size_t i = 0; i < p->lowers.n; i++) {
		auto_free char *path = xasprintf("%s" PLACE, p->lowers.v[i]);

		if (lstat(path, &st) == 0)
			return 1;
	}
	return 0;
}

/* bash before sh, whatever sh is: Apptainer's interpreter knows bash's words. */
static const char *find_shell(const struct plan *p)
{
	static const char *const shells[] = { "/bin/bash", "/usr/bin/bash", "/bin/sh" };

	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (rootfs_has(p, shells[i]) == 0)
			return shells[i];
	return NULL;
}

/* Without a shell, what a script assigns plainly counts. */
static void read_plain(const struct plan *p, const struct strv *names, struct oci_config *c)
{
	for (size_t i = 0; i < names->n; i++) {
		auto_free char *path = xasprintf(PLACE "/env/%s", names->v[i]), *text = NULL;

		if (rootfs_read(p, path, TEXT_MAX, &text, NULL) == 0)
			oci_enroot_read_exports(text, c);
	}
}

void scripts_read(struct plan *p, struct oci_config *c, struct strv *ret)
{
	auto_strv struct strv names = STRV_INIT, scripts = STRV_INIT;
	const char *shell;

	if (!may_have(p, c) || rootfs_list(p, PLACE "/env", &names) < 0)
		return;
	strv_sort(&names);
	for (size_t i = 0; i < names.n; i++)
		if (path_ends(names.v[i], ".sh"))
			strv_add(&scripts, names.v[i]);
	shell = scripts.n ? find_shell(p) : NULL;
	if (shell) {
		strv_add(ret, shell);
		strv_add_all(ret, &scripts);
	} else
		read_plain(p, &scripts, c);
	if (c->entrypoint.n == 0 && c->cmd.n == 0 && rootfs_has(p, RUNSCRIPT) == 0)
		strv_add(&c->cmd, RUNSCRIPT);
}

/* Is it set by somebody whose word counts more than the image's, and has it a name for shells? */
static int wins(const struct plan_env *e)
{
	const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	return e->origin != PLAN_FROM_CALLER && e->origin != PLAN_FROM_IMAGE &&
		e->origin != PLAN_FROM_DEFAULT && !isdigit((unsigned char)e->key[0]) &&
		e->key[strspn(e->key, letters)] == '\0';
}

void scripts_plan(const struct strv *scripts, struct plan *p)
{
	auto_free char *text = NULL;
	size_t size;
	FILE *f;

	if (scripts->n == 0)
		return;
	f = open_memstream(&text, &size);
	if (!f)
		mlr_oom();
	/* dash lacks this word of bash's; as a function it would be an error in other shells. */
	fputs("command -v source >/dev/null || eval 'source() { . \"$@\"; }'\n", f);
	/* Values stay out of the text, which everybody on the machine may read. */
	for (size_t i = 0; i < p->n_env; i++)
		if (wins(&p->env[i]))
			fprintf(f, "_mlrun_%s=$%s\n", p->env[i].key, p->env[i].key);
	for (size_t i = 1; i < scripts->n; i++) {
		auto_free char *path = xasprintf(PLACE "/env/%s", scripts->v[i]);
		auto_free char *word = escape_for_sh(path);

		fprintf(f, "[ ! -f %s ] || . %s\n", word, word);
	}
	for (size_t i = 0; i < p->n_env; i++)
		if (wins(&p->env[i]))
			fprintf(f, "export %s=\"$_mlrun_%s\"\n", p->env[i].key, p->env[i].key);
	fputs("exec \"$@\"\n", f);
	if (fclose(f) != 0)
		mlr_oom();
	strv_add(&p->prelude, scripts->v[0]);
	strv_add(&p->prelude, "-c");
	strv_add(&p->prelude, text);
	strv_addf(&p->prelude, "mlrun: exec '%s'", p->image);
	plan_remark_add(p, PLAN_FROM_IMAGE,
		"%s reads %zu scripts of " PLACE "/env before the command", scripts->v[0],
		scripts->n - 1);
}
