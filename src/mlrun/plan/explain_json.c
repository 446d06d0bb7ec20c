/* Prints a plan for programs. Every key is always present. */
#include "plan/explain.h"

#include "base/json.h"
#include "plan/capability.h"

static json_t *flag(const struct plan_mount *m, enum plan_flag f)
{
	return json_boolean(m->flags & f);
}

/* Add the keys that describe what was there before. */
static void add_seen(json_t *o, const struct plan_seen *s)
{
	json_object_set_new(o, "there", json_string(plan_there_name(s->there)));
	json_object_set_new(o, "entries",
		s->there == PLAN_THERE_DIRECTORY ? json_integer((json_int_t)s->entries)
						 : json_null());
	json_object_set_new(o, "link", mlr_json_text(s->link));
}

static json_t *mount_of(const struct plan_mount *m, const struct plan_place *v)
{
	json_t *o =
		json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}",
			"origin", plan_origin_name(m->origin), "kind", plan_kind_name(m->kind),
			"source", mlr_json_text(m->source), "target", mlr_json_text(m->target),
			"path", mlr_json_text(v->seen.path ? v->seen.path : m->target), "options",
			mlr_json_text(m->options), "size",
			m->kind == PLAN_FILE ? json_integer((json_int_t)m->text_size) : json_null(),
			"readonly", flag(m, PLAN_READONLY), "nosuid", flag(m, PLAN_NOSUID), "nodev",
			flag(m, PLAN_NODEV), "noexec", flag(m, PLAN_NOEXEC), "optional",
			flag(m, PLAN_OPTIONAL), "left_out", v->left_out, "on",
			mlr_json_text(v->on ? v->on->target : NULL));

	add_seen(o, &v->seen);
	json_object_set_new(o, "hides",
		MLR_JSON_LIST(i, v->n_hides,
			json_pack("{s:s, s:o}", "origin", plan_origin_name(v->hides[i]->origin),
				"target", mlr_json_text(v->hides[i]->target))));
	return o;
}

static json_t *mounts_of(const struct plan *p, const struct plan_context *c)
{
	struct plan_place *v = plan_places(p, c);
	json_t *list = MLR_JSON_LIST(i, p->n_mounts, mount_of(&p->mounts[i], &v[i]));

	plan_places_free(v, p->n_mounts);
	return list;
}

static json_t *file_of(const char *path, const struct plan_context *c)
{
	struct plan_seen s = { 0 };
	json_t *o = json_pack("{s:s, s:o}", "origin", plan_origin_name(PLAN_FROM_DEFAULT), "path",
		mlr_json_text(path));

	c->look(c->ctx, path, 0, &s);
	add_seen(o, &s);
	plan_seen_done(&s);
	return o;
}

static json_t *library_of(const struct plan_library *l)
{
	return json_pack("{s:s, s:o, s:o, s:i}", "origin", plan_origin_name(l->origin), "name",
		mlr_json_text(l->name), "path", mlr_json_text(l->path), "bits", l->bits);
}

static json_t *variable_of(const struct plan_env *e)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "origin", plan_origin_name(e->origin), "key",
		mlr_json_text(e->key), "value", mlr_json_text(e->value), "shadowed",
		e->shadowed ? json_pack("{s:s, s:o}", "origin", plan_origin_name(e->shadowed_by),
				      "value", mlr_json_text(e->shadowed))
			    : json_null());
}

static json_t *root_of(const struct plan *p)
{
	static const char *const writes[] = { [PLAN_ROOT_MEMORY] = "memory",
		[PLAN_ROOT_READ_ONLY] = "read-only",
		[PLAN_ROOT_KEPT] = "kept",
		[PLAN_ROOT_ITSELF] = "itself" };

	if (p->join)
		return json_null();
	return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "kind",
		p->squashfs ? "squashfs" : "overlay", "trees", mlr_json_texts(&p->lowers), "file",
		mlr_json_text(p->squashfs), "writes", writes[p->root], "kept",
		mlr_json_text(p->kept), "choice", mlr_json_text(p->root_choice));
}

