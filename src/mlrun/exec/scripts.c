/* The scripts that Apptainer keeps in its images. A stranger wrote them: they run in the container
 * only, by a shell that then becomes the command. */
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
static const char *const shells[] = { "/bin/bash", "/usr/bin/bash", "/bin/sh" };

static int is_bash(const char *shell)
{
	return path_ends(shell, "/bash");
}

static const char *find_shell(const struct plan *p)
{
	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (rootfs_has(p, shells[i]) == 0)
			return shells[i];
	return NULL;
}

/* Of the names in the directory those of scripts, as paths. */
static void add_scripts(struct strv *names, struct strv *ret)
{
	strv_sort(names);
	for (size_t i = 0; i < names->n; i++)
		if (path_ends(names->v[i], ".sh"))
			strv_addf(ret, PLACE "/env/%s", names->v[i]);
}

void scripts_read_root(int root, struct strv *ret)
{
	auto_close int dir = file_open_in_root(root, PLACE "/env", O_RDONLY | O_DIRECTORY, 0);
	auto_strv struct strv names = STRV_INIT;

	for (size_t i = 0; i < ARRAY_LEN(shells) && ret->n == 0; i++) {
		auto_close int shell = file_open_in_root(root, shells[i], O_PATH, 0);

		if (shell >= 0)
			strv_add(ret, shells[i]);
	}
	if (dir >= 0 && ret->n > 0 && file_list(dir, ".", 0, &names) == 0)
		add_scripts(&names, ret);
}

void scripts_read(struct plan *p, struct oci_config *c, struct strv *ret)
{
	auto_strv struct strv names = STRV_INIT, scripts = STRV_INIT;
	const char *shell;

	if (!may_have(p, c) || rootfs_list(p, PLACE "/env", &names) < 0)
		return;
	add_scripts(&names, &scripts);
	if (scripts.n > 0 && (shell = find_shell(p))) {
		strv_add(ret, shell);
		strv_add_all(ret, &scripts);
	}
	for (size_t i = 0; i < scripts.n && ret->n == 0; i++) {
		auto_free char *text = NULL;

		if (rootfs_read(p, scripts.v[i], TEXT_MAX, &text, NULL) == 0)
			oci_enroot_read_exports(text, c);
	}
	if (c->entrypoint.n == 0 && c->cmd.n == 0 && rootfs_has(p, RUNSCRIPT) == 0)
		strv_add(&c->cmd, RUNSCRIPT);
}

/* Is it set by somebody whose word counts more than the image's, and has it a name for shells? */
static int wins(const struct plan_env *e)
{
	return e->origin != PLAN_FROM_CALLER && e->origin != PLAN_FROM_IMAGE &&
		e->origin != PLAN_FROM_DEFAULT && e->origin != PLAN_FROM_JOINED &&
		escape_is_sh_name(e->key, strlen(e->key));
}

/* Have the image's shell expand values, which travel under other names until then. An image without
 * a shell gets them as they are, with its own PATH. */
static void plan_expansions(
	const struct exec_options *o, const char *shell, struct strv *after, struct plan *p)
{
	for (size_t i = 0; i < o->expand_env.n; i++) {
		const char *text = o->expand_env.v[i], *equals = strchrnul(text, '=');
		auto_free char *key = xstrndup(text, (size_t)(equals - text));
		auto_free char *carrier = xasprintf("_mlrun_%s", key), *value = NULL;

		/* Shells know no other names. */
		if (!*equals || !escape_is_sh_name(key, strlen(key)))
			continue;
		value = shell ? xreplace(equals + 1, "\"", "\\\"")
			      : xreplace(equals + 1, "$PATH", plan_env_get(p, "PATH"));
		plan_env_set(p, shell ? carrier : key, value, PLAN_FROM_USER);
		if (shell)
			strv_addf(after, "eval \"export %s=\\\"$%s\\\"\"; unset %s", key, carrier,
				carrier);
	}
}

/* Have variables that other shells than bash drop, since they know no such names, pass by env(1):
 * "a.b", and functions that bash exports. */
static void plan_odd_names(struct strv *after, struct plan *p)
{
	auto_strv struct strv words = STRV_INIT, carriers = STRV_INIT;
	size_t n = p->n_env;

	for (size_t i = 0; i < n; i++) {
		auto_free char *carrier = xasprintf("_mlrun_%zu", i);
		auto_free char *key = escape_for_sh(p->env[i].key);

		if (escape_is_sh_name(p->env[i].key, strlen(p->env[i].key)) ||
			p->env[i].key[0] == '-')
			continue;
		plan_env_set(p, carrier, p->env[i].value, p->env[i].origin);
		strv_addf(&words, "%s=\"$%s\"", key, carrier);
		strv_take(&carriers, take_ptr(&carrier));
	}
	if (words.n > 0) {
		auto_free char *all = strv_join(&words, words.n, " ");
		auto_free char *used = strv_join(&carriers, carriers.n, " ");

		strv_addf(after, "! command -v env >/dev/null || set -- env %s \"$@\"\nunset %s",
			all, used);
	}
}

void scripts_plan(const struct exec_options *o, const struct strv *scripts, struct plan *p)
{
	auto_strv struct strv text = STRV_INIT, after = STRV_INIT;
	const char *shell = scripts->n ? scripts->v[0] : o->expand_env.n ? find_shell(p) : NULL;

	/* dash lacks this word of bash's. */
	if (shell && !is_bash(shell))
		strv_add(&text, "alias source=.");
	/* Values stay out of the text, which everybody on the machine may read. */
	for (size_t i = 0; i < p->n_env; i++)
		if (wins(&p->env[i])) {
			strv_addf(&text, "_mlrun_%s=$%s", p->env[i].key, p->env[i].key);
			strv_addf(&after, "export %s=\"$_mlrun_%s\"", p->env[i].key, p->env[i].key);
		}
	plan_expansions(o, shell, &after, p);
	if (!shell)
		return;
	if (!is_bash(shell))
		plan_odd_names(&after, p);
	strv_add(&text, "_mlrun_dir=$PWD");
	for (size_t i = 1; i < scripts->n; i++) {
		auto_free char *word = escape_for_sh(scripts->v[i]);

		strv_addf(&text, "[ ! -f %s ] || . %s", word, word);
	}
	strv_add(&text, "[ \"$PWD\" = \"$_mlrun_dir\" ] || cd \"$_mlrun_dir\"");
	strv_add_all(&text, &after);
	strv_add(&text, "exec \"$@\"");
	strv_add(&p->prelude, shell);
	strv_add(&p->prelude, "-c");
	strv_take(&p->prelude, strv_join(&text, text.n, "\n"));
	strv_addf(&p->prelude, "mlrun: exec '%s'", p->image);
	plan_remark_add(p, PLAN_FROM_IMAGE,
		"%s reads %zu scripts of " PLACE "/env before the command", shell,
		scripts->n ? scripts->n - 1 : 0);
}
