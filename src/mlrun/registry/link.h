/*
 * The Link header (RFC 8288) as registries use it to tell of a list's next page.
 */
#ifndef MLR_REGISTRY_LINK_H
#define MLR_REGISTRY_LINK_H

/*
 * The query of the link whose relation is "next": "last=x&n=100" of
 * "</v2/a/tags/list?last=x&n=100>; rel=\"next\"". The rest of the address is not the server's to
 * choose. To free(); NULL when there is none, or one that is malformed.
 */
char *link_next_query(const char *value);

#endif
