#include "cli/services.h"

#include "cli/cli.h"
#include "cli/fetch.h"

#include "base/config.h"
#include "base/json.h"
#include "base/record.h"
#include "base/proc.h"
#include "oci/name.h"
#include "plan/plan.h"
#include "rootfs/lookup.h"
#include "store/stores.h"
#include "work/service_log.h"

#define FOLLOW_MS 100

int services_open(const char *dir, struct store **ret, struct mlr_error *err)
{
	int r = cli_open_store(dir, ret, err);

	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "there is no store, and so no service");
		return mlr_hint(err, "mlrun run -d --name NAME IMAGE starts one");
	}
	return r;
}

int services_has(const char *store, const char *name)
{
	auto_store struct store *st = NULL;
	auto_call(service_done) struct service s = SERVICE_INIT;

	return service_name_check(name, NULL) == 0 && cli_open_store(store, &st, NULL) == 0 &&
		service_get(st, name, &s, NULL) == 0;
}

/* The name that an image has in the store; to free(), or NULL. */
static char *stored_name(struct store *st, const char *text)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(store_image_done) struct store_image im = { 0 };

	return oci_name_parse(text, &name, NULL) == 0 &&
			store_image_find_name(st, &name, &im, NULL) == 0 && im.name
		? xstrdup(im.name)
		: NULL;
}

char *services_needing(struct store *st, const char *image)
{
	auto_call(service_list_done) struct service_list l = { 0 };
	auto_free char *wanted = stored_name(st, image);

	service_list_read(st, &l, NULL);
	for (size_t i = 0; wanted && i < l.n; i++) {
		auto_free char *its = stored_name(st, l.v[i].image);

		if (its && strcmp(its, wanted) == 0)
			return xstrdup(l.v[i].name);
	}
	return NULL;
}

/* --- what the image says --------------------------------------------------------------------- */

static int64_t ms_of(const json_t *check, const char *key, int64_t usual)
{
	json_int_t ns = json_integer_value(json_object_get(check, key));

	return ns > 0 ? (ns + 999999) / 1000000 : usual;
}

/* ["CMD", "a", "b"], ["CMD-SHELL", "a b"], ["NONE"] */
static void take_test(const json_t *run, const json_t *check, struct strv *ret)
{
	const struct record_reader r = { .err = NULL };
	auto_strv struct strv test = STRV_INIT;

	if (record_texts(&r, json_object_get(check, "Test"), &test) < 0 || test.n < 2)
		return;
	if (strcmp(test.v[0], "CMD-SHELL") == 0 &&
		(record_texts(&r, json_object_get(run, "Shell"), ret) < 0 || ret->n == 0)) {
		strv_add_words(ret, "/bin/sh", "-c");
	} else if (strcmp(test.v[0], "CMD-SHELL") != 0 && strcmp(test.v[0], "CMD") != 0) {
		return;
	}
	for (size_t i = 1; i < test.n; i++)
		strv_add(ret, test.v[i]);
}

static void take_check(const json_t *run, struct service_check *c)
{
	const json_t *check = json_object_get(run, "Healthcheck");
	json_int_t retries = json_integer_value(json_object_get(check, "Retries"));

	take_test(run, check, &c->test);
	c->interval = ms_of(check, "Interval", c->interval);
	c->timeout = ms_of(check, "Timeout", c->timeout);
	c->start_period = ms_of(check, "StartPeriod", c->start_period);
	c->start_interval = ms_of(check, "StartInterval", c->start_interval);
	c->retries = retries > 0 ? (long)retries : c->retries;
}

static int read_config(
	struct store *st, const struct store_image *im, json_t **ret, struct mlr_error *err)
{
	auto_call(oci_document_done) struct oci_document doc = { .kind = OCI_MANIFEST };
	auto_free char *text = NULL;
	size_t len = 0;

	TRY(cli_stored_manifest(st, im->manifest, &doc, err));
	TRY(cli_stored_text(st, doc.config.digest, &text, &len, err));
	*ret = json_loadb(text, len, 0, NULL);
	return *ret ? 0 : mlr_fail(err, EPROTO, "'%s': its configuration is not JSON", im->name);
}

