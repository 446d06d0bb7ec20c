/* COPY, ADD and WORKDIR: layers that are written without a container; and the cache of steps. */
#include "build/git.h"
#include "build/parts.h"
#include "build/url.h"

#include "exec/parts.h"
#include "recipe/text.h"
#include "rootfs/fill.h"
#include "rootfs/lookup.h"
#include "store/cache.h"
#include "store/trash.h"

#define ACCOUNTS_MAX (4u << 20) /* bytes of an image's passwd or group */

/* --- the cache --------------------------------------------------------------- */

static int derive_layer(struct state *s, const struct instruction *in,
	const struct store_cached *step, struct mlr_error *err)
{
	struct derive d = { .diff_id = *step->diff_id ? step->diff_id : NULL,
		.created_by = in->text,
		.comment = "mlrun build" };

	build_time(step->created, s->created);
	return state_derive(s, &d, step->size, err);
}

static int add_step(struct build *b, struct state *s, const struct instruction *in, const char *key,
	const struct store_cached *step, struct mlr_error *err)
{
	struct oci_step *made;

	made = xadd(b->made, b->n_made);
	*made = (struct oci_step){ .size = step->size, .created = step->created };
	memcpy(made->key, key, sizeof(made->key));
	memcpy(made->diff_id, step->diff_id, sizeof(made->diff_id));
	return derive_layer(s, in, step, err);
}

static void key_of(const struct state *s, char key[OCI_DIGEST_SIZE])
{
	memcpy(key, "sha256:", 7);
	memcpy(key + 7, s->key, sizeof(s->key));
}

static void tell(const struct build *b, const struct instruction *in, int is_cached)
{
	const char *stage = b->stages.v[b->at].name, *how = is_cached ? "(cached) " : "";

	if (b->o->is_quiet)
		return;
	if (stage)
		mlr_info("%s:%u: %s%.200s", stage, in->line, how, in->text);
	else
		mlr_info("line %u: %s%.200s", in->line, how, in->text);
}

/* Look in the store's cache, then in others. Returns 1, 0 or -errno. */
static int look_up(
	struct build *b, const char *key, struct store_cached *ret, struct mlr_error *err)
{
	int r;

	if (store_cache_get(b->o->st, key, ret) == 0)
		return 1;
	if (!b->o->find_step || !b->o->find_step(b->o->ctx, key, ret))
		return 0;
	r = store_cache_put(b->o->st, key, ret, err);
	return r < 0 ? r : 1;
}

int build_cached(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err)
{
	char key[OCI_DIGEST_SIZE];
	struct store_cached step;
	int r;

	key_of(s, key);
	r = b->o->no_cache ? 0 : look_up(b, key, &step, err);
	TRY(r);
	tell(b, in, r);
	if (!r)
		return 0;
	b->cached++;
	r = add_step(b, s, in, key, &step, err);
	return r < 0 ? r : 1;
}

int build_add_layer(struct build *b, struct state *s, const struct instruction *in,
	const char *diff_id, uint64_t size, struct mlr_error *err)
{
	struct store_cached step = { .size = size, .created = b->now };
	char key[OCI_DIGEST_SIZE];
	int r;

	snprintf(step.diff_id, sizeof(step.diff_id), "%s", diff_id);
	key_of(s, key);
	r = store_cache_put(b->o->st, key, &step, err);
	return r < 0 ? r : add_step(b, s, in, key, &step, err);
}

/* Hash the files; those that are as they were need not be read. */
static int hash_files(
	struct build *b, struct copy *c, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	char key[OCI_DIGEST_SIZE] = "sha256:";
	int is_settled = copy_hash_stat(c, key + 7), r;

	if (is_settled && store_cache_content_get(b->o->st, key, hex) == 0)
		return 0;
	r = copy_hash(c, hex, err);
	if (r == 0 && is_settled)
		r = store_cache_content_put(b->o->st, key, hex, err);
	return r;
}

void build_forget_key(struct state *s)
{
	char random[RANDOM_HEX_SIZE];

	random_hex(random);
	state_mix(s, "changed", random, NULL);
}

