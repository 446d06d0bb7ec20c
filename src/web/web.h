/* The server: what its parts share. */
#pragma once

#include "web/act.h"
#include "web/judge.h"
#include "web/log.h"

#include "http/http.h"

#include <pthread.h>

#define WEB_STREAMS_PAGES   4  /* of pages at once: a browser has six connections to a host */
#define WEB_STREAMS_SCRIPTS 64 /* of scripts */

/* Numbers of tokens, as http counts them. */
enum { WEB_SCRIPTS = 1, WEB_PAGES = 2 };

struct web {
	struct strv roots;
	struct index *index;
	struct act *act;
	struct judge *judge;
	struct http_readers *readers;
	char node[HOST_NAME_MAX + 1], *user;
	char token[3][65]; /* by their numbers; [0] is not used */
	char *keys;        /* the directory of links' keys */
	int read_only;
	pthread_mutex_t lock; /* of streams */
	struct call *streams;
	atomic_int_fast64_t asked_ms; /* the last request */
};

/* --- api.c ------------------------------------------------------------------------------- */

void api_head(struct http_request *q);
int api_answer(struct http_request *q, struct http_reply *ret);
int api_fail(struct http_request *q, struct http_reply *ret);
void api_done(struct http_request *q);

/* Bytes of a request's state. */
extern const size_t api_state;

/* Headers of all answers. */
extern const struct http_field api_fields[];

/* Wake all streams: something may have changed. */
void api_wake(struct web *w);

/* --- events.c: the stream of a page ------------------------------------------------------ */

struct stream {
	uint64_t seen;         /* the index's last change that it has told */
	char run[RUN_ID_SIZE]; /* the open one; "": none is */
	off_t log, metrics;    /* told up to here; log -1: its end as the stream begins */
	double beat;           /* mlr_now() of the last bytes */
	char *text;            /* [len], of which `sent` are sent; owned */
	size_t len, sent;
};

/* Begin one for a request. */
void events_open(struct web *w, struct http_request *q, struct stream *s);
void events_close(struct web *w, struct stream *s);

/* As http_reply.read. */
ssize_t events_read(struct web *w, struct stream *s, char *to, size_t size);

/* --- servers.c: which servers run -------------------------------------------------------- */

/* A server of this user on this node. Its files are in a directory that only the user may enter. */
struct server {
	char *directory, *url, *socket, *header, *node; /* owned */
	struct strv roots;
	pid_t pid;
};

struct server_list {
	struct server *v;
	size_t n;
};

void server_done(struct server *s);
void server_list_done(struct server_list *l);

json_t *server_json(const struct server *s);

/* Make the directory of a server of this process, with a lock that lasts as long as it. */
int server_make(struct server *ret, struct mlr_error *err);

/* Write its description, and the token for scripts. */
int server_write(const struct server *s, const char *token, struct mlr_error *err);

/* Remove its directory. */
void server_remove(const struct server *s);

/* Find those that run, and forget those that were killed. */
int server_list_read(struct server_list *ret, struct mlr_error *err);

/* Make a key that opens a server's page once, within WEB_KEY_S seconds. */
int server_key_make(const struct server *s, char key[65], struct mlr_error *err);
#define WEB_KEY_S 600

/* Take it. Returns whether it was one. */
int server_key_take(const char *keys, const char *key);

/* 64 random digits. */
void server_random(char hex[65]);

/* What the build puts into the program. */
extern const char web_html[], web_js[], web_css[], report_css[], report_js[];
