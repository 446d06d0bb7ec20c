/*
 * TensorBoard's event files: records framed as TFRecord (a length and two masked CRC-32C;
 * TensorFlow's core/lib/io/record_writer.cc), each an Event of core/util/event.proto in protobuf's
 * wire format.
 *
 * A run is three of TensorBoard's, whose equal tags are curves of one chart, as Keras has them:
 *
 *   DIR/train        loss, cross_entropy, error, lr, images_per_second; load/cpu_process_percent,
 *                    load/cpu_node_percent, load/rss_bytes, load/gpu0_percent,
 *                    load/gpu0_memory_bytes, load/gpu0_power_watts, load/gpu0_temperature_celsius;
 *                    the text hparams; histograms weights/LAYER.weight, weights/LAYER.bias at the
 *                    start and after every epoch; the pictures samples/…
 *   DIR/validation   cross_entropy, error
 *   DIR/test         cross_entropy, error; the pictures mistakes/…
 *
 * Each has a file of this process, events.out.tfevents.<time>.<host>.<pid>. A resumed run creates
 * others beside them and records the step at which it begins, so that TensorBoard drops the earlier
 * files' later steps.
 */
#pragma once

#include "metrics/usage.h"
#include "train/train.h"

#include <jansson.h>

struct tfevents;

#define TFEVENTS_SAMPLES 12 /* pictures of training images */

/* Create the first file, and its directory if missing. Returns 0, or an errno, and err names the
 * path. */
int tfevents_open(const char *dir, struct tfevents **ret, struct mlr_error *err);

/* Begin a run where the state stands: write its facts (records.h) as a table of text, weights and
 * samples. */
void tfevents_start(struct tfevents *t, const json_t *run, const struct train_state *s,
	const struct dataset *data);

/*
 * Write what a moment has. It reaches the file within a few seconds, and at the end of an
 * epoch and of the run. A failure is kept for tfevents_close().
 *
 *   rate   images a second
 */
void tfevents_tell(
	struct tfevents *t, const struct train_state *s, const struct dataset *data, double rate);

void tfevents_load(struct tfevents *t, const struct usage *l, uint64_t step);

/* Close and free; NULL is fine. Returns 0, or the first failure to write since it was opened. */
int tfevents_close(struct tfevents **t, struct mlr_error *err);

/* CRC-32C (Castagnoli; RFC 3720, B.4) of some bytes. */
uint32_t tfevents_crc32c(const void *bytes, size_t n);
