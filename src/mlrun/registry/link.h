/* Parses the Link header (RFC 8288), in which registries give a list's next page. */
#ifndef MLR_REGISTRY_LINK_H
#define MLR_REGISTRY_LINK_H

/*
 * The query of the link with the relation "next": "last=x&n=100" of
 * "</v2/a/tags/list?last=x&n=100>; rel=\"next\"". The server may not choose the rest of the URL. To
 * free(); NULL if there is none or it is malformed.
 */
char *link_next_query(const char *value);

#endif
