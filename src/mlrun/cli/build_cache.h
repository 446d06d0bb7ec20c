/* --cache-from and --cache-to of mlrun build: steps in registries. */
#pragma once

#include "build/build.h"
#include "cli/options.h"

struct build_cache {
	struct store *st;
	const struct registry_options *registry;
	const struct strv *from; /* texts of --cache-from */
	struct registry_options options;
	struct pull_steps **v; /* one for each text; NULL: not usable */
	int is_open;
};

/* Check a text: an image in a registry, or "type=registry,ref=IMAGE[,mode=max]". Returns 0, or
 * -EINVAL. */
int build_cache_parse(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* As build_options.find_step. What cannot be used is warned of, once. */
int build_cache_find(struct build_cache *c, const char *key, struct store_cached *ret);
void build_cache_done(struct build_cache *c);

/* Push the steps to each of the texts. Returns push_steps()'s errors. */
int build_cache_push(struct store *st, const struct registry_options *registry,
	const struct strv *to, const struct build_result *r, struct mlr_error *err);
