/*
 * The rendezvous file of an elastic run: where its coordinator is, and the secret that lets a
 * process in. Mode 0600, on a file system that all nodes see; it appears, changes and goes whole.
 */
#include "dist/elastic_run.h"

#include "base/json.h"

#include <arpa/inet.h>

#define FILE_MAX 16384

static json_t *addresses_of(const struct lifeline_offer *o)
{
	json_t *list = json_array();
	char text[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i < o->addresses; i++)
		if (inet_ntop(AF_INET6, &o->address[i], text, sizeof(text)))
			json_array_append_new(list, json_string(text));
	return list;
}

static char *text_of(const struct rendezvous *r)
{
	const struct member *m = &r->coordinator;
	char hex[SECRET_HEX_SIZE];
	json_auto_t *o = NULL;

	secret_hex(&r->secret, hex);
	o = json_pack("{s:s, s:o, s:s, s:i, s:I, s:I, s:o, s:i}", "mltrain", "elastic 1", "host",
		mlr_json_text(m->host), "boot", m->boot, "pid", (int)m->pid, "id",
		(json_int_t)m->id, "generation", (json_int_t)r->generation, "addresses",
		addresses_of(&m->offer), "port", (int)m->offer.port);
	json_object_set_new(o, "secret", json_string(hex));
	return json_dumps(o, JSON_INDENT(1));
}

static int parse(const char *text, struct rendezvous *ret, struct mlr_error *err)
{
	json_auto_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	struct rendezvous r = { .generation = 0 };
	struct member *m = &r.coordinator;
	const char *form, *host, *boot, *secret;
	json_t *addresses, *a;
	json_int_t id, generation;
	int pid, port;
	size_t i;

	if (!o ||
		json_unpack(o, "{s:s, s:s, s:s, s:i, s:I, s:I, s:o, s:i, s:s}", "mltrain", &form,
			"host", &host, "boot", &boot, "pid", &pid, "id", &id, "generation",
			&generation, "addresses", &addresses, "port", &port, "secret", &secret) < 0)
		return mlr_fail(err, EPROTO, "not a rendezvous file of mltrain");
	if (strcmp(form, "elastic 1") != 0 || port < 1 || port > 65535 || generation < 0 ||
		generation > UINT32_MAX)
		return mlr_fail(err, EPROTO, "it is of another version of mltrain, or damaged");
	json_array_foreach(addresses, i, a) {
		const char *at = json_string_value(a);

		if (i < LIFELINE_ADDRESSES && at &&
			inet_pton(AF_INET6, at, &m->offer.address[m->offer.addresses]) == 1)
			m->offer.addresses++;
	}
	snprintf(m->host, sizeof(m->host), "%s", host);
	snprintf(m->boot, sizeof(m->boot), "%s", boot);
	m->pid = pid;
	m->id = (uint64_t)id;
	m->offer.port = (uint32_t)port;
	r.generation = (uint32_t)generation;
	TRY(secret_parse(secret, &r.secret, err));
	*ret = r;
	return 0;
}

/* Refuse another user's file: it would bring this process into that user's run. */
static int read_own(const char *path, char **ret, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	auto_free char *text = xcalloc(1, FILE_MAX + 1);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return mlr_fail_errno(err, "open");
	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "stat");
	if (!S_ISREG(st.st_mode))
		return mlr_fail(err, EINVAL, "not a regular file");
	if (st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO)) {
		mlr_fail(err, EACCES, "%s",
			st.st_uid != geteuid() ? "it is another user's"
					       : "others may read or write it");
		return mlr_hint(err, "remove it, or name a file in a directory of your own");
	}
	n = file_read_full(fd, text, FILE_MAX);
	if (n < 0)
		return mlr_result(err, (int)n, "read");
	*ret = take_ptr(&text);
	return 0;
}

int rendezvous_read(const char *path, struct rendezvous *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	int r = read_own(path, &text, err);

	if (r == 0)
		r = parse(text, ret, err);
	return r < 0 ? mlr_wrap(err, "rendezvous file '%s'", path) : 0;
}

int rendezvous_create(const char *path, const struct rendezvous *r, struct mlr_error *err)
{
	auto_free char *text = text_of(r);
	int e;

	file_replace_sweep(AT_FDCWD, path);
	e = file_create(AT_FDCWD, path, text, strlen(text), 0600, err);
	return e < 0 ? mlr_wrap(err, "rendezvous file '%s'", path) : 0;
}

int rendezvous_replace(const char *path, const struct rendezvous *r, struct mlr_error *err)
{
	auto_free char *text = text_of(r);
	int e = file_replace(AT_FDCWD, path, text, strlen(text), 0600, err);

	return e < 0 ? mlr_wrap(err, "rendezvous file '%s'", path) : 0;
}

static int is_same(const char *path, const struct rendezvous *r)
{
	struct rendezvous now;

	return rendezvous_read(path, &now, NULL) == 0 && now.generation == r->generation &&
		now.coordinator.id == r->coordinator.id &&
		memcmp(&now.secret, &r->secret, sizeof(now.secret)) == 0;
}

void rendezvous_remove(const char *path, const struct rendezvous *r)
{
	auto_free char *aside = file_temp_name(path);
	auto_close int fd = -1; /* while it is open, nobody sweeps the file */

	file_replace_sweep(AT_FDCWD, path);
	if (!is_same(path, r) || rename(path, aside) < 0)
		return;
	fd = open(aside, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	/* Another process may have replaced it in between: give that one its name back. */
	if (!is_same(aside, r) && link(aside, path) < 0)
		errno = 0;
	unlink(aside);
}
