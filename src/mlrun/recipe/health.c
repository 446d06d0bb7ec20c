#include "recipe/health.h"

#include "base/duration.h"

static json_int_t duration(const char *s)
{
	return duration_ns(s);
}

static json_int_t retries(const char *s)
{
	return *s && !s[strspn(s, "0123456789")] && strlen(s) < 10 ? atoi(s) : -1;
}

static const struct {
	const char *flag, *key;
	json_int_t (*read)(const char *s);
	json_int_t min; /* except 0, which means the default */
} options[] = {
	{ "--interval", "Interval", duration, 1000000 },
	{ "--timeout", "Timeout", duration, 1000000 },
	{ "--start-period", "StartPeriod", duration, 1000000 },
	{ "--start-interval", "StartInterval", duration, 1000000 },
	{ "--retries", "Retries", retries, 1 },
};

int health_check(const struct instruction *in, struct mlr_error *err)
{
	int is_none = strcasecmp(in->args.v[0], "NONE") == 0;

	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const char *value = instruction_flag(in, options[i].flag);
		json_int_t n = value ? options[i].read(value) : 0;

		if (n < 0 || (n > 0 && n < options[i].min))
			return mlr_fail(err, EINVAL,
				"'%s=%.100s': expected a time such as 30s or 1m30s, or a number of retries",
				options[i].flag, value);
	}
	if (is_none && in->args.n == 1 && in->flags.n == 0)
		return 0;
	if (!is_none && strcasecmp(in->args.v[0], "CMD") == 0 && in->args.n > 1)
		return 0;
	return mlr_fail(err, EINVAL, "HEALTHCHECK: expected NONE or [OPTION...] CMD COMMAND");
}

json_t *health_config(const struct instruction *in)
{
	json_t *check = json_object(), *test = json_array();

	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const char *value = instruction_flag(in, options[i].flag);

		if (value)
			json_object_set_new(
				check, options[i].key, json_integer(options[i].read(value)));
	}
	json_array_append_new(test,
		json_string(in->args.n == 1   ? "NONE"
				: in->is_json ? "CMD"
					      : "CMD-SHELL"));
	for (size_t i = 1; i < in->args.n; i++)
		json_array_append_new(test, json_string(in->args.v[i]));
	if (json_object_set_new(check, "Test", test) < 0)
		mlr_oom();
	return check;
}
