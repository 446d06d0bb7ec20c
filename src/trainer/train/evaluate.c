#include "trainer/train/evaluate.h"

#include "trainer/backend/ops.h"
#include "trainer/model/checkpoint.h"

#include <errno.h>

void evaluate_fill(
	struct engine *e, const uint8_t *images, const uint32_t *order, int n, size_t pixels)
{
	for (int i = 0; i < n; i++) {
		const uint8_t *from = images + (order ? order[i] : (uint32_t)i) * pixels;
		float *to = e->input + (size_t)i * pixels;

		for (size_t k = 0; k < pixels; k++)
			to[k] = ((float)from[k] - INPUT_MEAN) / INPUT_SCALE;
	}
}

int64_t evaluate(struct engine *e, int classes, const uint8_t *images, const uint8_t *labels,
	uint32_t count, size_t pixels, const volatile sig_atomic_t *stop)
{
	int64_t wrong = 0;

	for (uint32_t at = 0; at < count; at += (uint32_t)e->batch) {
		int n = count - at < (uint32_t)e->batch ? (int)(count - at) : e->batch;
		const float *logits;

		if (stop && *stop)
			return -EINTR;
		evaluate_fill(e, images + at * pixels, NULL, n, pixels);
		logits = e->backend->forward(e, n);
		for (int i = 0; i < n; i++)
			wrong += op_argmax(classes, logits + i * classes) !=
				labels[at + (uint32_t)i];
	}
	return wrong;
}
