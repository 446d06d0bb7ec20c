/* Fetches a file from any server, for mlrun build's ADD. */
#ifndef MLR_REGISTRY_DOWNLOAD_H
#define MLR_REGISTRY_DOWNLOAD_H

#include "registry/registry.h"

/*
 * GET a URL, http or https, with checked certificates, and with redirects to https. No credentials
 * are sent. What fails for the moment is tried again.
 *
 *   sink  gets the body; begins anew, at offset 0 of its own, when begin is called
 *   modified  gets the server's Last-Modified, or -1
 *
 * Returns 0; -ENOENT and -EACCES as the server says; the sink's error; the network's errors as
 * registry.h says.
 */
int registry_download(const char *url, const struct registry_options *opt,
	int (*begin)(void *ctx, struct mlr_error *err), registry_sink_fn sink, void *ctx,
	time_t *modified, struct mlr_error *err);

#endif
