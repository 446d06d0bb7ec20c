/* A plan as people read it. */
#include "plan/plan.h"

#include "base/escape.h"

/* Text from images may hold anything; what could steer a terminal is shown as an escape. */
static void put(FILE *out, const char *s)
{
	char one[ESCAPE_SIZE];

	while (*s) {
		s += escape_next(s, one);
		fputs(one, out);
	}
}

static void put_list(FILE *out, const struct strv *l)
{
	for (size_t i = 0; i < l->n; i++) {
		fputc(' ', out);
		put(out, l->v[i]);
	}
	fputc('\n', out);
}

static void print_mount(const struct plan_mount *m, FILE *out)
{
	static const char *const kinds[] = { "bind", "tmpfs", "copy", "symlink", "devpts",
		"overlay", "proc", "sysfs", "mqueue" };

	fprintf(out, "  %-8s %-8s ", m->origin, kinds[m->kind]);
	if (m->source) {
		put(out, m->source);
		fputs(" -> ", out);
	}
	put(out, m->target);
	fprintf(out, "%s%s%s%s%s\n", m->flags & PLAN_READONLY ? " ro" : "",
		m->flags & PLAN_NOSUID ? " nosuid" : "", m->flags & PLAN_NODEV ? " nodev" : "",
		m->flags & PLAN_NOEXEC ? " noexec" : "",
		m->flags & PLAN_OPTIONAL ? " (if there)" : "");
}

static void print_env(const struct plan_env *e, FILE *out)
{
	fprintf(out, "  %-8s ", e->origin);
	put(out, e->key);
	fputc('=', out);
	put(out, e->value);
	if (e->shadowed) {
		fprintf(out, "   (instead of %s's '", e->shadowed_by);
		put(out, e->shadowed);
		fputs("')", out);
	}
	fputc('\n', out);
}

void plan_print(const struct plan *p, FILE *out)
{
	fprintf(out, "image      ");
	put(out, p->image);
	fprintf(out, " (%s)\n", p->platform ? p->platform : "platform unknown");
	const char *writes =
		p->root == PLAN_ROOT_READ_ONLY ? "read-only"
		: p->root == PLAN_ROOT_KEPT    ? "what is written is kept"
					       : "written to in memory, forgotten at exit";

	if (p->squashfs)
		fprintf(out, "root       squashfs file, served by FUSE, %s\n           %s\n", writes,
			p->squashfs);
	else
		fprintf(out, "root       overlay of %zu %s, %s\n", p->lowers.n,
			p->lowers.n == 1 ? "tree" : "trees", writes);
	for (size_t i = 0; i < p->lowers.n; i++)
		fprintf(out, "           %s\n", p->lowers.v[i]);
	if (p->root_choice)
		fprintf(out, "           %s\n", p->root_choice);
	if (p->kept) {
		fprintf(out, "           kept in ");
		put(out, p->kept);
		fputc('\n', out);
	}
	fprintf(out, "identity   uid %u (%u outside), gid %u (%u outside), no_new_privs\n",
		(unsigned)p->id.uid, (unsigned)p->id.host_uid, (unsigned)p->id.gid,
		(unsigned)p->id.host_gid);
	if (p->image_user) {
		fprintf(out, "           the image's User '");
		put(out, p->image_user);
		fprintf(out, "' is not obeyed\n");
	}
	fprintf(out, "directory  ");
	put(out, p->workdir);
	fprintf(out, " (%s)\n", p->workdir_origin);
	fprintf(out, "command    (%s)", p->argv_origin);
	put_list(out, &p->argv);

	for (size_t i = 0; i < p->notes.n; i++) {
		fputs("note       ", out);
		put(out, p->notes.v[i]);
		fputc('\n', out);
	}
	fprintf(out, "mounts, in order\n");
	for (size_t i = 0; i < p->n_mounts; i++)
		print_mount(&p->mounts[i], out);
	fprintf(out, "environment\n");
	for (size_t i = 0; i < p->n_env; i++)
		print_env(&p->env[i], out);
	fprintf(out, "caller's variables left out\n ");
	put_list(out, &p->dropped);
}
