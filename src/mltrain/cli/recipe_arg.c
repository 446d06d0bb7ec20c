#include "cli/recipe_arg.h"

#include "base/base.h"
#include "cli/arg.h"
#include "model/recipe_file.h"

void recipe_arg_augment(void *field, char *arg, struct argp_state *state)
{
	enum { SHIFT, FLIP, CUTOUT, NONE };
	char *const words[] = { (char *)"shift", (char *)"flip", (char *)"cutout", (char *)"none",
		NULL };
	struct augment_policy *ret = field;
	auto_free char *copy = xstrdup(arg);
	char *at = copy, *value;

	*ret = (struct augment_policy){ 0 };
	while (*at) {
		int which = getsubopt(&at, words, &value);

		if ((which == SHIFT || which == CUTOUT) && !value)
			argp_error(state, "--augment %s=PIXELS needs a number", words[which]);
		else if (which == SHIFT)
			ret->shift = (int)options_count(state, "augment shift", value, 0, 127);
		else if (which == CUTOUT)
			ret->cut = (int)options_count(state, "augment cutout", value, 0, 255);
		else if (which == FLIP && !value)
			ret->flip = 1;
		else if (which != NONE || value)
			argp_error(state,
				"--augment '%s' is not none, shift=PIXELS, flip or cutout=PIXELS",
				arg);
	}
}

/* Parse "3:6.5", the epochs of a schedule of steps. */
static json_t *numbers(struct argp_state *state, const char *key, char *text)
{
	json_t *array = json_array();
	char *save;

	for (char *s = strtok_r(text, ":", &save); s; s = strtok_r(NULL, ":", &save))
		json_array_append_new(array, json_real(options_real(state, key, s, 0, 1e9)));
	return array;
}

/* Add "final=0.1" to the object. */
static void add_member(struct argp_state *state, const char *arg, char *member, json_t *object)
{
	char *value = strchr(member, '=');
	auto_free char *key = NULL;

	if (!value)
		argp_error(state, "--schedule '%s': '%s' is not KEY=NUMBER", arg, member);
	*value++ = '\0';
	if (strcmp(member, "kind") == 0 || strcmp(member, "warmup") == 0)
		argp_error(state, "--schedule '%s' has no '%s'%s", arg, member,
			*member == 'w' ? "; give --warmup" : "");
	key = xasprintf("schedule %s", member);
	json_object_set_new(object, member,
		strcmp(member, "at") == 0 ? numbers(state, key, value)
					  : json_real(options_real(state, key, value, 0, 1e9)));
}

void recipe_arg_schedule(void *field, char *arg, struct argp_state *state)
{
	struct schedule *ret = field;
	auto_free char *copy = xstrdup(arg);
	json_auto_t *object = json_object();
	struct mlr_error err = MLR_ERROR_INIT;
	double warmup = ret->warmup;
	char *save, *kind = strtok_r(copy, ",", &save);

	json_object_set_new(object, "kind", json_string(kind ? kind : ""));
	for (char *m = strtok_r(NULL, ",", &save); kind && m; m = strtok_r(NULL, ",", &save))
		add_member(state, arg, m, object);
	if (recipe_schedule_parse(object, ret, &err) < 0)
		argp_error(state, "--schedule '%s': %s", arg, err.text);
	ret->warmup = warmup;
}