int services_take_image(const char *image, const char *store, int with_check, struct service *s,
	char **manifest, struct mlr_error *err)
{
	auto_call(stores_close) struct stores all = { 0 };
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(store_image_done) struct store_image im = { 0 };
	json_auto_t *config = NULL;
	const json_t *run;
	const char *word;
	struct store *st;

	if (oci_name_parse(image, &name, NULL) < 0 || stores_open(store, NULL, &all, NULL) < 0 ||
		stores_find(&all, &name, &st, &im, NULL) < 0)
		return 0; /* a plain directory, a file, a container */
	TRY(read_config(st, &im, &config, err));
	run = json_object_get(config, "config");
	word = json_string_value(json_object_get(run, "StopSignal"));
	if (word && signal_number(word) > 0)
		s->stop_signal = signal_number(word);
	else if (word)
		mlr_warning("image '%s': unknown STOPSIGNAL '%s', ignoring", image, word);
	s->exposes = json_object_size(json_object_get(run, "ExposedPorts")) > 0;
	if (with_check)
		take_check(run, &s->check);
	if (manifest)
		*manifest = take_ptr(&im.manifest);
	return 0;
}

/* --- start ----------------------------------------------------------------------------------- */

int services_prepare(struct cli_exec *x, const char *command)
{
	auto_call(config_done) struct config config = { 0 };
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct exec_options *o = &x->exec;
	int status;

	plan_init(&p);
	if (config_load(&config, &err) < 0 || exec_defaults(&config, o, &err) < 0)
		return cli_fail_at(&err, "%s '%s'", command, o->image);
	if (o->pull != EXEC_PULL_NEVER && cli_can_fetch(o->image))
		o->fetch = cli_fetch;
	status = exec_plan(o, 0, &p, &err);
	rootfs_look_done();
	return status < 0 ? cli_fail_at(&err, "%s '%s'", command, o->image) : status;
}

static void print_last_words(struct store *st, const char *name)
{
	struct service_reader r = { 0 };
	struct service_line line;

	service_reader_open(st, name, NULL, &r);
	while (service_reader_next(&r, &line)) {
		fwrite(line.text, 1, line.len, stderr);
		if (line.ends)
			putc('\n', stderr);
	}
	service_reader_done(&r);
}

int services_launch(struct store *st, struct service *s, const char *command)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = service_start(st, s, &err);

	if (r == -ECHILD && s->exit_status > 0) {
		print_last_words(st, s->name);
		service_forget(st, s, NULL);
		return s->exit_status;
	}
	return r < 0 ? cli_fail_at(&err, "%s '%s'", command, s->name) : 0;
}

/* --- choose ---------------------------------------------------------------------------------- */

void services_choice_done(struct services_choice *c)
{
	strv_done(&c->names);
	service_list_done(&c->list);
}

static int by_order(const void *a, const void *b)
{
	const struct service *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return strverscmp(x->name, y->name);
}

/* In a project its service's name stands for all of its replicas. */
static int is_wanted(const struct services_choice *c, const struct service *s)
{
	if (!s->project || strcmp(s->project, c->project) != 0)
		return 0;
	return c->names.n == 0 || strv_has(&c->names, s->name) || strv_has(&c->names, s->part);
}

static int is_found(const struct services_choice *c, const char *name)
{
	for (size_t i = 0; i < c->list.n; i++)
		if (strcmp(c->list.v[i].name, name) == 0 || strcmp(c->list.v[i].part, name) == 0)
			return 1;
	return 0;
}

static int choose_of_project(struct store *st, struct services_choice *c, struct mlr_error *err)
{
	auto_call(service_list_done) struct service_list all = { 0 };
	int r = service_list_read(st, &all, err);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		if (!is_wanted(c, &all.v[i]))
			continue;
		*xadd(c->list.v, c->list.n) = all.v[i];
		all.v[i] = (struct service)SERVICE_INIT;
	}
	sort_all(c->list.v, c->list.n, by_order);
	for (size_t i = 0; r == 0 && i < c->names.n; i++)
		if (!is_found(c, c->names.v[i])) {
			r = mlr_fail(err, ENOENT, "project '%s' has started no service '%s'",
				c->project, c->names.v[i]);
			mlr_hint(err, "mlrun ps --all -p %s lists them; mlrun up -d %s starts it",
				c->project, c->names.v[i]);
		}
	return r;
}

