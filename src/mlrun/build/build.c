#include "build/build.h"

#include "base/escape.h"
#include "build/run.h"
#include "cdi/cdi.h"
#include "oci/name.h"
#include "rootfs/image.h"
#include "rootfs/rootfs.h"
#include "store/trash.h"
#include "store/container.h"

void build_result_done(struct build_result *r)
{
	store_image_done(&r->image);
	strv_done(&r->unused_args);
	free(r->made);
	*r = (struct build_result){ 0 };
}

static void build_done(struct build *b)
{
	build_places_close(b);
	for (size_t i = 0; b->states && i < b->stages.n; i++)
		state_done(&b->states[i]);
	free(b->states);
	stages_done(&b->stages);
	ignore_done(&b->ignore);
	strv_done(&b->used);
	for (size_t i = 0; i < b->scratch.n; i++)
		store_scratch_remove(b->o->st, b->scratch.v[i]);
	strv_done(&b->scratch);
	free(b->made);
}

void build_time(int64_t seconds, char out[32])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
}

/* --- where files come from ------------------------------------------------------ */

const char *build_context_named(const struct build *b, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; b->o->contexts && i < b->o->contexts->n; i++) {
		const char *text = b->o->contexts->v[i];

		if (strncasecmp(text, name, len) == 0 && text[len] == '=')
			return text + len + 1;
	}
	return NULL;
}

static int open_directory(const char *path, struct copy_source *ret, struct mlr_error *err)
{
	ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ret->fd < 0 ? mlr_fail_errno(err, "open '%s'", path) : 0;
}

/* Apptainer's image file, unpacked until the build ends. */
static int open_unpacked(
	struct build *b, const char *file, struct copy_source *ret, struct mlr_error *err)
{
	auto_free char *tree = NULL;
	char *scratch;

	TRY(store_scratch_make(b->o->st, "image", &scratch, err));
	strv_take(&b->scratch, scratch);
	tree = xasprintf("%s/tree", scratch);
	TRY(rootfs_unpack(file, tree, b->o->cancel, err));
	return open_directory(tree, ret, err);
}

static int open_state(
	struct build *b, struct state *s, struct copy_source *ret, struct mlr_error *err)
{
	int r = state_tree(s, b->o->st, err);

	ret->is_image = 1;
	return r < 0 ? r : open_directory(s->tree, ret, err);
}

/* --- what a recipe may ask for -------------------------------------------------- */

/* Does the caller allow it: "device" as such, or "device=NAME"? */
static int is_allowed(const struct build *b, const char *what, const char *name)
{
	auto_free char *one = xasprintf("%s=%s", what, name);

	return b->o->allowed && (strv_has(b->o->allowed, what) || strv_has(b->o->allowed, one));
}

static int may_use_device(const struct build *b, const char *flag, struct mlr_error *err)
{
	const char *value = strchr(flag, '=') + 1;
	auto_free char *name = xstrndup(value, strcspn(value, ","));

	if (!cdi_is_name(name)) {
		mlr_fail(err, EPERM, "%s: a recipe may name devices by CDI only: VENDOR/CLASS=NAME",
			flag);
		return mlr_hint(err, "mlrun gpu cdi --list prints the names that this machine has");
	}
	if (is_allowed(b, "device", name))
		return 0;
	mlr_fail(err, EPERM, "%s: the caller has not allowed it", flag);
	return mlr_hint(err, "mlrun build --allow device=%s gives the recipe this device", name);
}

static int may_use_network(const struct build *b, const char *flag, struct mlr_error *err)
{
	if (!b->o->network || strcmp(b->o->network, "none") != 0 ||
		strcmp(strchr(flag, '=') + 1, "host") != 0 || is_allowed(b, "network.host", ""))
		return 0;
	mlr_fail(err, EPERM, "%s: the caller has said --network=none", flag);
	return mlr_hint(err,
		"mlrun build --network=none --allow network.host gives this command the network");
}

