/* mlrun shell: runs an interactive shell in an image. */
#include "cli/cli.h"
#include "cli/exec_options.h"

#include "runtime/runtime.h"

/* The image's name for a prompt, to free(): its last part, without "latest" and characters special
 * to shells. */
static char *short_name(const char *image)
{
	const char *last = path_base(image), *at = strchr(image, '@');
	size_t len = at && at > last ? (size_t)(at - last) : strlen(last);
	char *name = xstrndup(last, len), *s;

	s = strstr(name, ":latest");
	if (s && !s[7])
		*s = '\0';
	for (s = name; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr(".:_-", *s))
			*s = '_';
	return name;
}

/* Each shell has its own notation for the working directory; the last one suits every POSIX
 * shell. */
static char *prompt_for(const char *shell, const char *name)
{
	if (strcmp(shell, "bash") == 0)
		return xasprintf("[%s] \\w \\$ ", name);
	if (strcmp(shell, "zsh") == 0)
		return xasprintf("[%s] %%~ %%# ", name);
	return xasprintf("[%s] ${PWD} $ ", name);
}

/* Keep a prompt set by the image, the configuration or -e. Debian's bash overrides every prompt,
 * but shows debian_chroot. */
static void set_prompt(struct plan *p, const char *shell)
{
	auto_free char *name = short_name(p->image), *prompt = NULL;
	enum plan_origin origin = plan_env_origin(p, "PS1");

	if (origin == PLAN_FROM_IMAGE || plan_origin_is_asked(origin))
		return;
	prompt = prompt_for(shell, name);
	plan_env_set(p, "PS1", prompt, PLAN_FROM_DEFAULT);
	if (!plan_env_get(p, "debian_chroot"))
		plan_env_set(p, "debian_chroot", name, PLAN_FROM_DEFAULT);
}

int cli_become_shell(struct plan *p, struct mlr_error *err)
{
	/* A prelude's shell is in the image, and would end if the caller's were not. */
	const char *const shells[] = { p->prelude.n ? p->prelude.v[0] : p->argv.v[0], "bash",
		"sh" };
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_LEN(shells) && r == -ENOENT; i++) {
		char *name = xstrdup(shells[i]);

		free(p->argv.v[0]);
		p->argv.v[0] = name;
		set_prompt(p, name);
		r = runtime_exec(p, err);
	}
	if (r == -ENOENT)
		mlr_fail(err, ENOENT, "the image has no shell");
	return r;
}

const char *cli_callers_shell(void)
{
	const char *path = getenv("SHELL"), *slash = path ? strrchr(path, '/') : NULL;

	return slash && slash[1] ? slash + 1 : "bash";
}

int cmd_shell(int argc, char **argv)
{
	static struct cli_exec x = { .command_optional = 1 };
	auto_strv struct strv command = STRV_INIT;

	cli_exec_parse(argc, argv, "IMAGE [--] [ARG...]",
		"Start an interactive shell in an image: the caller's own ($SHELL) where the image has "
		"it, else bash, else sh.\vARGs are the shell's. The image's Entrypoint is not run. All "
		"else is as with mlrun exec.",
		&x);
	strv_add(&command, cli_callers_shell());
	for (char *const *s = x.exec.command; s && *s; s++)
		strv_add(&command, *s);
	x.exec.command = strv_argv(&command);
	if (!x.exec.join)
		x.exec.entrypoint = "";
	return cli_exec_run(&x, cli_become_shell);
}
