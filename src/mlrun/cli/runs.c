#include "cli/runs.h"

#include "base/account.h"
#include "base/home.h"
#include "base/json.h"
#include "cli/fetch.h"
#include "config.h"
#include "job/job.h"
#include "oci/name.h"
#include "rootfs/kept.h"

#include <sys/utsname.h>

#define RECORD_MAX (64u << 20) /* bytes of a job's file */

/* --- where --------------------------------------------------------------------------- */

/* Job ids of the batch systems: "123", "123.server", "f2AbC". */
static int is_id(const char *id)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[]";

	return *id && *id != '.' && strlen(id) < 128 && strspn(id, letters) == strlen(id);
}

static char *runs_dir(struct mlr_error *err)
{
	auto_free char *state = home_xdg_dir("XDG_STATE_HOME", ".local/state", err);

	return state ? xasprintf("%s/mlrun/runs", state) : NULL;
}

/* --- writing --------------------------------------------------------------------------- */

/* "shifter run" and "/usr/bin/shifter" are the words that mlrun takes: "shifter", "run". */
static json_t *words_of(char *const *argv)
{
	auto_free char *name = xstrdup(path_base(argv[0]));
	json_t *list = json_array();
	char *rest = name, *word;

	while ((word = strsep(&rest, " ")))
		json_array_append_new(list, mlr_json_text(word));
	for (char *const *s = argv + 1; *s; s++)
		json_array_append_new(list, mlr_json_text(*s));
	return list;
}

static json_t *mounts_of(const struct plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n_mounts; i++) {
		const struct plan_mount *m = &p->mounts[i];

		if (m->origin != PLAN_FROM_DEFAULT)
			json_array_append_new(list,
				json_pack("{s:s, s:o, s:o, s:b, s:s}", "kind",
					plan_kind_name(m->kind), "source", mlr_json_text(m->source),
					"target", mlr_json_text(m->target), "read_only",
					(m->flags & PLAN_READONLY) != 0, "origin",
					plan_origin_name(m->origin)));
	}
	return list;
}

/* Where the image stands on the command line: the number of the word, as words_of() counts, and
 * what is before it in that word, "--image="; nulls if it came from elsewhere. */
static void find_word(const struct cli_exec *x, json_t *image)
{
	const char *text = x->image_word ? x->image_word : x->exec.image;
	json_int_t number = 0;

	for (const char *s = x->argv[0]; *s; s++)
		number += *s == ' ';
	json_object_set_new(image, "word", json_null());
	json_object_set_new(image, "before", json_null());
	for (char *const *s = x->argv; *s; s++, number++)
		if (s != x->argv && text >= *s && text <= *s + strlen(*s)) {
			auto_free char *before = xstrndup(*s, (size_t)(text - *s));

			json_object_set_new(image, "word", json_integer(number));
			json_object_set_new(image, "before", mlr_json_text(before));
			return;
		}
}

static json_t *image_of(const struct cli_exec *x)
{
	json_t *image;
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_free char *pin = NULL;

	if (!rootfs_kept_of(x->exec.image) &&
		!oci_transport_is_root(oci_transport_of(x->exec.image, NULL)) &&
		cli_find_image(x->exec.image, x->exec.store, &im, NULL) == 0)
		pin = cli_pin(&im);
	image = json_pack("{s:o, s:o, s:o, s:o}", "name", mlr_json_text(x->exec.image), "pin",
		mlr_json_text(pin), "manifest", mlr_json_text(im.manifest), "platform",
		mlr_json_text(im.platform));
	find_word(x, image);
	return image;
}

static json_t *start_of(const struct cli_exec *x, const struct plan *p)
{
	auto_free char *cwd = getcwd(NULL, 0);
	char now[CLI_TIME_SIZE];
	struct utsname host;

	uname(&host);
	mlr_time_utc(time(NULL), now);
	return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"system", job_system(environ), "job", job_id(environ), "step",
		mlr_json_text(job_step_id(environ)), "date", now, "node", host.nodename, "kernel",
		host.release, "mlrun", PACKAGE_VERSION, "tasks",
		mlr_json_text(getenv("SLURM_STEP_NUM_TASKS")), "directory", mlr_json_text(cwd),
		"argv", words_of(x->argv), "image", image_of(x), "command",
		mlr_json_texts(&p->argv), "mounts", mounts_of(p), "remarks",
		MLR_JSON_LIST(i, p->n_remarks, mlr_json_text(p->remarks[i].text)));
}