int build_may(const struct build *b, const struct instruction *in, struct mlr_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < in->flags.n; i++)
		switch (instruction_flag_reach(in, in->flags.v[i])) {
		case REACH_DEVICES:
			r = may_use_device(b, in->flags.v[i], err);
			break;
		case REACH_NETWORK:
			r = may_use_network(b, in->flags.v[i], err);
			break;
		default:
			break;
		}
	return r < 0 ? mlr_wrap(err, "%s", instruction_name(in->word)) : 0;
}

int build_is_callers(const struct build *b)
{
	return b->o->recipe->is_definition && !b->o->is_strangers;
}

int build_open_image(struct build *b, const char *name, const char *platform, struct state *s,
	struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	const char *given = build_context_named(b, name), *image = given ? given : name;
	struct store *from;
	int r;

	if (!given && !build_is_callers(b) && oci_name_refuse_place(name, err) < 0)
		return mlr_hint(err,
			"mlrun build --build-context NAME=docker-image://%s lets the recipe name it NAME",
			name);
	if (given && strncmp(given, "docker-image://", 15) == 0)
		image = given + 15;
	r = b->o->find(b->o->ctx, image, platform, &from, &im, err);
	if (r == 0)
		r = state_from_image(s, b->o->st, from, &im, err);
	return r < 0 ? mlr_wrap(err, "image '%s'", image) : 0;
}

const char *build_platform(const struct build *b, const struct stage *g)
{
	const char *target =
		b->o->platform ? strv_env_get(strv_argv(b->o->platform), "TARGETPLATFORM") : NULL;

	return g->platform ? g->platform : target ? target : "linux/amd64";
}

int build_source(struct build *b, const char *from, struct copy_source *ret, char **key,
	struct mlr_error *err)
{
	auto_call(state_done) struct state s = STATE_INIT;
	const char *named = from ? build_context_named(b, from) : NULL;
	int stage = from && !named ? stages_find(&b->stages, from, b->at) : -1, r;

	*key = NULL;
	if (!from && build_is_callers(b)) {
		ret->what = "the caller's file system";
		return open_directory("/", ret, err);
	}
	if (!from) {
		*ret = (struct copy_source){ .what = "the build context", .ignore = &b->ignore };
		ret->fd = fcntl(b->o->context, F_DUPFD_CLOEXEC, 3);
		return ret->fd < 0 ? mlr_fail_errno(err, "open the context") : 0;
	}
	ret->what = from;
	if (stage < 0 && build_is_callers(b) && oci_transport_of(from, &named) == OCI_DIRECTORY) {
		r = open_directory(named, ret, err);
		return r == -ENOTDIR ? open_unpacked(b, named, ret, err) : r;
	}
	if (stage >= 0) {
		*key = xstrdup(b->states[stage].key);
		ret->st = b->o->st;
		ret->layers = &b->states[stage].parsed.diff_ids;
		return open_state(b, &b->states[stage], ret, err);
	}
	if (named && strncmp(named, "docker-image://", 15) != 0)
		return open_directory(named, ret, err);
	r = build_open_image(b, from, build_platform(b, &b->stages.v[b->at]), &s, err);
	if (r == 0)
		r = open_state(b, &s, ret, err);
	*key = xstrdup(s.key);
	return r;
}

static int find_target(const struct build *b, size_t *ret, struct mlr_error *err)
{
	int i = b->o->target ? stages_find(&b->stages, b->o->target, b->stages.n)
			     : (int)b->stages.n - 1;

	if (i < 0) {
		mlr_fail(err, EINVAL, "--target: '%s' has no stage '%s'", b->o->recipe->name,
			b->o->target);
		return -EINVAL;
	}
	*ret = (size_t)i;
	return 0;
}

/* --- the image --------------------------------------------------------------------- */

/* "LABEL K=V" of --label. */
static int add_labels(struct build *b, struct state *s, struct mlr_error *err)
{
	for (size_t i = 0; b->o->labels && i < b->o->labels->n; i++) {
		const char *text = b->o->labels->v[i];
		struct instruction in = { .word = INSTRUCTION_LABEL, .is_old = 1 };
		auto_free char *value = xstrdup(strchr(text, '=') ? strchr(text, '=') + 1 : "");
		struct derive d = {
			.created_by = "LABEL", .changes = &in, .n_changes = 1, .escape = '\0'
		};
		auto_free char *line = xasprintf("LABEL %s", text);
		int r;

		in.text = line;
		strv_addf(&in.args, "%.*s", (int)strcspn(text, "="), text);
		strv_take(&in.args, escape_for_sh(value));
		r = state_derive(s, &d, 0, err);
		strv_done(&in.args);
		if (r < 0)
			return mlr_wrap(err, "--label");
	}
	return 0;
}

