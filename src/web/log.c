#include "web/log.h"

/* The bytes of the character that begins here, by its first byte; 0: none does. */
static size_t length_of(unsigned char c)
{
	return c < 0x80                 ? 1
		: c >= 0xc2 && c < 0xe0 ? 2
		: c >= 0xe0 && c < 0xf0 ? 3
		: c >= 0xf0 && c < 0xf5 ? 4
					: 0;
}

/* Do n bytes make a character of Unicode (RFC 3629)? */
static int is_character(const unsigned char *s, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (n == 3)
		return !(s[0] == 0xe0 && s[1] < 0xa0) && !(s[0] == 0xed && s[1] >= 0xa0);
	return n != 4 || (!(s[0] == 0xf0 && s[1] < 0x90) && !(s[0] == 0xf4 && s[1] >= 0x90));
}

/* Copy text; bytes that are no UTF-8, and NUL, become U+FFFD. */
static char *clean(const char *text, size_t len)
{
	char *ret = xmalloc(3 * len + 1), *to = ret;

	for (size_t i = 0; i < len;) {
		const unsigned char *s = (const unsigned char *)text + i;
		size_t n = *s ? length_of(*s) : 0;

		if (n == 0 || n > len - i || !is_character(s, n)) {
			to = mempcpy(to, "\xef\xbf\xbd", 3);
			i++;
			continue;
		}
		to = mempcpy(to, s, n);
		i += n;
	}
	*to = '\0';
	return ret;
}

/* How many bytes at the end begin a character that goes on? */
static size_t cut_off(const char *text, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		size_t n = length_of((unsigned char)text[len - back]);

		if (n > 1)
			return n > back ? back : 0;
		if (n == 1)
			return 0;
	}
	return 0;
}

static ssize_t read_at(int fd, char *buf, size_t size, off_t at)
{
	size_t have = 0;
	ssize_t n;

	while (have < size && (n = pread(fd, buf + have, size - have, at + (off_t)have)) != 0) {
		if (n < 0)
			return -errno;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

int log_before(int fd, off_t to, size_t size, struct log_part *ret)
{
	auto_free char *buf = xmalloc(size);
	const char *begin = buf, *line;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (to < 0 || to > st.st_size)
		to = st.st_size;
	if ((off_t)size > to)
		size = (size_t)to;
	n = read_at(fd, buf, size, to - (off_t)size);
	if (n < 0)
		return (int)n;
	if ((off_t)size < to && (line = memchr(buf, '\n', (size_t)n)) && line + 1 < buf + n)
		begin = line + 1;
	ret->from = to - (off_t)size + (begin - buf);
	ret->to = to - (off_t)size + n;
	ret->size = st.st_size;
	ret->text = clean(begin, (size_t)(buf + n - begin));
	return 0;
}

int log_behind(int fd, off_t from, struct log_part *ret)
{
	auto_free char *buf = xmalloc(LOG_PART);
	struct stat st;
	ssize_t n = read_at(fd, buf, LOG_PART, from);

	if (n < 0)
		return (int)n;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((size_t)n == LOG_PART)
		n -= (ssize_t)cut_off(buf, (size_t)n);
	ret->from = from;
	ret->to = from + n;
	ret->size = st.st_size > ret->to ? st.st_size : ret->to;
	ret->text = clean(buf, (size_t)n);
	return 0;
}
