/* The metadata of models in the v2 protocol. */
#ifndef MLT_SERVE_V2_H
#define MLT_SERVE_V2_H

#include "serve/ask.h"

extern const struct serve_v2_output {
	const char *name, *datatype;
	int by_class; /* [n][classes], else [n] */
} serve_v2_outputs[SERVE_OUTPUTS];

#endif
