/* Which paths there are, and what answers those that ask for no prediction. */
#pragma once

#include "serve/ask.h"
#include "serve/counts.h"

enum serve_method { SERVE_GET = 1, SERVE_POST = 2 };

/* The parts of the server that answers need. */
struct serve_context {
	struct serve_models *models;
	struct serve_counts *counts;
};

struct serve_route {
	const char *path; /* {m}: a model's name, {v}: a version; also its name in /metrics */
	enum serve_method method;
	int is_open;                         /* needs no token */
	const struct serve_dialect *dialect; /* whose failures look how */
	int (*get)(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
		struct mlr_error *err); /* NULL: predicts */
};

struct serve_match {
	int number;                      /* for serve_counts_request(); 0: no route */
	const struct serve_route *route; /* NULL: there is no such path */
	unsigned methods;          /* methods of the path; route is the one that matches, or NULL */
	struct serve_model *model; /* taken, to serve_model_drop(); NULL: the path names none */
};

/*
 * Find a path.
 *
 *   method   an enum serve_method, or 0 for another
 *   ret      filled in, also on failure
 *
 * Returns 0, -ENOENT for no such path, model or version, -EPERM for a method that it has not.
 */
int serve_routes_find(struct serve_context *c, const char *path, unsigned method,
	struct serve_match *ret, struct mlr_error *err);

/* A route's path by its number, for /metrics; NULL: no more. */
const char *serve_routes_name(int number);

/* page.css and page.js, which the build puts into the program. */
extern const char serve_page_css[], serve_page_js[];