int services_choose(struct store *st, struct services_choice *c, struct mlr_error *err)
{
	int status = 0;

	if (c->project)
		return choose_of_project(st, c, err);
	for (size_t i = 0; i < c->names.n; i++) {
		struct mlr_error *first = status < 0 ? NULL : err;
		int r;

		c->list.v = xgrow(c->list.v, c->list.n, sizeof(*c->list.v));
		r = service_get(st, c->names.v[i], &c->list.v[c->list.n], first);
		if (r == 0)
			c->list.n++;
		else if (status == 0)
			status = r;
	}
	return status;
}

/* --- output ---------------------------------------------------------------------------------- */

struct source {
	struct service_reader reader;
	char *name;
};

/* Name a project's service as docker compose does: "web-1". */
static char *label(const struct service *s)
{
	return s->replica ? xasprintf("%s-%ld", s->part, s->replica) : xstrdup(s->name);
}

static int wide(const struct source *sources, size_t len)
{
	int n = 0;

	for (size_t i = 0; i < len; i++)
		if ((int)strlen(sources[i].name) > n)
			n = (int)strlen(sources[i].name);
	return n;
}

/* open: whose line has not ended; another's does not go on with it. */
static void print_line(const struct source *s, const struct service_line *line,
	const struct services_output *o, int width, const struct source **open)
{
	FILE *to = line->is_error && !o->prefix ? stderr : stdout;
	int breaks = o->prefix && *open && *open != s;

	if (to == stderr)
		fflush(stdout);
	if (breaks)
		putc('\n', to);
	*open = line->ends ? NULL : s;
	if ((line->begins || breaks) && o->prefix)
		fprintf(to, "%-*s | ", width, s->name);
	if ((line->begins || breaks) && o->timestamps)
		fprintf(to, "%s ", line->time);
	fwrite(line->text, 1, line->len, to);
	if (line->ends)
		putc('\n', to);
}

static int has_passed(const char *time)
{
	char text[SERVICE_TIME];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	service_time(&now, text);
	return *time && strcmp(text, time) > 0;
}

static int have_all_ended(struct store *st, const struct service_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		auto_call(service_done) struct service now = SERVICE_INIT;

		if (service_get(st, l->v[i].name, &now, NULL) == 0 && !service_has_ended(&now))
			return 0;
	}
	return 1;
}

/* Returns 0 or -errno of writing. */
static int print_some(struct source *sources, size_t n, const struct services_output *o, int width,
	const struct source **open)
{
	struct service_line line;

	for (size_t i = 0; i < n; i++)
		while (service_reader_next(&sources[i].reader, &line))
			print_line(&sources[i], &line, o, width, open);
	return fflush(stdout) == EOF ? -errno : 0;
}

int services_print(struct store *st, const struct service_list *l, const struct services_output *o,
	struct mlr_error *err)
{
	auto_free struct source *sources = xcalloc(l->n + 1, sizeof(*sources));
	const struct source *open = NULL;
	int r = 0, over = 0, width;

	for (size_t i = 0; i < l->n; i++) {
		sources[i].name = label(&l->v[i]);
		service_reader_open(st, l->v[i].name, &o->range, &sources[i].reader);
	}
	width = wide(sources, l->n);
	for (;;) {
		r = print_some(sources, l->n, o, width, &open);
		if (r < 0 || (over && !(o->stop && o->stop(o->ctx))))
			break;
		over |= !o->follow || (o->over && o->over(o->ctx)) || has_passed(o->range.until) ||
			have_all_ended(st, l);
		if (!over)
			mlr_sleep_ms(FOLLOW_MS);
	}
	for (size_t i = 0; i < l->n; i++) {
		service_reader_done(&sources[i].reader);
		free(sources[i].name);
	}
	return r < 0 ? mlr_fail(err, -r, "write: %s", strerror(-r)) : 0;
}