struct copying {
	struct build *b;
	struct state *s;
	const struct instruction *in;
	struct plan plan;
	struct copy copy;
	struct ignore exclude;
	struct strv args;
	char *to, *key;
	char *scratch; /* where a repository is, or NULL */
	int to_is_directory, to_exists;
};

/* What the image has must not change from a file to a directory, or back. */
static int check_item(const struct copying *c, const struct copy_item *item, char **missing,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("/%s", item->to);
	auto_call(plan_seen_done) struct plan_seen seen = { 0 };
	int is_directory = S_ISDIR(item->st.st_mode);

	if (item->is_archive || (*missing && path_below(path, *missing)))
		return 0;
	rootfs_look(&c->plan, path, 0, &seen);
	if (seen.there == PLAN_THERE_NOTHING && is_directory)
		set_ptr(missing, take_ptr(&path));
	if (seen.there == PLAN_THERE_NOTHING || seen.there == PLAN_THERE_UNKNOWN ||
		is_directory == (seen.there == PLAN_THERE_DIRECTORY))
		return 0;
	return mlr_fail(err, is_directory ? ENOTDIR : EISDIR,
		"'%s' is %s, and in the image %s: RUN rm removes that", path,
		is_directory ? "a directory" : "a file",
		is_directory ? seen.there == PLAN_THERE_LINK ? "a link" : "a file" : "a directory");
}

static int check_below(const struct copying *c, struct mlr_error *err)
{
	auto_free char *missing = NULL; /* a directory that the image lacks */
	int r = 0;

	/* What --link copies is a layer of its own, whatever is below. */
	if (instruction_has(c->in, "--link"))
		return 0;
	for (size_t i = 0; i < c->copy.n && r == 0 && c->plan.lowers.n > 0; i++)
		r = check_item(c, &c->copy.v[i], &missing, err);
	return r;
}

/* Write a list of files as a layer, or find it. */
static int finish(struct build *b, struct state *s, const struct instruction *in, struct copy *c,
	const struct copying *check, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE], diff_id[OCI_DIGEST_SIZE];
	auto_free char *owner = xasprintf(
		"%s%lld:%lld", c->has_owner ? "" : "keep ", (long long)c->uid, (long long)c->gid);
	uint64_t bytes;
	int r;

	TRY(hash_files(b, c, hex, err));
	state_mix(s, "files", hex, owner, NULL);
	r = build_cached(b, s, in, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = check ? check_below(check, err) : 0;
	if (r == 0)
		r = rootfs_fill_digest(copy_tar, c, diff_id, &bytes, err);
	if (r == 0)
		r = rootfs_fill(b->o->st, diff_id, copy_tar, c, err);
	if (r == 0 && copy_has_changed(c))
		build_forget_key(s);
	return r < 0 ? r : build_add_layer(b, s, in, diff_id, bytes, err);
}

/* --- owners and modes -------------------------------------------------------- */

static int find_id(const struct plan *p, const char *file, const char *name, int field,
	int64_t *ret, int64_t *group, struct mlr_error *err)
{
	auto_free char *text = NULL, *line = NULL;
	char *fields[7], *end;
	long long n = strtoll(name, &end, 10);

	if (isdigit((unsigned char)*name) && !*end) {
		*ret = n;
		if (group)
			*group = n;
		return 0;
	}
	if (p->lowers.n == 0 || rootfs_read(p, file, ACCOUNTS_MAX, &text, NULL) < 0)
		text = xstrdup("");
	line = user_find_line(text, name, 0, fields);
	if (!line)
		return mlr_fail(err, ENOENT, "'%s' is not in the image's %s", name, file);
	*ret = atoll(fields[field]);
	if (group)
		*group = atoll(fields[3]);
	return 0;
}

int build_ids(
	const struct plan *p, const char *text, int64_t *uid, int64_t *gid, struct mlr_error *err)
{
	size_t len = strcspn(text, ":");
	auto_free char *user = xstrndup(text, len);
	int r = *user ? find_id(p, "/etc/passwd", user, 2, uid, gid, err) : 0;

	if (r == 0 && text[len])
		r = find_id(p, "/etc/group", text + len + 1, 2, gid, NULL, err);
	return r;
}

