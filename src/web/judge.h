/* Learns how runs on this machine go: as `mlrun ps` says of their services. */
#pragma once

#include "web/index.h"

struct judge;

int judge_open(struct index *i, struct judge **ret, struct mlr_error *err);
void judge_close(struct judge **j);

/* Ask for services soon: the index has looked at its runs. */
void judge_tick(struct judge *j);
