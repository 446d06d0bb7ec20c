/* Prints a plan for people. */
#include "plan/explain.h"

#include "base/escape.h"
#include "plan/capability.h"

/* Text from images may contain anything: characters that could control a terminal are escaped. */
static void put_list(FILE *out, const struct strv *l)
{
	for (size_t i = 0; i < l->n; i++) {
		fputc(' ', out);
		escape_print(out, l->v[i]);
	}
	fputc('\n', out);
}

/* Print what a mount covers: "over the image's directory of 12 entries". */
static void print_seen(const struct plan_seen *s, const struct plan_mount *on, FILE *out)
{
	const char *whose = plan_origin_name(on ? on->origin : PLAN_FROM_IMAGE);

	switch (s->there) {
	case PLAN_THERE_NOTHING:
		fputs("made", out);
		break;
	case PLAN_THERE_UNKNOWN:
		fputs("not known what is there", out);
		break;
	case PLAN_THERE_DIRECTORY:
		fprintf(out, "over the %s's directory of %zu %s", whose, s->entries,
			s->entries == 1 ? "entry" : "entries");
		break;
	case PLAN_THERE_LINK:
		fprintf(out, "over the %s's link to ", whose);
		escape_print(out, s->link ? s->link : "?");
		break;
	default:
		fprintf(out, "over the %s's %s", whose,
			s->there == PLAN_THERE_FILE ? "file" : "device");
	}
}

static void print_place(const struct plan_mount *m, const struct plan_place *v, FILE *out)
{
	fputs("   (", out);
	if (v->left_out) {
		fputs(m->kind == PLAN_SYMLINK ? "left out: something is there)\n"
					      : "left out: it is not there)\n",
			out);
		return;
	}
	print_seen(&v->seen, v->on, out);
	if (v->seen.path && strcmp(v->seen.path, m->target) != 0) {
		fputs(", at ", out);
		escape_print(out, v->seen.path);
	}
	for (size_t i = 0; i < v->n_hides; i++) {
		fprintf(out, "%s %s's ", i ? "," : "; hides",
			plan_origin_name(v->hides[i]->origin));
		escape_print(out, v->hides[i]->target);
	}
	fputs(")\n", out);
}

/* Print a file's size instead of its bytes. */
static void print_size(const struct plan_mount *m, FILE *out)
{
	if (m->kind == PLAN_FILE)
		fprintf(out, " %zu %s", m->text_size, m->text_size == 1 ? "byte" : "bytes");
}

static void print_mount(const struct plan_mount *m, const struct plan_place *v, FILE *out)
{
	fprintf(out, "  %-8s %-8s ", plan_origin_name(m->origin), plan_kind_name(m->kind));
	if (m->source) {
		escape_print(out, m->source);
		fputs(" -> ", out);
	}
	escape_print(out, m->target);
	fprintf(out, "%s%s%s%s", m->flags & PLAN_READONLY ? " ro" : "",
		m->flags & PLAN_NOSUID ? " nosuid" : "", m->flags & PLAN_NODEV ? " nodev" : "",
		m->flags & PLAN_NOEXEC ? " noexec" : "");
	if (m->options) {
		fputc(' ', out);
		escape_print(out, m->options);
	}
	print_size(m, out);
	if (m->kind == PLAN_SEAL)
		fputs("   (read-only from here on)\n", out);
	else
		print_place(m, v, out);
}

static void print_mounts(const struct plan *p, const struct plan_context *c, FILE *out)
{
	struct plan_place *v = plan_places(p, c);

	fprintf(out, "mounts, in order\n");
	for (size_t i = 0; i < p->n_mounts; i++)
		print_mount(&p->mounts[i], &v[i], out);
	plan_places_free(v, p->n_mounts);
}

static void print_libraries(const struct plan *p, FILE *out)
{
	if (p->n_libraries > 0)
		fprintf(out, "libraries that the linker finds\n");
	for (size_t i = 0; i < p->n_libraries; i++) {
		const struct plan_library *l = &p->libraries[i];

		fprintf(out, "  %-8s ", plan_origin_name(l->origin));
		escape_print(out, l->name);
		fprintf(out, " (%d bits) ", l->bits);
		escape_print(out, l->path);
		fputc('\n', out);
	}
}

static void print_remarks(const struct plan *p, FILE *out)
{
	if (p->n_remarks > 0)
		fprintf(out, "decisions\n");
	for (size_t i = 0; i < p->n_remarks; i++) {
		fprintf(out, "  %-8s ", plan_origin_name(p->remarks[i].origin));
		escape_print(out, p->remarks[i].text);
		fputc('\n', out);
	}
}

static void print_files(const struct plan_context *c, FILE *out)
{
	if (c->files.n > 0)
		fprintf(out, "files that know the caller\n");
	for (size_t i = 0; i < c->files.n; i++) {
		struct plan_seen s = { 0 };

		c->look(c->ctx, c->files.v[i], 0, &s);
		fprintf(out, "  default  ");
		escape_print(out, c->files.v[i]);
		fputs("   (", out);
		print_seen(&s, NULL, out);
		fputs(")\n", out);
		plan_seen_done(&s);
	}
}

static void print_env(const struct plan_env *e, FILE *out)
{
	fprintf(out, "  %-8s ", plan_origin_name(e->origin));
	escape_print(out, e->key);
	fputc('=', out);
	escape_print(out, e->value);
	if (e->shadowed) {
		fprintf(out, "   (instead of %s's '", plan_origin_name(e->shadowed_by));
		escape_print(out, e->shadowed);
		fputs("')", out);
	}
	fputc('\n', out);
}