static int read_chmod(const char *text, struct copy *c, struct mlr_error *err)
{
	if (!*text || text[strspn(text, "01234567")] || strlen(text) > 5)
		return mlr_fail(err, EINVAL, "--chmod=%s: use an octal mode such as 755", text);
	c->mode = strtol(text, NULL, 8) & 07777;
	return 0;
}

static int read_flags(struct build *b, struct state *s, const struct instruction *in,
	const struct plan *p, struct copy *c, struct mlr_error *err)
{
	const struct expand e = scope_expand(&s->scope, b->o->recipe->escape);
	const char *chown = instruction_flag(in, "--chown"),
		   *chmod = instruction_flag(in, "--chmod");
	auto_free char *owner = NULL, *mode = NULL;
	int r = 0;

	if (chown)
		r = expand_word(&e, chown, &owner, err);
	if (r == 0 && chmod)
		r = expand_word(&e, chmod, &mode, err);
	if (r == 0 && owner)
		r = build_ids(p, owner, &c->uid, &c->gid, err);
	if (r < 0 && owner)
		mlr_wrap(err, "--chown");
	c->has_owner = owner != NULL;
	if (r == 0 && mode)
		r = read_chmod(mode, c, err);
	return r;
}

/* --- the destination ---------------------------------------------------------- */

/* What the image has at a path. */
enum found {
	FOUND_NOTHING,
	FOUND_FILE,
	FOUND_DIRECTORY,
	FOUND_ABOVE /* a file at its beginning */
};

/* Follow the links of the image on a path, as far as it exists there; or, without follow, find
 * nothing where one is. Returns the path, to free(). */
static char *resolve(const struct plan *p, const char *path, int follow, enum found *ret)
{
	auto_free char *clean = path_clean(path);
	char *done = xstrdup("");

	*ret = strcmp(clean, "/") == 0 ? FOUND_DIRECTORY : FOUND_NOTHING;
	for (const char *s = clean + 1; p->lowers.n > 0 && *s;) {
		size_t len = strcspn(s, "/");
		auto_free char *next = xasprintf("%s/%.*s", done, (int)len, s);
		struct plan_seen seen = { 0 };

		rootfs_look(p, next, follow, &seen);
		if ((!follow && seen.there == PLAN_THERE_LINK) ||
			seen.there == PLAN_THERE_NOTHING || seen.there == PLAN_THERE_UNKNOWN) {
			char *rest = xasprintf("%s/%s", done, s);

			*ret = *ret == FOUND_FILE ? FOUND_ABOVE : FOUND_NOTHING;
			plan_seen_done(&seen);
			free(done);
			return rest;
		}
		*ret = seen.there == PLAN_THERE_DIRECTORY ? FOUND_DIRECTORY : FOUND_FILE;
		set_ptr(&done, xstrdup(seen.path ? seen.path : next));
		if (strcmp(done, "/") == 0)
			*done = '\0';
		plan_seen_done(&seen);
		s += len + strspn(s + len, "/");
	}
	if (p->lowers.n == 0) {
		free(done);
		return take_ptr(&clean);
	}
	if (*done)
		return done;
	free(done);
	return xstrdup("/");
}

/* Add a directory, and those above it, that the image lacks. */
static void add_directories(
	struct copy *c, const struct plan *p, const char *path, int follow, const struct stat *st)
{
	size_t len = strlen(path);

	for (size_t n = 2; n <= len; n++) {
		auto_free char *above = xstrndup(path, n), *real = NULL;
		enum found found;

		if (path[n] && path[n] != '/')
			continue;
		real = resolve(p, above, follow, &found);
		if (found != FOUND_DIRECTORY)
			copy_add_directory(c, above, st);
	}
}

static char *absolute(const struct state *s, const char *path)
{
	const char *dir = s->parsed.working_dir;

	return *path == '/' ? xstrdup(path) : xasprintf("/%s/%s", dir ? dir : "", path);
}

/* --- COPY -------------------------------------------------------------------- */

static void copying_done(struct copying *c)
{
	plan_done(&c->plan);
	copy_done(&c->copy);
	ignore_done(&c->exclude);
	strv_done(&c->args);
	free(c->to);
	free(c->key);
	store_scratch_remove(c->b->o->st, c->scratch);
	free(c->scratch);
	fd_close(&c->copy.source.fd);
}

