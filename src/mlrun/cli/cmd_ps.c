/* mlrun ps: lists the containers that run on this node. */
#include "cli/cli.h"
#include "cli/common.h"

#include "base/account.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/memory.h"
#include "runtime/running.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_WIDTH 60 /* columns of the table's last column */

static const char doc[] =
	"List the caller's running containers on this node; root sees everybody's.\v"
	"`mlrun exec --join PID` runs a command in one; `mlrun containers` lists what exec "
	"--write keeps, running or not.";

static char *user_name(uid_t uid)
{
	auto_call(account_done) struct account a = ACCOUNT_INIT;

	account_find_user(uid, &a);
	return a.user ? xstrdup(a.user) : xasprintf("%u", (unsigned)uid);
}

static json_t *to_json(const struct running *r)
{
	auto_free char *user = user_name(r->container.owner);
	char started[CLI_TIME_SIZE];

	cli_time_utc(r->started, started);
	return json_pack("{s:I, s:I, s:o, s:o, s:I, s:s, s:b, s:o}", "pid", (json_int_t)r->pid,
		"processes", (json_int_t)r->processes, "image", mlr_json_text(r->container.image),
		"user", mlr_json_text(user), "uid", (json_int_t)r->container.owner, "started",
		started, "shared", r->container.keys.word[0] != '\0', "command",
		mlr_json_texts(&r->command));
}

static int print_json(const struct running_list *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(list, to_json(&l->v[i]));
	return cli_print_json(list);
}

static void print_command(const struct running *r)
{
	auto_free char *line = strv_join(&r->command, r->command.n, " ");

	if (strlen(line) > COMMAND_WIDTH)
		strcpy(line + COMMAND_WIDTH - 3, "...");
	cli_print_safe(line);
	putchar('\n');
}

static int print_table(const struct running_list *l, int with_user)
{
	int image = (int)strlen("IMAGE"), user = (int)strlen("USER");

	for (size_t i = 0; i < l->n; i++) {
		auto_free char *name = user_name(l->v[i].container.owner);

		cli_widen(&image, l->v[i].container.image);
		cli_widen(&user, name);
	}
	printf("%7s  %9s  ", "PID", "PROCESSES");
	if (with_user)
		printf("%-*s  ", user, "USER");
	printf("%-*s  %-16s  %s\n", image, "IMAGE", "STARTED", "COMMAND");
	for (size_t i = 0; i < l->n; i++) {
		const struct running *r = &l->v[i];
		auto_free char *name = user_name(r->container.owner);
		char started[CLI_TIME_SIZE];

		cli_time_local(r->started, started);
		printf("%7ld  %9zu  ", (long)r->pid, r->processes);
		if (with_user)
			printf("%-*s  ", user, name);
		cli_print_safe(r->container.image);
		printf("%*s  %-16s  ", image - (int)strlen(r->container.image), "", started);
		print_command(r);
	}
	return 0;
}

int cmd_ps(int argc, char **argv)
{
	auto_call(running_list_done) struct running_list l = RUNNING_LIST_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct cli_listing a = { 0 };

	cli_parse_listing(argc, argv, doc, &a);
	if (running_find(&l, &err) < 0)
		return cli_fail(&err);
	return a.json ? print_json(&l) : print_table(&l, geteuid() == 0);
}