static json_t *identity_of(const struct plan_identity *id)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "uid", (json_int_t)id->uid,
		"gid", (json_int_t)id->gid, "host_uid", (json_int_t)id->host_uid, "host_gid",
		(json_int_t)id->host_gid, "name", mlr_json_text(id->name), "group",
		mlr_json_text(id->group), "home", mlr_json_text(id->home), "shell",
		mlr_json_text(id->shell));
}

static json_t *limit_value(rlim_t v)
{
	return v == RLIM_INFINITY ? json_null() : json_integer((json_int_t)v);
}

static json_t *limit_of(const struct plan_limit *l)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "origin", plan_origin_name(PLAN_FROM_USER),
		"resource", mlr_json_text(plan_limit_name(l->resource)), "soft",
		limit_value(l->soft), "hard", limit_value(l->hard));
}

static json_t *namespaces_of(const struct plan *p)
{
	static const struct {
		unsigned bit;
		const char *name;
	} known[] = { { PLAN_NS_PID, "pid" }, { PLAN_NS_IPC, "ipc" }, { PLAN_NS_NET, "net" },
		{ PLAN_NS_UTS, "uts" } };
	json_t *list = json_pack("[s, s]", "user", "mount");

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (p->namespaces & known[i].bit)
			json_array_append_new(list, json_string(known[i].name));
	return list;
}

static json_t *capabilities_of(uint64_t caps)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < 64; i++)
		if (caps >> i & 1)
			json_array_append_new(list, mlr_json_text(capability_name(i)));
	return list;
}

static json_t *confinement_of(const struct plan *p, const struct plan_context *c)
{
	json_t *seccomp = json_pack("{s:[s, s], s:o}", "refused", "TIOCSTI", "TIOCLINUX", "profile",
		mlr_json_text(p->seccomp));

	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "namespaces",
		namespaces_of(p), "init", p->init, "share", mlr_json_text(p->share), "join",
		p->join ? json_integer(p->join) : json_null(), "hostname",
		mlr_json_text(p->hostname), "capabilities", capabilities_of(c->caps), "seccomp",
		seccomp, "limits", MLR_JSON_LIST(i, p->n_limits, limit_of(&p->limits[i])), "cpus",
		p->cpus ? json_real(p->cpus / 100.0) : json_null(), "memory",
		p->memory ? json_integer((json_int_t)p->memory) : json_null(), "descriptors",
		MLR_JSON_LIST(i, p->n_keep_fds, json_integer(p->keep_fds[i])));
}

json_t *plan_json(const struct plan *p, const struct plan_context *c)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:{s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"image", mlr_json_text(p->image), "platform", mlr_json_text(p->platform),
		"image_user", mlr_json_text(p->image_user), "root", root_of(p), "identity",
		identity_of(&p->id), "confinement", confinement_of(p, c), "directory", "path",
		mlr_json_text(p->workdir), "origin",
		mlr_json_text(plan_origin_name(p->workdir_origin)), "command", "argv",
		mlr_json_texts(&p->argv), "origin", mlr_json_text(plan_origin_name(p->argv_origin)),
		"mounts", mounts_of(p, c), "files",
		MLR_JSON_LIST(i, c->files.n, file_of(c->files.v[i], c)), "libraries",
		MLR_JSON_LIST(i, p->n_libraries, library_of(&p->libraries[i])), "environment",
		MLR_JSON_LIST(i, p->n_env, variable_of(&p->env[i])), "left_out",
		mlr_json_texts(&p->dropped), "notes", mlr_json_texts(&p->notes), "remarks",
		MLR_JSON_LIST(i, p->n_remarks,
			json_pack("{s:s, s:o}", "origin", plan_origin_name(p->remarks[i].origin),
				"text", mlr_json_text(p->remarks[i].text))));
}