/* Append by one write(2): several steps of the job may do so at once. */
static int append(const char *job, const json_t *start, struct mlr_error *err)
{
	auto_free char *dir = runs_dir(err), *text = NULL, *line = NULL, *path = NULL;
	auto_close int fd = -1;

	if (!dir)
		return -err->code;
	TRY(file_mkdir_p(AT_FDCWD, dir, 0700, err));
	text = json_dumps(start, JSON_COMPACT);
	line = text ? xasprintf("%s\n", text) : NULL;
	path = xasprintf("%s/%s.jsonl", dir, job);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return mlr_fail_errno(err, "%s", path);
	return line ? file_write_all(fd, line, strlen(line)) : -EINVAL;
}

void runs_add(const struct cli_exec *x, const struct config *config, const struct plan *p)
{
	auto_free char *wanted = NULL;
	json_auto_t *start = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	const char *job = job_id(environ);
	int is_sites;

	if (!job || !is_id(job) || !x->argv || x->exec.join || !cli_is_spokesman() ||
		config_word(config, "exec", "record", &wanted, &is_sites, &err) < 0 ||
		(wanted && config_truth(wanted) == 0))
		return;
	start = start_of(x, p);
	if (append(job, start, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, ", so mlrun rerun will not know this start");
}

/* --- reading ------------------------------------------------------------------------------ */

static int not_there(const char *job, struct mlr_error *err)
{
	mlr_fail(err, ENOENT, "no start of a container in job '%s' is recorded", job);
	return mlr_hint(err,
		"mlrun exec records those of your own jobs, unless the setting record is false");
}

static int read_lines(const char *path, json_t *list, struct mlr_error *err)
{
	auto_free char *text = NULL;
	char *rest, *line;
	struct stat st;
	int number = 0, r = file_read(AT_FDCWD, path, RECORD_MAX, &text, NULL, err);

	if (r == 0 && (stat(path, &st) < 0 || st.st_uid != geteuid() || account_others_write(&st)))
		return mlr_fail(err, EACCES, "%s: others may write to it, or it is theirs", path);

	rest = text;
	while (r == 0 && (line = strsep(&rest, "\n"))) {
		json_t *o = *line ? json_loads(line, 0, NULL) : NULL;

		number++;
		if (json_is_object(o))
			json_array_append_new(list, o);
		else if (*line) { /* a full disk cut it */
			json_decref(o);
			mlr_warning("%s:%d: no JSON object, ignoring", path, number);
		}
	}
	return r;
}

/* Keep those of one step. */
static json_t *of_step(json_t *all, const char *step)
{
	json_t *list = json_array(), *o;
	size_t i;

	json_array_foreach(all, i, o) {
		const char *has = json_string_value(json_object_get(o, "step"));

		if (has && strcmp(has, step) == 0)
			json_array_append(list, o);
	}
	json_decref(all);
	return list;
}

int runs_read(const char *job, json_t **ret, struct mlr_error *err)
{
	auto_free char *dir = runs_dir(err), *path = NULL;
	json_auto_t *list = json_array();
	const char *step;
	int r;

	if (!dir)
		return -err->code;
	if (!is_id(job))
		return mlr_fail(err, EINVAL, "'%s' is not a job's id", job);
	path = xasprintf("%s/%s.jsonl", dir, job);
	r = read_lines(path, list, err);
	step = strrchr(job, '.');
	if (r == -ENOENT && step) {
		auto_free char *whole = xasprintf("%s/%.*s.jsonl", dir, (int)(step - job), job);

		r = read_lines(whole, list, err);
		list = of_step(list, step + 1);
	}
	if (r == -ENOENT || (r == 0 && json_array_size(list) == 0))
		return not_there(job, err);
	if (r == 0)
		*ret = json_incref(list);
	return r;
}
