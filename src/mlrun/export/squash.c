#include "export/squash.h"

#include "base/escape.h"
#include "base/json.h"
#include "base/spawn.h"
#include "export/documents.h"
#include "export/outlet.h"
#include "layer/entry.h"
#include "layer/unpack.h"
#include "oci/digest.h"
#include "oci/enroot.h"
#include "oci/platform.h"
#include "plan/plan.h"
#include "rootfs/kept.h"
#include "rootfs/lookup.h"
#include "rootfs/rootfs.h"
#include "runtime/runtime.h"
#include "sif/sif.h"
#include "squashfs/writer.h"

#include <archive.h>
#include <sys/prctl.h>

/*
 * Reads the root of an image or of a container as one tar, whatever the store keeps it as: a
 * process mounts it as for a command, and reads it with the rights that it has there over all of
 * the image's files.
 */

#define PLACE          ".singularity.d/"
#define DEFINITION     PLACE "Singularity"
#define DEFINITION_MAX (1u << 20) /* bytes */
#define SH             "#!/bin/sh\n"
#define FILES_MAX      16

/* A file to put in place of the root's. */
struct view_file {
	const char *path; /* without a leading '/' */
	char *text;
};

struct view {
	pid_t pid;
	int tar;    /* the pipe to read from */
	int failed; /* another, for a failure: a struct mlr_error */
};

/* --- in the process ----------------------------------------------------------------------- */

struct reading {
	const struct view_file *files;
	size_t n;
	int out;
	struct layer_entry_target to;
};

static int check(void *ctx, int result, struct mlr_error *err)
{
	const struct reading *k = ctx;
	const char *why = archive_error_string(k->to.archive);

	return result >= ARCHIVE_WARN
		? 0
		: mlr_fail(err, EIO, "write a tar: %s", why ? why : "unknown");
}

static la_ssize_t drain(struct archive *a, void *ctx, const void *buf, size_t len)
{
	const struct reading *k = ctx;

	if (file_write_all(k->out, buf, len) < 0)
		_exit(0); /* nobody reads any more */
	return (la_ssize_t)len;
}

static void start_tar(struct reading *k)
{
	struct archive *a = k->to.archive = archive_write_new();

	k->to.links = archive_entry_linkresolver_new();
	if (!a || !k->to.links)
		mlr_oom();
	archive_entry_linkresolver_set_strategy(k->to.links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
	archive_write_set_format_pax_restricted(a);
	archive_write_add_filter_none(a);
	archive_write_set_bytes_in_last_block(a, 1);
	archive_write_open(a, k, NULL, drain, NULL);
}

/* Put one name; fd is its descriptor if it is a file or directory. */
static int put(struct reading *k, int dir, const char *name, const char *path,
	const struct stat *st, int fd, struct mlr_error *err)
{
	auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();
	int r = layer_entry_describe(e, dir, name, *path ? path : ".", st);

	if (r < 0)
		return mlr_result(err, r, "read link '/%s'", path);
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	return layer_entry_put(&k->to, e, path, fd, err);
}

/* Recursion is at most LAYER_DEPTH_MAX deep. */
static int put_tree(struct reading *k, int dir, const char *name, const char *path, int depth,
	struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_close int fd = -1;
	struct stat st;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '/%s'", path);
	if (S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return 0;
	if (depth > LAYER_DEPTH_MAX)
		return mlr_fail(
			err, EFBIG, "'/%s': directories deeper than %d", path, LAYER_DEPTH_MAX);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return mlr_fail_errno(err, "open '/%s'", path);
	}
	r = put(k, dir, name, path, &st, fd, err);
	if (r < 0 || !S_ISDIR(st.st_mode))
		return r;
	r = file_list(fd, ".", 0, &names);
	if (r < 0)
		return mlr_result(err, r, "list '/%s'", path);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		auto_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", names.v[i]);

		r = put_tree(k, fd, names.v[i], below, depth + 1, err);
	}
	return r;
}

/* Later members of a name win. */
static int put_files(struct reading *k, struct mlr_error *err)
{
	for (size_t i = 0; i < k->n; i++) {
		auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();
		size_t size = strlen(k->files[i].text);

		archive_entry_set_pathname(e, k->files[i].path);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(
			e, strncmp(k->files[i].text, SH, strlen(SH)) == 0 ? 0755 : 0644);
		archive_entry_set_mtime(e, 0, 0);
		archive_entry_set_size(e, (la_int64_t)size);
		TRY(check(k, archive_write_header(k->to.archive, e), err));
		TRY(check(k, (int)archive_write_data(k->to.archive, k->files[i].text, size), err));
	}
	return 0;
}

