#include "runtime/mountinfo.h"

#define LENGTH_MAX (16u << 20) /* bytes */

int mountinfo_read(int dirfd, const char *path, char **ret)
{
	return file_read(dirfd, path, LENGTH_MAX, ret, NULL, NULL);
}

static int is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
		s[2] <= '7';
}

/* Undo the kernel's escapes: spaces, newlines and backslashes appear as "\040". */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (*s == '\\' && is_octal(s + 1)) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* "511 480 0:55 / / rw,nosuid shared:1 - overlay SOURCE rw,lowerdir=...": optional fields end at
 * "-". */
static int parse(char *line, struct mountinfo *ret)
{
	char *field[6], *word;

	for (size_t i = 0; i < ARRAY_LEN(field); i++)
		if (!(field[i] = strsep(&line, " ")))
			return -EINVAL;
	do
		word = strsep(&line, " ");
	while (word && strcmp(word, "-") != 0);
	strsep(&line, " "); /* the file system's type */
	ret->source = strsep(&line, " ");
	if (!ret->source || sscanf(field[2], "%u:%u", &ret->major, &ret->minor) != 2)
		return -EINVAL;
	ret->target = field[4];
	ret->options = field[5];
	unescape(ret->target);
	unescape(ret->source);
	return 0;
}

int mountinfo_next(char **text, struct mountinfo *ret)
{
	char *line;

	while ((line = strsep(text, "\n")))
		if (parse(line, ret) == 0)
			return 1;
	return 0;
}
