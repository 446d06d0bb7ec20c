#include "serve/page.h"

#include "base/base.h"

#include <openssl/evp.h>

/* A digest for Content-Security-Policy: base64 of its bytes (W3C, CSP 3, 2.3.1). */
static int script_hash(unsigned char ret[48])
{
	unsigned char bytes[EVP_MAX_MD_SIZE];
	unsigned n;

	if (!EVP_Digest(serve_page_js, strlen(serve_page_js), bytes, &n, EVP_sha256(), NULL))
		return -1;
	EVP_EncodeBlock(ret, bytes, (int)n);
	return 0;
}

char *serve_page(void)
{
	unsigned char hash[48];

	if (script_hash(hash) < 0)
		return NULL;
	return xasprintf(
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"img-src data: blob:; connect-src 'self'; style-src 'unsafe-inline'; script-src "
		"'sha256-%s'; base-uri 'none'; form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<link rel=\"icon\" href=\"data:,\">\n"
		"<title>mltrain serve</title>\n<style>\n%s</style>\n</head>\n<body>\n"
		"<h1>What does it show?</h1>\n"
		"<p>Draw, or drop a PNG or JPEG here. A drawing is white on black, as the digits of "
		"MNIST are.</p>\n"
		"<main>\n<div>\n<canvas id=\"pad\" width=\"280\" height=\"280\" tabindex=\"0\" "
		"aria-label=\"a square to draw on\"></canvas>\n<p>"
		"<button id=\"clear\">Clear</button> <label>Picture <input id=\"file\" type=\"file\" "
		"accept=\"image/png,image/jpeg\"></label></p>\n"
		"<p id=\"login\" hidden><label>Token <input id=\"token\" type=\"password\" "
		"autocomplete=\"off\"></label></p>\n</div>\n"
		"<table aria-live=\"polite\"><tbody id=\"answer\"></tbody></table>\n</main>\n"
		"<p id=\"note\" role=\"status\"></p>\n<script>%s</script>\n</body>\n</html>\n",
		(const char *)hash, serve_page_css, serve_page_js);
}