static int put_image(
	struct build *b, struct state *s, struct build_result *ret, struct mlr_error *err)
{
	const struct rootfs_image im = {
		.config = s->config, .layers = s->layers, .n = s->n_layers, .source = "build:"
	};
	int r = b->o->n_names == 0 ? rootfs_image_put(b->o->st, NULL, &im, &ret->image, err) : 0;

	for (size_t i = b->o->n_names; i-- > 0 && r == 0;) {
		store_image_done(&ret->image);
		r = rootfs_image_put(b->o->st, b->o->names[i], &im, &ret->image, err);
	}
	return r;
}

static void find_unused(const struct build *b, struct strv *ret)
{
	/* Of a definition file the parser has refused them. */
	for (size_t i = 0; !b->o->recipe->is_definition && b->o->args && i < b->o->args->n; i++) {
		auto_free char *name = xstrndup(b->o->args->v[i], strcspn(b->o->args->v[i], "="));

		if (!scope_is_proxy(name) && !strv_has(&b->used, name) &&
			!strv_has(&b->stages.global.declared, name))
			strv_add(ret, name);
	}
}

/* Remove what builds that were killed have left. */
static void sweep(struct store *st)
{
	auto_strv struct strv names = STRV_INIT;
	struct store_lease l;

	if (store_container_names(st, &names, NULL) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];

		if (strncmp(name, "build-", 6) == 0 && strlen(name) == 22 &&
			strspn(name + 6, "0123456789abcdef") == 16 &&
			!store_container_used(st, name, &l))
			store_container_remove(st, name, 0, NULL);
	}
}

static int begin(struct build *b, struct mlr_error *err)
{
	b->now = b->o->epoch ? b->o->epoch : time(NULL);
	if (b->o->ignore)
		ignore_parse(&b->ignore, b->o->ignore);
	TRY(stages_resolve(b->o->recipe, b->o->platform, b->o->args, &b->stages, err));
	TRY(store_hold(b->o->st, err));
	sweep(b->o->st);
	TRY(build_places_open(b, err));
	b->states = xcalloc(b->stages.n, sizeof(*b->states));
	return 0;
}

static int build(struct build *b, struct build_result *ret, struct mlr_error *err)
{
	size_t target = 0;

	TRY(begin(b, err));
	TRY(find_target(b, &target, err));
	TRY(build_stages(b, target, err));
	TRY(add_labels(b, &b->states[target], err));
	if (b->o->squash || b->o->recipe->is_definition)
		TRY(state_squash(&b->states[target], b->o->st, !b->o->no_cache, b->o->cancel, err));
	return put_image(b, &b->states[target], ret, err);
}

int build_is_cancelled(const struct build *b)
{
	return b->o->cancel && __atomic_load_n(b->o->cancel, __ATOMIC_RELAXED);
}

static int is_cancelled(void *ctx)
{
	return build_is_cancelled(ctx);
}

int build_run(const struct build_options *o, struct build_result *ret, struct mlr_error *err)
{
	auto_call(build_done) struct build b = { .o = o };
	int r;

	store_set_cancelled(o->st, is_cancelled, &b);
	r = build(&b, ret, err);
	store_set_cancelled(o->st, NULL, NULL);
	if (r < 0) {
		if (store_hold_check(o->st, err) < 0)
			r = -ESTALE;
		if (r == -ENOSPC || r == -EDQUOT)
			mlr_hint(err, "mlrun prune or mlrun rm frees space in '%s'",
				store_path(o->st));
		return r;
	}
	find_unused(&b, &ret->unused_args);
	ret->steps = b.n_made;
	ret->cached = b.cached;
	ret->made = take_ptr(&b.made);
	return 0;
}
