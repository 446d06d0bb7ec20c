/*
 * Reads and writes networks as JSON. A description is an object:
 *
 *   {
 *     "name": "lenet-5",
 *     "about": "LeCun et al., 1998, with ReLU and maxima",
 *     "input": {"channels": 1, "height": 28, "width": 28},
 *     "layers": [
 *       {"kind": "conv", "name": "conv1", "outputs": 6, "size": 5, "pad": "same",
 *        "init": {"normal": 0.1}, "bias": 0.1},
 *       {"kind": "relu"},
 *       {"kind": "maxpool", "size": 2},
 *       …
 *       {"kind": "add", "name": "sum1", "with": "relu1"},
 *       {"kind": "dense", "name": "fc2", "outputs": "classes", "decay": 1}
 *     ],
 *     "train": {"epochs": 10, "batch": 64, "lr": 0.01, "momentum": 0.9, "l2": 5e-4,
 *               "schedule": {"kind": "exponential", "decay": 0.95},
 *               "augment": {"shift": 2, "flip": true, "cutout": 8}, "validation": 1000}
 *   }
 *
 * A layer reads the one before it unless "from" names another ("input": the images). A layer
 * without a name gets its kind and number ("relu3"). "outputs": "classes" is
 * the data set's number of classes; missing keys of "input", or all of it, are the data set's.
 * "init" is {"normal": sigma}, "he" (sigma = sqrt(2 / fan-in)), "xavier" (sqrt(2 / (fan-in +
 * fan-out))) or "zero"; "he" is the default. An unknown key is an error that names it and the
 * nearest known one. mltrain-net(5) lists all keys.
 */
#pragma once

#include "model/net.h"
#include "model/recipe.h"

#define NET_FILE_MAX ((size_t)1 << 20) /* bytes of a description that are read at most */

/* Which values of a net_wish are only defaults: a description may contradict them. */
enum { NET_ASSUMED_INPUT = 1, NET_ASSUMED_CLASSES = 2 };

/* Values that a description must not contradict, usually the data set's. */
struct net_wish {
	struct shape input;   /* rank 0: unknown */
	int classes;          /* 0: unknown */
	double dropout;       /* the rate of every dropout layer; < 0: the description's */
	unsigned int assumed; /* the flags above */
};

/* The images and classes of MNIST, if neither the description nor the user says others. */
#define NET_WISH_ANYTHING                                                                \
	{                                                                                \
		{ 3, { 1, 28, 28, 1 } }, 10, -1, NET_ASSUMED_INPUT | NET_ASSUMED_CLASSES \
	}

/*
 * Find a description: a path (with a '/' or ending in .json) as it is; a bare name ("reference",
 * "lenet-5", "resnet-8") among those of mltrain, in $MLTRAIN_NETS, nets/ beside the source in a
 * build tree, or else the installed directory. Returns 0 and a string to free(), or -ENOENT naming
 * those that exist.
 */
int net_file_find(const char *name, char **ret, struct mlr_error *err);

/* List the names of mltrain's own descriptions, sorted. Release with strv_done(). */
struct strv net_file_names(void);

/*
 * Make a network from a description's text.
 *
 *   path     for errors: "net 'my.json': layer 3 'conv2': …", with the line of a JSON error
 *   wish     may be NULL
 *   recipe   set to the description's, with RECIPE_INIT's values for missing keys; may be NULL
 *
 * Returns 0, -EINVAL, or -EPROTO if the text is not JSON.
 */
int net_parse(const char *text, size_t len, const char *path, const struct net_wish *wish,
	struct net **ret, struct recipe *recipe, struct mlr_error *err);

/* net_file_find(), read, net_parse(). */
int net_read(const char *name, const struct net_wish *wish, struct net **ret, struct recipe *recipe,
	struct mlr_error *err);

/*
 * Describe a network with every value, to free(). net_parse() makes the same network of the text;
 * checkpoints contain it.
 */
char *net_text(const struct net *net);