static int add_heredoc(struct copying *c, const struct heredoc *h, struct mlr_error *err)
{
	struct expand e = scope_expand(&c->s->scope, '\\');
	auto_free char *text = NULL, *to = NULL;
	int r = 0;

	e.flags = EXPAND_NO_QUOTES;
	if (h->expand)
		r = expand_word(&e, h->content, &text, err);
	TRY(r);
	to = c->to_is_directory ? xasprintf("%s/%s", c->to, h->name) : xstrdup(c->to);
	copy_add_bytes(&c->copy, to, text ? text : h->content);
	return 0;
}

static const struct heredoc *heredoc_of(const struct instruction *in, const char *arg)
{
	struct heredoc mark = { 0 };
	const struct heredoc *found = NULL;

	if (in->is_json || !instruction_heredoc(arg, &mark))
		return NULL;
	for (size_t i = 0; i < in->n_heredocs && !found; i++)
		if (strcmp(in->heredocs[i].name, mark.name) == 0)
			found = &in->heredocs[i];
	instruction_heredoc_done(&mark);
	return found;
}

static int add_url(struct copying *c, const char *url, struct mlr_error *err)
{
	const struct expand e = scope_expand(&c->s->scope, c->b->o->recipe->escape);
	const char *flag = instruction_flag(c->in, "--checksum");
	auto_free char *checksum = NULL, *name = NULL, *to = NULL;
	int unpack = instruction_has(c->in, "--unpack"), fd;

	if (flag)
		TRY(expand_word(&e, flag, &checksum, err));
	TRY(build_fetch(url, checksum, c->b->o->cancel, &fd, &name, err));
	to = c->to_is_directory && !unpack ? xasprintf("%s/%s", c->to, name) : xstrdup(c->to);
	copy_take_file(&c->copy, to, fd, 0600, unpack);
	if (c->to_is_directory && !unpack && !*name)
		return mlr_fail(
			err, EINVAL, "'%s' names no file: give the destination a name", url);
	return 0;
}

