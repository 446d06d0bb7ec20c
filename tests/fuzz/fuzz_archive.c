/* Archives of images: opened as whatever they look like, and their documents read. */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "oci/manifest.h"
#include "pull/source.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int sink(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	(void)buf;
	(void)err;
	*(size_t *)ctx += len;
	return 0;
}

static void read_image(struct pull_source *s)
{
	auto_call(registry_document_done) struct registry_document doc = { 0 };
	auto_call(oci_document_done) struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *config = NULL;

	if (s->ops->manifest(s, NULL, &doc, &err) < 0 ||
		oci_document_parse(doc.data, doc.len, doc.content_type, NULL, &d, &err) < 0 ||
		d.kind != OCI_MANIFEST)
		return;
	s->ops->blob(s, d.config.digest, d.config.size, &config, &err);
	for (size_t i = 0; i < d.n_layers && i < 4; i++) {
		const struct oci_descriptor *b = &d.layers[i].blob;
		size_t got = 0;

		if (s->ops->stream(s, b->digest, b->size, sink, &got, &err) == 0 && got != b->size)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum oci_transport kinds[] = { OCI_ANY_FILE, OCI_ARCHIVE, OCI_DOCKER_ARCHIVE };
	auto_close int fd = memfd_create("archive", MFD_CLOEXEC);
	auto_free char *path = xasprintf("/proc/self/fd/%d", fd);
	struct plain_options plain = { .tmp_fd = -1 };
	struct oci_platform host;
	struct source_files_options opt = { &host, &plain };

	if (fd < 0 || file_write_all(fd, data, size) < 0)
		return 0;
	oci_platform_host(&host);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		auto_call(oci_ref_done) struct oci_ref stored = { 0 };
		struct oci_name name = { .transport = kinds[i], .path = path };
		struct mlr_error err = MLR_ERROR_INIT;
		struct pull_source *s = NULL;

		if (pull_source_files(&name, &opt, &s, &stored, &err) < 0)
			continue;
		if (!stored.registry)
			abort();
		read_image(s);
		pull_source_free(s);
	}
	return 0;
}
