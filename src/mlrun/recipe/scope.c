#include "recipe/scope.h"

void scope_done(struct scope *s)
{
	strv_done(&s->env);
	strv_done(&s->args);
	strv_done(&s->declared);
	strv_done(&s->unset);
}

void scope_inherit(struct scope *s, const struct scope *parent)
{
	strv_add_all(&s->env, &parent->env);
	strv_add_all(&s->args, &parent->args);
	strv_add_all(&s->declared, &parent->declared);
}

static const char *value_of(const struct strv *l, const char *name)
{
	return l ? strv_env_get(l->v, name) : NULL;
}

const char *scope_get(void *scope, const char *name)
{
	struct scope *s = scope;
	const char *value = value_of(&s->env, name);

	if (!value)
		value = value_of(&s->args, name);
	if (!value && !strv_has(&s->declared, name) && !strv_has(&s->unset, name))
		strv_add(&s->unset, name);
	return value;
}

struct expand scope_expand(struct scope *s, char escape)
{
	return (struct expand){ escape, 0, scope_get, s };
}

static int declare(struct scope *s, const char *arg, char escape, struct mlr_error *err)
{
	size_t len = strcspn(arg, "=");
	auto_free char *name = xstrndup(arg, len), *expanded = NULL;
	const struct expand e = scope_expand(s, escape);
	const char *value = value_of(s->given, name);

	TRY(!value && arg[len] ? expand_word(&e, arg + len + 1, &expanded, err) : 0);
	if (!value)
		value = expanded;
	if (!value && s->global)
		value = value_of(&s->global->args, name);
	if (!strv_has(&s->declared, name))
		strv_add(&s->declared, name);
	if (value)
		strv_env_set(&s->args, name, value);
	return 0;
}

int scope_declare(
	struct scope *s, const struct instruction *arg, char escape, struct mlr_error *err)
{
	for (size_t i = 0; i < arg->args.n; i++)
		TRY(declare(s, arg->args.v[i], escape, err));
	return 0;
}

int scope_set(struct scope *s, const struct instruction *env, char escape, struct mlr_error *err)
{
	const struct expand e = scope_expand(s, escape);
	auto_strv struct strv pairs = STRV_INIT;

	TRY(instruction_expand(env, &e, &pairs, err));
	for (size_t i = 0; i + 1 < pairs.n; i += 2)
		strv_env_set(&s->env, pairs.v[i], pairs.v[i + 1]);
	return 0;
}

int scope_is_proxy(const char *name)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "ftp_proxy", "no_proxy",
		"all_proxy" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return 1;
	return 0;
}