/* The root is mounted, and this process has all capabilities over the image's files. */
static int read_root(void *ctx, int root, struct mlr_error *err)
{
	struct reading *k = ctx;

	start_tar(k);
	TRY(put_tree(k, root, ".", "", 0, err));
	TRY(put_files(k, err));
	TRY(check(k, archive_write_close(k->to.archive), err));
	_exit(0);
}

static int never(void *ctx, struct mlr_error *err)
{
	return mlr_fail(err, EINVAL, "the root was not read");
}

__attribute__((noreturn)) static void process(const struct plan *p, struct reading *k, int failed)
{
	const struct runtime_stops stops = { read_root, never, k };
	struct mlr_error err = MLR_ERROR_INIT;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	k->to.buf = xmalloc(LAYER_ENTRY_BUFFER);
	k->to.check = check;
	k->to.ctx = k;
	if (runtime_enter_stopping(p, &stops, &err) == 0)
		never(NULL, &err);
	(void)file_write_all(failed, &err, sizeof(err));
	_exit(1);
}

/* --- outside ------------------------------------------------------------------------------ */

/*
 * Start to read. The process must be single-threaded.
 *
 *   p      only the root counts, which is not changed
 *   files  n of them
 *
 * Returns 0 or -errno of fork(2) and pipe(2).
 */
static int view_open(const struct plan *p, const struct view_file *files, size_t n,
	struct view **ret, struct mlr_error *err)
{
	struct reading k = { .files = files, .n = n };
	int tar[2], failed[2];
	pid_t pid;

