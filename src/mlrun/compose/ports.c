/* Ports of a service (05-services.md of the specification). */
#include "compose/ports.h"

#include "compose/parts.h"

#include <arpa/inet.h>

#define PORTS_MAX 1000 /* of a service */

struct port {
	char *target, *published, *address, *protocol;
};

const struct record_row compose_port_rows[] = {
	{ "target", RECORD_TEXT, RECORD_AT(struct port, target) },
	{ "published", RECORD_TEXT, RECORD_AT(struct port, published) },
	{ "host_ip", RECORD_TEXT, RECORD_AT(struct port, address) },
	{ "protocol", RECORD_TEXT, RECORD_AT(struct port, protocol) },
	{ "app_protocol", RECORD_OWN },
	{ "mode", RECORD_OWN },
	{ "name", RECORD_OWN },
	{ NULL },
};

/* "[[ADDRESS:]PUBLISHED:]TARGET[/PROTOCOL]"; an IPv6 address stands in brackets. */
static void split(char *text, struct port *ret)
{
	char *slash = strchr(text, '/'), *colon;

	if (slash) {
		*slash = '\0';
		ret->protocol = xstrdup(slash + 1);
	}
	colon = strrchr(text, ':');
	ret->target = xstrdup(colon ? colon + 1 : text);
	if (!colon)
		return;
	*colon = '\0';
	colon = strrchr(text, ':');
	ret->published = xstrdup(colon ? colon + 1 : text);
	if (!colon)
		return;
	*colon = '\0';
	ret->address = *text == '[' && colon[-1] == ']'
		? xstrndup(text + 1, (size_t)(colon - text) - 2)
		: xstrdup(text);
}

/* "80" or "8000-8010". */
static int read_range(const char *text, long *from, long *to)
{
	char *end;

	if (!*text || text[strspn(text, "0123456789-")] || *text == '-')
		return -EINVAL;
	*from = *to = strtol(text, &end, 10);
	if (*end == '-')
		*to = strtol(end + 1, &end, 10);
	return *end || *from < 1 || *to < *from || *to > 65535 ? -EINVAL : 0;
}

static int is_any(const char *address)
{
	return !address || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

int compose_port_is_so(const char *text)
{
	struct port p = { NULL, NULL, NULL, NULL };
	auto_free char *copy = xstrdup(text);
	long from, to;
	int is_so;

	split(copy, &p);
	is_so = read_range(p.target, &from, &to) == 0 && is_any(p.address) &&
		(!p.published || strcmp(p.published, p.target) == 0);
	record_done(compose_port_rows, &p);
	return is_so;
}

/* "": all addresses. */
static int read_address(const struct record_reader *r, const char *text, const char **ret)
{
	unsigned char bytes[16];

	*ret = is_any(text) ? "" : text;
	return !**ret || inet_pton(AF_INET, *ret, bytes) == 1 ||
			inet_pton(AF_INET6, *ret, bytes) == 1
		? 0
		: record_wrong(r, "'%s' is no address of this machine", text);
}

static int refuse_protocol(const struct record_reader *r, const struct port *p)
{
	record_wrong(r, "port '%s:%s/%s' cannot be had", p->published, p->target, p->protocol);
	return mlr_hint(r->err,
		"only TCP is passed on to another port: have the command listen on port %s itself, and "
		"write %s:%s/%s",
		p->published, p->published, p->published, p->protocol);
}

static int add(const struct record_reader *r, const struct port *p, struct compose_service *s)
{
	const char *published = p->published && *p->published ? p->published : p->target, *address;
	int is_tcp = !p->protocol || strcmp(p->protocol, "tcp") == 0;
	long from, to, target, last;

	if (!p->target)
		return record_wrong(r, "the key 'target' is missing");
	if (read_range(p->target, &target, &last) < 0 || read_range(published, &from, &to) < 0)
		return record_wrong(r, "invalid port '%s%s%s'", published,
			published == p->target ? "" : ":", published == p->target ? "" : p->target);
	TRY(read_address(r, p->address, &address));
	if (!is_tcp)
		return from == target ? 0 : refuse_protocol(r, p);
	if (to - from != last - target) {
		record_wrong(r, "ports '%s:%s' are two ranges that differ in length", published,
			p->target);
		return mlr_hint(
			r->err, "give each port its own number, such as %ld:%ld", from, target);
	}
	for (; from <= to && s->ports.n < PORTS_MAX; from++, target++)
		strv_addf(&s->ports, "%ld %ld %s", from, target, address);
	s->is_narrow |= *address != '\0';
	return from > to ? 0 : record_wrong(r, "more than %d ports", PORTS_MAX);
}

static int read_one(const struct record_reader *r, const json_t *v, void *to)
{
	struct port port = { NULL, NULL, NULL, NULL };
	auto_free char *text = NULL;
	int e = compose_read_one(r, compose_port_rows, v, &port, &text);

	if (e == 0 && text)
		split(text, &port);
	if (e == 0)
		e = add(r, &port, to);
	record_done(compose_port_rows, &port);
	return e;
}

int compose_read_ports(const struct record_reader *r, const json_t *v, void *to)
{
	((struct compose_service *)to)->has_ports = 1;
	return record_each(r, v, read_one, to);
}
