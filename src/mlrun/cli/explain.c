#include "cli/explain.h"

#include "cli/common.h"

#include "base/cleanup.h"
#include "plan/explain.h"
#include "rootfs/lookup.h"
#include "runtime/accounts.h"
#include "runtime/privileges.h"

#include <string.h>

#define ACCOUNTS_MAX (1u << 20) /* bytes */

static void look(void *ctx, const char *path, int follow, struct plan_seen *ret)
{
	rootfs_look(ctx, path, follow, ret);
}

/* Will the image's file be replaced? Of one that cannot be looked into: yes, mostly. */
static int is_written(const struct plan *p, const char *path,
	char *(*make)(const char *old, const struct plan_identity *id))
{
	auto_free char *old = NULL, *text = NULL;

	rootfs_read(p, path, ACCOUNTS_MAX, &old, NULL);
	text = make(old, &p->id);
	return text != NULL;
}

enum cli_explain cli_explain_parse(const char *arg)
{
	if (!arg)
		return CLI_EXPLAIN_TEXT;
	return strcmp(arg, "json") == 0 ? CLI_EXPLAIN_JSON : CLI_EXPLAIN_NO;
}

int cli_explain_print(const struct plan *p, enum cli_explain how)
{
	struct plan_context c = { .look = look, .ctx = (void *)p, .caps = privileges_kept(p) };
	int status = 0;

	if (!p->join && is_written(p, "/etc/passwd", accounts_passwd))
		strv_add(&c.files, "/etc/passwd");
	if (!p->join && is_written(p, "/etc/group", accounts_group))
		strv_add(&c.files, "/etc/group");
	if (how == CLI_EXPLAIN_JSON)
		status = cli_print_json(plan_json(p, &c));
	else
		plan_print(p, &c, stdout);
	strv_done(&c.files);
	return status;
}