	if (pipe2(tar, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	if (pipe2(failed, O_CLOEXEC) < 0) {
		close(tar[0]);
		close(tar[1]);
		return mlr_fail_errno(err, "make a pipe");
	}
	pid = fork();
	if (pid == 0) {
		close(tar[0]);
		close(failed[0]);
		k.out = tar[1];
		process(p, &k, failed[1]);
	}
	close(tar[1]);
	close(failed[1]);
	if (pid < 0) {
		close(tar[0]);
		close(failed[0]);
		return mlr_fail_errno(err, "start a process");
	}
	*ret = xmalloc(sizeof(**ret));
	**ret = (struct view){ pid, tar[0], failed[0] };
	return 0;
}

/* The tar has ended: because all was read? */
static int check_end(struct view *v, struct mlr_error *err)
{
	struct mlr_error its;
	int status = 0;

	if (file_read_full(v->failed, &its, sizeof(its)) == (ssize_t)sizeof(its)) {
		if (err)
			*err = its;
		return -its.code;
	}
	status = spawn_wait(v->pid);
	v->pid = 0;
	return status == 0 ? 0 : mlr_fail(err, EIO, "the process that read the root was killed");
}

/* A layer_read_fn (layer/unpack.h) whose ctx is a struct view. */
static ssize_t view_read(void *view, void *buf, size_t len, struct mlr_error *err)
{
	struct view *v = view;
	ssize_t n;

	n = TEMP_FAILURE_RETRY(read(v->tar, buf, len));
	if (n < 0)
		return mlr_fail_errno(err, "read from a pipe");
	return n > 0 || !v->pid ? n : check_end(v, err);
}

/* End the process. NULL is fine. */
static void view_free(struct view **at)
{
	struct view *v = *at;

	if (!v)
		return;
	close(v->tar);
	close(v->failed);
	if (v->pid > 0) {
		kill(v->pid, SIGKILL);
		spawn_wait(v->pid);
	}
	free(v);
}

void export_squashed_done(struct export_squashed *s)
{
	strv_done(&s->omitted);
}

/* Show a container's own layer as one more of the image's: nothing is written. */
static void look_only(struct plan *p)
{
	auto_free char *upper = p->kept ? xasprintf("%s/upper", p->kept) : NULL;
	auto_strv struct strv lowers = p->lowers;

	free(p->kept);
	free(p->share);
	p->kept = p->share = NULL;
	p->lowers = (struct strv)STRV_INIT;
	if (upper && access(upper, F_OK) == 0) /* else it was never started */
		strv_add(&p->lowers, upper);
	strv_add_all(&p->lowers, &lowers);
	p->root = PLAN_ROOT_READ_ONLY;
	p->id = (struct plan_identity){
		.uid = 0, .host_uid = geteuid(), .gid = 0, .host_gid = getegid()
	};
	free(p->workdir);
	p->workdir = xstrdup("/");
}

static int plan_root(const char *store, const char *image, struct plan *p, struct store_facts *ret,
	struct mlr_error *err)
{
	const struct rootfs_kept_wish wish = { .name = rootfs_kept_of(image) };
	int r = wish.name ? rootfs_kept_plan(store, NULL, image, &wish, 1, p, ret, err)
			  : rootfs_plan(store, NULL, image, 1, p, ret, err);

	if (r == 0)
		look_only(p);
	return r;
}

/* Read a stored image's full name and whole configuration: the facts lack labels. */
static int read_config(const char *store, const char *image, char **full, struct oci_config *ret,
	struct mlr_error *err)
{
	auto_call(documents_done) struct documents d = { 0 };
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(stores_close) struct stores all = { 0 };
	struct store *st;

	TRY(oci_name_parse(image, &name, err));
	TRY(stores_open(store, NULL, &all, err));
	TRY(stores_find(&all, &name, &st, &im, err));
	TRY(documents_load(st, im.manifest, &d, err));
	oci_config_done(ret);
	*ret = take_struct(&d.config, { 0 });
	free(*full);
	*full = take_ptr(&im.name);
	return 0;
}

/* The reader of the tar, which is asked often enough to notice a signal. */
struct source {
	struct view *view;
	const int *cancel;
};

static ssize_t source_read(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct source *s = ctx;

	if (s->cancel && __atomic_load_n(s->cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	return view_read(s->view, buf, len, err);
}

/* result: with the digest of all that is in the image. */
static int fill(struct source *from, int fd, enum oci_compression how, struct layer_result *result,
	struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;
	struct squashfs_writer *s = NULL;
	int r = squashfs_writer_new(fd, how, 1, 0, &s, err);

	if (r == 0)
		r = squashfs_writer_layer(s, err);
	if (r == 0)
		r = layer_tar_read(source_read, from, OCI_PLAIN, &limits, &squashfs_writer_sink, s,
			result, err);
	if (r == 0)
		r = squashfs_writer_apply(s, err);
	if (r == 0)
		r = squashfs_writer_finish(s, err);
	squashfs_writer_free(s);
	return r;
}

/* --- what the file has besides the image's files --------------------------------------------- */

struct added {
	struct view_file files[FILES_MAX];
	size_t n;
	struct sif_text texts[2]; /* a SIF file's parts */
};

static void added_done(struct added *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->files[i].text);
	free(a->texts[0].text);
	free(a->texts[1].text);
}

static char *print_variables(const struct oci_config *c)
{
	auto_strv struct strv lines = STRV_INIT;

	strv_add(&lines, SH);
	for (size_t i = 0; i < c->env.n; i++) {
		const char *name = c->env.v[i];
		int len = (int)strcspn(name, "=");
		auto_free char *value = escape_for_sh(name + len + (name[len] == '='));

		if (escape_is_sh_name(name, (size_t)len)) /* not a.b=1 */
			strv_addf(&lines, "export %.*s=%s\n", len, name, value);
	}
	return strv_join(&lines, lines.n, "");
}

static char *print_runscript(const struct oci_config *c)
{
	auto_free char *command = oci_enroot_rc(c, NULL);

	return xasprintf(SH "%s", command);
}

static char *print_labels(const struct oci_config *c)
{
	return mlr_json_print(mlr_json_pairs(&c->labels), JSON_INDENT(2));
}

#define VARIABLES SH "for _script in /" PLACE "env/*.sh; do . \"$_script\"; done\nunset _script\n"

/* Files that an image of Apptainer's has. */
static const struct {
	const char *path, *text;
	char *(*print)(const struct oci_config *c);
} apptainer[] = {
	{ PLACE "actions/exec", VARIABLES "exec \"$@\"\n" },
	{ PLACE "actions/run", VARIABLES "exec /" PLACE "runscript \"$@\"\n" },
	{ PLACE "actions/shell", VARIABLES "exec /bin/sh \"$@\"\n" },
	{ PLACE "actions/start", VARIABLES "exec /" PLACE "startscript \"$@\"\n" },
	{ PLACE "actions/test",
		VARIABLES "[ ! -x /" PLACE "test ] || exec /" PLACE "test \"$@\"\n" },
	{ PLACE "env/01-base.sh", SH },
	{ PLACE "env/10-docker2singularity.sh", .print = print_variables },
	{ PLACE "env/90-environment.sh", SH },
	{ PLACE "env/99-base.sh", /* where --nv puts libraries */
		SH "[ ! -d /" PLACE "libs ] || export LD_LIBRARY_PATH="
		   "\"${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/" PLACE "libs\"\n" },
	{ PLACE "labels.json", .print = print_labels },
	{ PLACE "runscript", .print = print_runscript },
	{ PLACE "startscript", SH },
};

static void take(struct added *a, const char *path, char *text)
{
	a->files[a->n++] = (struct view_file){ path, text };
}

/* Add what the image lacks. */
static void add_apptainers(
	const struct plan *p, const struct oci_config *c, const char *image, struct added *a)
{
	char *definition;

	for (size_t i = 0; i < ARRAY_LEN(apptainer); i++) {
		auto_free char *path = xasprintf("/%s", apptainer[i].path);

		if (rootfs_has(p, path) < 0)
			take(a, apptainer[i].path,
				apptainer[i].print ? apptainer[i].print(c)
						   : xstrdup(apptainer[i].text));
	}
	if (rootfs_read(p, "/" DEFINITION, DEFINITION_MAX, &definition, NULL) < 0) {
		definition = xasprintf(
			"Bootstrap: docker\nFrom: %.*s\n", (int)strcspn(image, "\r\n"), image);
		take(a, DEFINITION, xstrdup(definition));
	}
	rootfs_look_done();
	a->texts[0] = (struct sif_text){ SIF_DEFINITION, "definition", definition };
	a->texts[1] = (struct sif_text){ SIF_JSON, "oci-config.json", oci_config_print_run(c) };
}

/* Put the rest of a SIF file before the image; digest: of what is in that. */
static int complete_sif(const struct plan *p, const struct added *a, const char *digest, int fd,
	struct mlr_error *err)
{
	struct sif_place image = { .at = sif_image_at(a->texts, ARRAY_LEN(a->texts)) };
	struct oci_platform platform;
	struct stat st;

	if (!p->platform || oci_platform_parse(p->platform, &platform, NULL) < 0)
		oci_platform_host(&platform);
	/* It is a program: whoever may read it may start it. */
	if (fstat(fd, &st) < 0 || fchmod(fd, st.st_mode | (st.st_mode & 0444) >> 2) < 0)
		return mlr_fail_errno(err, "make it executable");
	image.size = (uint64_t)st.st_size - image.at;
	image.architecture = platform.arch;
	return sif_write(fd, &image, a->texts, ARRAY_LEN(a->texts), oci_digest_hex(digest), err);
}

static int write_file(const struct plan *p, const struct added *a, const char *path,
	const struct export_options *opt, struct mlr_error *err)
{
	auto_call(layer_result_done) struct layer_result result = { 0 };
	auto_call(view_free) struct view *view = NULL;
	auto_call(outlet_cleanup) struct outlet *out = NULL;
	struct source from = { .cancel = opt->cancel };
	int is_sif = opt->format == EXPORT_SIF;

	TRY(outlet_open(path, OUTLET_FILE, 0, &out, err));
	if (is_sif && ftruncate(outlet_fd(out), (off_t)sif_image_at(a->texts, 2)) < 0)
		return mlr_fail_errno(err, "write '%s'", path);
	TRY(view_open(p, a->files, a->n, &view, err));
	from.view = view;
	TRY(fill(&from, outlet_fd(out), opt->compression, &result, err));
	TRY(is_sif ? complete_sif(p, a, result.diff_id, outlet_fd(out), err) : 0);
	return outlet_finish(out, err);
}

int export_squash(const char *store, const char *image, const char *path,
	const struct export_options *opt, struct export_squashed *ret, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	auto_call(added_done) struct added added = { .n = 0 };
	auto_call(plan_done) struct plan p;
	int r;

	plan_init(&p);
	r = plan_root(store, image, &p, &facts, err);
	if (r == 0 && facts.config.diff_ids.n > 0 && !rootfs_kept_of(image))
		r = read_config(store, image, &p.image, &facts.config, err);
	if (r == 0 && opt->format == EXPORT_SIF) {
		add_apptainers(&p, &facts.config, opt->name ? opt->name : p.image, &added);
	} else if (r == 0) {
		take(&added, OCI_ENROOT_ENVIRONMENT,
			oci_enroot_environment(&facts.config, &ret->omitted));
		take(&added, OCI_ENROOT_RC, oci_enroot_rc(&facts.config, p.image));
	}
	if (r == 0)
		r = write_file(&p, &added, path, opt, err);
	ret->layers = facts.config.diff_ids.n;
	return r < 0 ? mlr_wrap(err, "export '%s'", image) : 0;
}
