/*
 * refuse NAME=ERRNO... -- COMMAND ARG...: run a command whose system calls of these names fail so,
 * as on an older kernel ("openat2=ENOSYS") or in a sandbox. Unlike a preloaded library this also
 * reaches a program that is linked statically. "seccomp@3=ENOSYS" means calls whose first argument
 * is 3.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number_of(const char *name)
{
	for (int code = 1; code < 134; code++) {
		const char *known = strerrorname_np(code);

		if (known && strcmp(known, name) == 0)
			return code;
	}
	return 0;
}

static void refuse(scmp_filter_ctx ctx, char *word)
{
	char *name = strsep(&word, "=");
	char *first = strchr(name, '@');
	const struct scmp_arg_cmp is =
		SCMP_A0(SCMP_CMP_EQ, first ? strtoull(first + 1, NULL, 10) : 0);
	int code = word ? number_of(word) : 0, nr;

	name[strcspn(name, "@")] = '\0';
	nr = seccomp_syscall_resolve_name(name);
	if (code == 0 || nr == __NR_SCMP_ERROR ||
		seccomp_rule_add_array(
			ctx, SCMP_ACT_ERRNO((uint32_t)code), nr, first ? 1 : 0, &is) < 0) {
		fprintf(stderr, "refuse: %s=%s: no system call or no error\n", name,
			word ? word : "");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		refuse(ctx, argv[i]);
	if (i + 1 >= argc || seccomp_load(ctx) < 0) {
		fprintf(stderr, "usage: refuse NAME=ERRNO... -- COMMAND ARG...\n");
		return 2;
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 2;
}
