/* The page at "/": draw a digit or drop a picture. Self-contained, as its policy tells browsers. */
#ifndef MLT_SERVE_PAGE_H
#define MLT_SERVE_PAGE_H

/* The page, to free(); NULL without memory. */
char *serve_page(void);

/* page.css and page.js, which the build puts into the program. */
extern const char serve_page_css[], serve_page_js[];

#endif
