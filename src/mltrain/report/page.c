#include "report/page.h"

#include "base/base.h"
#include "config.h"
#include "report/html.h"
#include "report/report.h"

/* Format a digest for Content-Security-Policy: base64 of its bytes (W3C, CSP 3, 2.3.1). */
static void script_hash(char ret[48])
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char bytes[33] = { 0 };
	char hex[HASH_HEX_SIZE];
	char *p = ret;

	hash_short(report_js, strlen(report_js), hex);
	for (int i = 0; i < 32; i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

		bytes[i] = (unsigned char)strtoul(two, NULL, 16);
	}
	for (int i = 0; i < 33; i += 3) {
		unsigned v = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];

		*p++ = alphabet[v >> 18];
		*p++ = alphabet[v >> 12 & 63];
		*p++ = alphabet[v >> 6 & 63];
		*p++ = alphabet[v & 63];
	}
	p[-1] = '='; /* 32 bytes end with one padding character */
	*p = '\0';
}

void page_begin(FILE *f, const char *title)
{
	char hash[48];

	script_hash(hash);
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

void page_end(FILE *f)
{
	fputs("</main>\n<footer><p>Made by mltrain " PACKAGE_VERSION ".</p></footer>\n", f);
	fprintf(f, "<script>%s</script>\n</body>\n</html>\n", report_js);
}