/* Take the files of a repository instead of the context's. */
static int add_repository(struct copying *c, const char *what, struct mlr_error *err)
{
	const struct copy_wish w = { .pattern = ".",
		.to = c->to,
		.to_is_directory = 1,
		.to_exists = c->to_exists,
		.exclude = &c->exclude };
	const struct git_access how = {
		.secrets = c->b->o->secrets, .ssh = c->b->o->ssh, .cancel = c->b->o->cancel
	};
	auto_free char *dir = NULL;
	int r;

	if (c->args.n > 2)
		return mlr_fail(err, EINVAL, "'%s': a repository needs an ADD of its own", what);
	if (instruction_flag(c->in, "--checksum"))
		return mlr_fail(
			err, EINVAL, "'%s': '#COMMIT' after it does what --checksum does", what);
	r = store_scratch_make(c->b->o->st, "repository", &c->scratch, err);
	if (r == 0)
		r = git_fetch(what, c->scratch, &how, &dir, err);
	if (r < 0)
		return mlr_wrap(err, "'%s'", what);
	close(c->copy.source.fd);
	c->copy.source = (struct copy_source){ .what = what,
		.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	if (c->copy.source.fd < 0)
		return mlr_fail_errno(err, "open '%s'", dir);
	if (!instruction_has(c->in, "--keep-git-dir") && !git_keeps_history(what))
		ignore_add(&c->exclude, "**/.git");
	r = copy_add(&c->copy, &w, err);
	return r < 0 ? r : 0;
}

/* ADD --checksum of the file that was added as the item at. */
static int check_sum(struct copying *c, size_t at, struct mlr_error *err)
{
	const struct expand e = scope_expand(&c->s->scope, c->b->o->recipe->escape);
	const char *flag = instruction_flag(c->in, "--checksum");
	auto_free char *want = NULL;

	TRY(flag ? expand_word(&e, flag, &want, err) : 0);
	return want ? copy_check(&c->copy, at, want, err) : 0;
}

/* ADD unpacks the context's archives, unless --unpack=false. */
static int unpacks(const struct instruction *in)
{
	return !instruction_flag(in, "--unpack") || instruction_has(in, "--unpack");
}

static int add_one(struct copying *c, size_t i, struct mlr_error *err)
{
	const struct heredoc *h = heredoc_of(c->in, c->in->args.v[i]);
	const struct copy_wish w = { .pattern = c->args.v[i],
		.to = c->to,
		.to_is_directory = c->to_is_directory,
		.to_exists = c->to_exists,
		.unpack = c->in->word == INSTRUCTION_ADD && unpacks(c->in),
		.parents = instruction_has(c->in, "--parents"),
		.exclude = c->exclude.n > 0 ? &c->exclude : NULL };
	size_t at = c->copy.n;
	int r;

	if (h)
		return add_heredoc(c, h, err);
	if (c->in->word == INSTRUCTION_ADD && git_is_repository(w.pattern))
		return add_repository(c, w.pattern, err);
	if (c->in->word == INSTRUCTION_ADD && build_is_url(w.pattern))
		return add_url(c, w.pattern, err);
	r = copy_add(&c->copy, &w, err);
	return r < 0 ? r : check_sum(c, at, err);
}

/* The destination: absolute, and with the image's links followed. */
static int find_destination(struct copying *c, const char *last, int several, struct mlr_error *err)
{
	size_t len = strlen(last);
	auto_free char *path = c->in->is_section ? xasprintf("/%s", last) : absolute(c->s, last);
	int links = instruction_has(c->in, "--link");
	enum found found;

	if (len == 0)
		return mlr_fail(err, EINVAL, "the destination is empty");
	c->to = resolve(&c->plan, path, !links, &found);
	c->to_exists = found == FOUND_DIRECTORY;
	c->to_is_directory = c->to_exists || last[len - 1] == '/' || strcmp(last, ".") == 0 ||
		strcmp(last, "..") == 0 || instruction_has(c->in, "--parents");
	if (several && !c->to_is_directory)
		return mlr_fail(err, EINVAL,
			"with several sources the destination '%s' must be a directory: end it with /",
			last);
	if (!links && (found == FOUND_ABOVE || (found == FOUND_FILE && c->to_is_directory)))
		return mlr_fail(err, ENOTDIR, "the destination '%s' %s a file of the image", last,
			found == FOUND_ABOVE ? "is below" : "is");
	return 0;
}

/* Make the destination's directories that the image lacks, with the owner that --chown gives. With
 * --link they replace links and files of the image. */
static void add_destination(struct copying *c)
{
	const struct stat st = { .st_mode = S_IFDIR | 0755, .st_mtime = c->b->now };
	int links = instruction_has(c->in, "--link");
	size_t len = strlen(c->to);

	if (!links && !c->copy.has_owner)
		return;
	if (!c->to_is_directory)
		while (len > 1 && c->to[len - 1] != '/')
			len--;

	auto_free char *dir = xstrndup(c->to, len), *clean = path_clean(dir);

	add_directories(&c->copy, &c->plan, clean, !links, &st);
}

static void read_excludes(struct copying *c)
{
	for (size_t i = 0; i < c->in->flags.n; i++)
		if (strncmp(c->in->flags.v[i], "--exclude=", 10) == 0)
			ignore_add(&c->exclude, c->in->flags.v[i] + 10);
}

/* Find a file that %files of the caller names: from the context on, or "~/…". The mark "/./"
 * precedes the path that it has in the image without a destination. */
static char *callers_path(const struct build *b, const char *path)
{
	auto_free char *dir = file_fd_path(b->o->context);
	const char *home = getenv("HOME");

	if (*path == '/' || !dir)
		return xstrdup(path);
	return path[0] == '~' && (path[1] == '/' || !path[1]) && home
		? xasprintf("%s%s", home, path + 1)
		: xasprintf("%s/./%s", dir, path);
}

/* Add a pair of %files, as cp -r does, or -Lr for the caller's files. */
static int add_pair(struct copying *c, const char *source, const char *to, struct mlr_error *err)
{
	int is_callers = !instruction_flag(c->in, "--from"), r;
	auto_free char *path =
		is_callers && build_is_callers(c->b) ? callers_path(c->b, source) : xstrdup(source);
	const char *last = path_base(path);
	struct copy_wish w = { .pattern = path,
		.parents = !*to,
		.with_name = *last && strcmp(last, ".") != 0 && strcmp(last, "..") != 0,
		.follow = is_callers };

	free(take_ptr(&c->to));
	TRY(find_destination(c, *to ? to : "/", 0, err));
	w.to = c->to;
	w.to_exists = c->to_exists;
	w.to_is_directory = c->to_is_directory || copy_has_directory(&c->copy, c->to);
	r = copy_add(&c->copy, &w, err);
	if (r < 0 && is_callers && !build_is_callers(c->b) && strchr("/~.", *source))
		return mlr_hint(err,
			"-f FILE lets a definition file in a directory read the caller's files");
	return r == 0 ? mlr_fail(err, ENOENT, "'%s' matches nothing", source) : r;
}

/* Add what a definition file's COPY has. */
static int add_section(struct copying *c, struct mlr_error *err)
{
	for (size_t i = 0; i + 1 < c->args.n; i += 2)
		TRY(add_pair(c, c->args.v[i], c->args.v[i + 1], err));
	for (size_t i = 0; i < c->in->n_heredocs; i++)
		copy_add_bytes(&c->copy, c->in->heredocs[i].name, c->in->heredocs[i].content);
	return 0;
}

static int copy_files(struct copying *c, struct mlr_error *err)
{
	const struct expand e = scope_expand(&c->s->scope, c->b->o->recipe->escape);
	int r = instruction_expand(c->in, &e, &c->args, err);
	size_t made = 0;

	if (r == 0)
		r = build_source(
			c->b, instruction_flag(c->in, "--from"), &c->copy.source, &c->key, err);
	if (r == 0)
		r = state_plan(c->s, c->b->o->st, &c->plan, err);
	if (r == 0)
		r = read_flags(c->b, c->s, c->in, &c->plan, &c->copy, err);
	if (r == 0 && c->in->is_section) {
		r = add_section(c, err);
		return r < 0 ? r : finish(c->b, c->s, c->in, &c->copy, c, err);
	}
	if (r == 0)
		r = find_destination(c, c->args.v[c->args.n - 1], c->args.n > 2, err);
	if (r == 0)
		add_destination(c);
	made = c->copy.n;
	read_excludes(c);
	for (size_t i = 0; r == 0 && i + 1 < c->args.n; i++)
		r = add_one(c, i, err);
	if (r == 0 && c->copy.n == made)
		mlr_warning("line %u: nothing is there to copy: %.200s", c->in->line, c->in->text);
	return r < 0 ? r : finish(c->b, c->s, c->in, &c->copy, c, err);
}

int build_copy_step(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err)
{
	auto_call(copying_done) struct copying c = { .b = b,
		.s = s,
		.in = in,
		.copy = { .source = { .fd = -1 },
			.mode = -1,
			.newest = b->o->epoch,
			.cancel = b->o->cancel } };

	return copy_files(&c, err);
}

/* --- WORKDIR ------------------------------------------------------------------ */

int build_workdir_step(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err)
{
	struct copy c = { .source = { .fd = -1 }, .mode = -1, .newest = b->o->epoch };
	auto_call(plan_done) struct plan p = { 0 };
	auto_free char *path = NULL;
	int r = state_plan(s, b->o->st, &p, err);
	struct stat st = { .st_mode = S_IFDIR | 0755 };
	enum found found;

	TRY(r);
	path = resolve(&p, s->parsed.working_dir, 1, &found);
	if (found == FOUND_DIRECTORY)
		return 0;
	if (found != FOUND_NOTHING)
		return mlr_fail(err, ENOTDIR, "'%s' %s a file of the image", s->parsed.working_dir,
			found == FOUND_ABOVE ? "is below" : "is");
	/* A USER whom the image does not know is RUN's to refuse. */
	if (s->parsed.user && build_ids(&p, s->parsed.user, &c.uid, &c.gid, NULL) < 0)
		c.uid = c.gid = 0;
	st.st_mtime = b->now;
	add_directories(&c, &p, path, 1, &st);
	r = finish(b, s, in, &c, NULL, err);
	copy_done(&c);
	return r;
}
