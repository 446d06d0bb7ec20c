#include "report/html.h"

#include "config.h"
#include "report/report.h"

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

char *html_duration(double s, char buf[HTML_NUMBER])
{
	if (isnan(s))
		strcpy(buf, none);
	else if (s < 99.95)
		snprintf(buf, HTML_NUMBER, s < 10 ? "%.2f s" : "%.1f s", s);
	else if (s < 3600)
		snprintf(buf, HTML_NUMBER, "%d min %02d s", (int)(s + 0.5) / 60,
			(int)(s + 0.5) % 60);
	else
		snprintf(buf, HTML_NUMBER, "%.0f h %02d min", floor(s / 3600),
			(int)fmod(s / 60, 60));
	return buf;
}

char *html_latency(double ms, char buf[HTML_NUMBER])
{
	if (isnan(ms))
		strcpy(buf, none);
	else if (ms < 10)
		snprintf(buf, HTML_NUMBER, "%.3f ms", ms);
	else if (ms < 1000)
		snprintf(buf, HTML_NUMBER, "%.1f ms", ms);
	else
		snprintf(buf, HTML_NUMBER, "%.2f s", ms / 1000);
	return buf;
}

char *html_count(double n, char buf[HTML_NUMBER])
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

char *html_percent(double share, int decimals, char buf[HTML_NUMBER])
{
	if (isnan(share) || share < 0 || share > 1e6)
		return strcpy(buf, none);
	snprintf(buf, HTML_NUMBER, "%.*f %%", decimals, 100 * share);
	return buf;
}

char *html_share(double share, char buf[HTML_NUMBER])
{
	return html_percent(share, 2, buf);
}

char *html_cut(const char *s, size_t max)
{
	size_t n = strlen(s);

	if (n > max)
		for (n = max; n > 0 && (s[n] & 0xc0) == 0x80; n--)
			;
	return xstrndup(s, n);
}

char *html_base64(const uint8_t *bytes, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = xmalloc((n + 2) / 3 * 4 + 1), *to = text;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)bytes[i] << 16 |
			(uint32_t)(i + 1 < n ? bytes[i + 1] : 0) << 8 |
			(uint32_t)(i + 2 < n ? bytes[i + 2] : 0);

		*to++ = digits[v >> 18];
		*to++ = digits[v >> 12 & 63];
		*to++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*to++ = i + 2 < n ? digits[v & 63] : '=';
	}
	*to = '\0';
	return text;
}

void html_table_begin(FILE *f, const char *section, const char *title, const char *table)
{
	html_format(f,
		"<section aria-labelledby=\"h-%s\"><h2 id=\"h-%s\">%s</h2>\n<div class=\"scroll\" "
		"tabindex=\"0\" role=\"region\" aria-labelledby=\"h-%s\"><table id=\"%s\">\n",
		section, section, title, section, table);
}

void html_column(FILE *f, size_t run, const char *name)
{
	fprintf(f, "<th scope=\"col\"><span class=\"dot c%zu\"></span>", run % 8);
	html_format(f, "%s</th>", name);
}

/* Write how one number compares with another; nothing if that says nothing. */
static void write_ratio(FILE *f, double of, double to)
{
	double x = of / to, y = x < 1 ? 1 / x : x;

	if (isfinite(y) && x > 0)
		fprintf(f, "%s%.*f", x < 1 ? "÷" : "×", y < 9.95 ? 2 : y < 99.5 ? 1 : 0, y);
}

void html_row(FILE *f, const char *name, html_number *shown, const double *v, size_t n, size_t base)
{
	char text[HTML_NUMBER];

	html_format(f, "<tr><th scope=\"row\">%s</th>", name);
	for (size_t i = 0; i < n; i++) {
		html_format(f, "<td class=\"num\">%s <small>", shown(v[i], text));
		if (base < n && i != base)
			write_ratio(f, v[i], v[base]);
		fputs("</small></td>", f);
	}
	fputs("</tr>\n", f);
}

char *html_script_hash(const char *script)
{
	uint8_t bytes[32];
	char hex[HASH_HEX_SIZE];

	hash_short(script, strlen(script), hex);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		bytes[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return html_base64(bytes, sizeof(bytes));
}

void html_page_begin(FILE *f, const char *title)
{
	auto_free char *hash = html_script_hash(report_js);

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n", f);
	fprintf(f,
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"img-src data:; style-src 'unsafe-inline'; script-src 'sha256-%s'; base-uri "
		"'none'; form-action 'none'\">\n",
		hash);
	fputs("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n",
		f);
	fputs("<meta name=\"generator\" content=\"mltrain " PACKAGE_VERSION "\">\n", f);
	html_format(f, "<title>%s</title>\n", title);
	fprintf(f, "<style>\n%s</style>\n</head>\n<body>\n", report_css);
}

void html_page_end(FILE *f)
{
	fputs("</main>\n<footer><p>Made by mltrain " PACKAGE_VERSION ".</p></footer>\n", f);
	fprintf(f, "<script>%s</script>\n</body>\n</html>\n", report_js);
}