static void print_root(const struct plan *p, FILE *out)
{
	if (p->join) {
		fprintf(out, "container  that of process %ld, as it is: ", (long)p->join);
		escape_print(out, p->image ? p->image : "?");
		fputc('\n', out);
		return;
	}
	const char *writes = p->root == PLAN_ROOT_READ_ONLY ? "read-only"
		: p->root == PLAN_ROOT_KEPT                 ? "what is written is kept"
					    : "written to in memory, forgotten at exit";

	fprintf(out, "image      ");
	escape_print(out, p->image);
	fprintf(out, " (%s)\n", p->platform ? p->platform : "platform unknown");
	if (p->squashfs)
		fprintf(out, "root       squashfs file, served by FUSE, %s\n           %s\n",
			writes, p->squashfs);
	else
		fprintf(out, "root       overlay of %zu %s, %s\n", p->lowers.n,
			p->lowers.n == 1 ? "tree" : "trees", writes);
	for (size_t i = 0; i < p->lowers.n; i++)
		fprintf(out, "           %s\n", p->lowers.v[i]);
	if (p->kept)
		fprintf(out, "           kept in %s\n", p->kept);
	if (p->root_choice)
		fprintf(out, "           %s\n", p->root_choice);
}

static void print_identity(const struct plan *p, FILE *out)
{
	fprintf(out, "identity   uid %u (%u outside), gid %u (%u outside), no_new_privs\n",
		(unsigned)p->id.uid, (unsigned)p->id.host_uid, (unsigned)p->id.gid,
		(unsigned)p->id.host_gid);
	if (p->id.n_groups)
		fprintf(out, "           shown as uid %u, gid %u\n", (unsigned)p->id.shown_uid,
			(unsigned)p->id.shown_gid);
	if (!p->image_user)
		return;
	fprintf(out, "           the image's User '");
	escape_print(out, p->image_user);
	fprintf(out, "' is not obeyed\n");
}

static void print_limit(const struct plan_limit *l, FILE *out)
{
	const rlim_t v[] = { l->soft, l->hard };
	const char *name = plan_limit_name(l->resource);

	fprintf(out, "limit      %s", name ? name : "?");
	for (int i = 0; i < 2; i++)
		if (v[i] == RLIM_INFINITY)
			fprintf(out, "%sunlimited", i ? ":" : " ");
		else
			fprintf(out, "%s%" PRIu64, i ? ":" : " ", (uint64_t)v[i]);
	fputs(" (user)\n", out);
}

static void print_confinement(const struct plan *p, const struct plan_context *c, FILE *out)
{
	fprintf(out, "namespaces user mount%s%s%s%s%s\n", p->namespaces & PLAN_NS_PID ? " pid" : "",
		p->namespaces & PLAN_NS_IPC ? " ipc" : "",
		p->namespaces & PLAN_NS_NET ? " net" : "",
		p->namespaces & PLAN_NS_UTS ? " uts" : "",
		p->init ? "; the first process is mlrun's" : "");
	if (p->share)
		fprintf(out, "           shared with all on this node that say '%s'\n", p->share);
	if (p->hostname)
		fprintf(out, "hostname   %s\n", p->hostname);
	fprintf(out, "rights     ");
	if (!c->caps)
		fputs("no capability", out);
	for (unsigned i = 0, n = 0; i < 64; i++)
		if (c->caps >> i & 1)
			fprintf(out, "%s%s", n++ ? " " : "",
				capability_name(i) ? capability_name(i) : "?");
	fprintf(out, "\nseccomp    typing into the terminal is refused (TIOCSTI, TIOCLINUX)\n");
	if (p->seccomp) {
		fputs("           ", out);
		escape_print(out, p->seccomp);
		fputs(" (user)\n", out);
	}
	for (size_t i = 0; i < p->n_limits; i++)
		print_limit(&p->limits[i], out);
	if (p->cpus)
		fprintf(out, "limit      %.2f processors (user)\n", p->cpus / 100.0);
	if (p->memory)
		fprintf(out, "limit      %" PRIu64 " bytes of memory (user)\n", p->memory);
	for (size_t i = 0; i < p->n_keep_fds; i++)
		fprintf(out, "%s%d%s", i ? " " : "inherits   descriptors ", p->keep_fds[i],
			i + 1 == p->n_keep_fds ? "\n" : "");
}

void plan_print(const struct plan *p, const struct plan_context *c, FILE *out)
{
	print_root(p, out);
	print_identity(p, out);
	print_confinement(p, c, out);
	fprintf(out, "directory  ");
	escape_print(out, p->workdir);
	fprintf(out, " (%s)\n", plan_origin_name(p->workdir_origin));
	fprintf(out, "command    (%s)", plan_origin_name(p->argv_origin));
	put_list(out, &p->argv);

	for (size_t i = 0; i < p->notes.n; i++) {
		fputs("note       ", out);
		escape_print(out, p->notes.v[i]);
		fputc('\n', out);
	}
	if (!p->join)
		print_mounts(p, c, out);
	print_files(c, out);
	print_libraries(p, out);
	print_remarks(p, out);
	fprintf(out, "environment\n");
	for (size_t i = 0; i < p->n_env; i++)
		print_env(&p->env[i], out);
	fprintf(out, "caller's variables left out\n ");
	put_list(out, &p->dropped);
}
