#include "base/account.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM    "mlrun-account"
#define ANSWER_MAX 8192 /* bytes: three lines, one of them a path */

void account_done(struct account *a)
{
	free(a->user);
	free(a->home);
	free(a->group);
	*a = (struct account)ACCOUNT_INIT;
}

/*
 * The line "name:password:id:…" of an id, cut into its fields. fgetpwent(3) would do but asks for the
 * file's position at every line. "+name" and "-name" are of the old compat service, no names.
 *
 * Returns how many fields there are; 0: nobody has this id.
 */
static size_t find_line(FILE *f, unsigned long id, char **line, char **field, size_t max)
{
	size_t room = 0;

	while (getline(line, &room, f) > 0) {
		char *s = *line, *end;
		size_t n = 0;

		s[strcspn(s, "\n")] = '\0';
		while (n < max && (field[n] = strsep(&s, ":")))
			n++;
		if (n >= 3 && field[0][0] && !strchr("+-#", field[0][0]) && field[2][0] >= '0' &&
			field[2][0] <= '9' && strtoul(field[2], &end, 10) == id && !*end)
			return n;
	}
	return 0;
}

static void read_passwd(const char *path, uid_t uid, struct account *ret)
{
	FILE *f = path ? fopen(path, "re") : NULL;
	auto_free char *line = NULL;
	char *field[7];

	if (f && find_line(f, uid, &line, field, ARRAY_LEN(field)) >= 6) {
		ret->user = xstrdup(field[0]);
		ret->home = xstrdup(field[5]);
	}
	if (f)
		fclose(f);
}

static void read_group(const char *path, gid_t gid, struct account *ret)
{
	FILE *f = path ? fopen(path, "re") : NULL;
	auto_free char *line = NULL;
	char *field[4];

	if (f && find_line(f, gid, &line, field, ARRAY_LEN(field)) > 0)
		ret->group = xstrdup(field[0]);
	if (f)
		fclose(f);
}

void account_read(
	const char *passwd, uid_t uid, const char *group, gid_t gid, struct account *ret)
{
	*ret = (struct account)ACCOUNT_INIT;
	read_passwd(passwd, uid, ret);
	read_group(group, gid, ret);
}

/* A line of the answer; an empty one is nobody. */
static char *take_line(char **text)
{
	char *line = strsep(text, "\n");

	return line && *line ? xstrdup(line) : NULL;
}

/* Start the program with nothing but its arguments and a pipe. Returns its pid and the pipe's end. */
static pid_t start(char *const *argv, int *ret)
{
	auto_free char *path = program_path(PROGRAM);
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	auto_close int from = -1, to = -1;
	int pair[2], code;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -1;
	from = pair[0];
	to = pair[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to, 1);
	code = posix_spawn(&pid, path, &actions, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	if (code != 0) {
		mlr_debug("'%s': %s", path, strerror(code));
		return -1;
	}
	*ret = take_fd(&from);
	return pid;
}

static void ask(uid_t uid, gid_t gid, struct account *a)
{
	char uid_text[16], gid_text[16], answer[ANSWER_MAX];
	char *const argv[] = { (char *)PROGRAM, uid_text, gid_text, NULL };
	auto_close int from = -1;
	auto_call(account_done) struct account got = ACCOUNT_INIT;
	char *text = answer;
	ssize_t n;
	pid_t pid;

	snprintf(uid_text, sizeof(uid_text), "%u", (unsigned)uid);
	snprintf(gid_text, sizeof(gid_text), "%u", (unsigned)gid);
	pid = start(argv, &from);
	if (pid < 0)
		return;
	n = file_read_full(from, answer, sizeof(answer) - 1);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	answer[n > 0 ? n : 0] = '\0';
	got.user = take_line(&text);
	got.home = take_line(&text);
	got.group = take_line(&text);
	if (!a->user) {
		a->user = take_ptr(&got.user);
		a->home = take_ptr(&got.home);
	}
	if (!a->group)
		a->group = take_ptr(&got.group);
}

void account_find(uid_t uid, gid_t gid, struct account *ret)
{
	account_read("/etc/passwd", uid, "/etc/group", gid, ret);
	if (!ret->user || !ret->group)
		ask(uid, gid, ret);
}

void account_find_user(uid_t uid, struct account *ret)
{
	account_read("/etc/passwd", uid, NULL, 0, ret);
	if (!ret->user)
		ask(uid, 0, ret);
}
