/* The state of a stage: its configuration and layers so far. For this room's other files. */
#pragma once

#include "build/build.h"
#include "oci/config.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "plan/plan.h"
#include "recipe/derive.h"
#include "recipe/scope.h"
#include "store/facts.h"

struct state {
	char *config;             /* the document */
	struct oci_config parsed; /* the same */
	struct oci_layer *layers; /* n_layers, lowest first; digests and types are owned */
	size_t n_layers;
	size_t n_base;           /* of these, the image's that the first stage began with */
	char key[HASH_HEX_SIZE]; /* of the files: by what they were made */
	struct scope scope;
	char created[32]; /* of its newest layer, RFC 3339 */
	int has_cmd;      /* this stage has a CMD */
	char *manifest;   /* of an image of this state without a name; NULL: not made yet */
	char *tree;       /* the path of its files as one tree; NULL: not made yet */
};

#define STATE_INIT \
	{          \
		0  \
	}
void state_done(struct state *s);

/* An empty image for this platform, "linux/amd64". */
int state_scratch(struct state *s, const char *platform, struct mlr_error *err);

/* An image of a store, whose layers are copied to the own store if need be. */
int state_from_image(struct state *s, struct store *st, struct store *from,
	const struct store_image *im, struct mlr_error *err);

/* Take over the state of another stage. */
void state_from_stage(struct state *s, const struct state *parent);

/* Change the configuration; d's diff_id is a layer of the store, of size bytes. The state's created
 * is used. */
int state_derive(struct state *s, struct derive *d, uint64_t size, struct mlr_error *err);

/* Make an image of the state, without a name. */
int state_image(struct state *s, struct store *st, struct mlr_error *err);

/* Plan its root, to look into it. */
int state_plan(struct state *s, struct store *st, struct plan *ret, struct mlr_error *err);

/* Make one tree of its files. */
int state_tree(struct state *s, struct store *st, struct mlr_error *err);

/* Make one layer of those above the base's. is_cached: an equal one may be taken from the cache. */
int state_squash(
	struct state *s, struct store *st, int is_cached, const int *cancel, struct mlr_error *err);

/* Mix words into the key of the files; the list ends with NULL. */
void state_mix(struct state *s, ...) __attribute__((sentinel));
