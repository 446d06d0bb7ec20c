#include "load/check.h"

/* Longer ones first, as "<" begins "<=". */
static const struct {
	const char *text;
	enum check_op op;
} ops[] = { { "===", CHECK_EQUAL }, { "!==", CHECK_UNEQUAL }, { "==", CHECK_EQUAL },
	{ "!=", CHECK_UNEQUAL }, { "<=", CHECK_LESS_EQUAL }, { ">=", CHECK_MORE_EQUAL },
	{ "<", CHECK_LESS }, { ">", CHECK_MORE }, { "contains", CHECK_CONTAINS } };

static const char *const subjects[] = { "status", "body", "header" };

void check_done(struct check *c)
{
	free(c->text);
	free(c->name);
	free(c->value);
	*c = (struct check){ 0 };
}

int check_op_read(const char *text, size_t *len)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (strncmp(text, ops[i].text, strlen(ops[i].text)) == 0) {
			*len += strlen(ops[i].text);
			return (int)ops[i].op;
		}
	return -1;
}

int check_numbers(enum check_op op, double a, double b)
{
	switch (op) {
	case CHECK_EQUAL:
		return a >= b && a <= b;
	case CHECK_UNEQUAL:
		return a < b || a > b;
	case CHECK_LESS_EQUAL:
		return a <= b;
	case CHECK_MORE_EQUAL:
		return a >= b;
	case CHECK_LESS:
		return a < b;
	case CHECK_MORE:
		return a > b;
	default:
		return 0;
	}
}

const char *check_skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

static int subject_read(const char **p, enum check_subject *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
		if (strncmp(*p, subjects[i], strlen(subjects[i])) == 0) {
			*p = check_skip_blanks(*p + strlen(subjects[i]));
			*ret = (enum check_subject)i;
			return 0;
		}
	return -1;
}

/* Copy a value without quotes around it. */
static char *value_copy(const char *p)
{
	size_t n = strlen(p);

	while (n && strchr(" \t", p[n - 1]))
		n--;
	if (n >= 2 && strchr("\"'", p[0]) && p[n - 1] == p[0])
		return xstrndup(p + 1, n - 2);
	return xstrndup(p, n);
}

static int status_parse(struct check *c, struct mlr_error *err)
{
	const char *v = c->value;

	if (c->op == CHECK_CONTAINS)
		return mlr_fail(err, EINVAL, "a status is compared with == != < <= > >=");
	if (strlen(v) != 3 || strspn(v, "0123456789") != 3)
		return mlr_fail(err, EINVAL, "'%s' is not a status such as 200", v);
	c->status = (v[0] - '0') * 100 + (v[1] - '0') * 10 + (v[2] - '0');
	return 0;
}

static int parse(const char *text, struct check *c, struct mlr_error *err)
{
	const char *p = check_skip_blanks(text);
	size_t len = 0;
	int op;

	if (subject_read(&p, &c->subject) < 0)
		return mlr_fail(err, EINVAL, "it begins with none of status, body and header");
	if (c->subject == CHECK_HEADER) {
		len = strcspn(p, " \t=!<>");
		if (!len)
			return mlr_fail(err, EINVAL, "the header has no name");
		c->name = xstrndup(p, len);
		p = check_skip_blanks(p + len);
		len = 0;
	}
	op = check_op_read(p, &len);
	if (op < 0)
		return mlr_fail(err, EINVAL, "no comparison at '%s'", p);
	c->op = (enum check_op)op;
	c->value = value_copy(check_skip_blanks(p + len));
	c->len = strlen(c->value);
	if (c->subject == CHECK_STATUS)
		return status_parse(c, err);
	if (c->op != CHECK_EQUAL && c->op != CHECK_UNEQUAL && c->op != CHECK_CONTAINS)
		return mlr_fail(err, EINVAL, "text is compared with ==, != or contains");
	if (!c->len && c->op == CHECK_CONTAINS)
		return mlr_fail(err, EINVAL, "nothing stands after contains");
	return 0;
}

int check_parse(const char *text, struct check *ret, struct mlr_error *err)
{
	auto_call(check_done) struct check c = { .text = xstrdup(text) };

	TRY(parse(text, &c, err));
	*ret = take_struct(&c, { 0 });
	return 0;
}

int check_status(const struct check *c, int status)
{
	return check_numbers(c->op, status, c->status);
}

int check_bytes(const struct check *c, const char *bytes, size_t len)
{
	int same = len == c->len && (!len || memcmp(bytes, c->value, len) == 0);

	if (c->op == CHECK_CONTAINS)
		return len && memmem(bytes, len, c->value, c->len) != NULL;
	return c->op == CHECK_EQUAL ? same : !same;
}
