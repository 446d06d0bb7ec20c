#include "report/html.h"

#include "base/base.h"

#include <math.h>

static const char none[] = "–";

void html_text(FILE *f, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '&')
			fputs("&amp;", f);
		else if (c == '<')
			fputs("&lt;", f);
		else if (c == '>')
			fputs("&gt;", f);
		else if (c == '"')
			fputs("&quot;", f);
		else if (c == '\'')
			fputs("&#39;", f);
		else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			fputs("\xef\xbf\xbd", f);
		else
			fputc(c, f);
	}
}

void html_format(FILE *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	for (const char *p = fmt; *p; p++)
		if (p[0] == '%' && p[1] == 's') {
			html_text(f, va_arg(ap, const char *));
			p++;
		} else {
			fputc(*p, f);
		}
	va_end(ap);
}

char *html_duration(double s, char buf[32])
{
	if (isnan(s))
		strcpy(buf, none);
	else if (s < 99.95)
		snprintf(buf, 32, s < 10 ? "%.2f s" : "%.1f s", s);
	else if (s < 3600)
		snprintf(buf, 32, "%d min %02d s", (int)(s + 0.5) / 60, (int)(s + 0.5) % 60);
	else
		snprintf(buf, 32, "%.0f h %02d min", floor(s / 3600), (int)fmod(s / 60, 60));
	return buf;
}

char *html_count(double n, char buf[48])
{
	char digits[24];
	size_t len;
	char *p = buf;

	if (isnan(n) || n < 0 || n > 1e15)
		return strcpy(buf, none);
	snprintf(digits, sizeof(digits), "%.0f", n);
	len = strlen(digits);
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			p = stpcpy(p, "\xe2\x80\xaf"); /* U+202F, narrow no-break space */
		*p++ = digits[i];
	}
	*p = '\0';
	return buf;
}

char *html_percent(double share, int decimals, char buf[32])
{
	if (isnan(share) || share < 0 || share > 1e6)
		return strcpy(buf, none);
	snprintf(buf, 32, "%.*f %%", decimals, 100 * share);
	return buf;
}
